"""Configs of DFlash, DFlash 2, DSpark and LiLiCorr draft models: sizes, options, tensor shapes.

They are published in three forms: z-lab's with a `dflash_config`, DeepSpec's without, some with
layers of Gemma 4, and that of vLLM's speculators with a `transformer_layer_config`, and an output
head for a part of the tokens.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mlx_engine.models import layer_specs, model_spec
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.drafters.block_choice import CandidateSelector, MarkovHead
from mlx_engine.models.drafters.lattice_choice import LatticeSizes, lattice_name
from mlx_engine.models.families.gemma4 import FULL, layer_type_rope
from mlx_engine.models.families.llama import plain_feed_forward, read_activation
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.rope import rope_spec
from mlx_engine.values.errors import BadModelFile

_KINDS = ("full_attention", "sliding_attention")
_CODEBOOKS = ("predecessor_codebook", "successor_codebook")


def dflash_name(name: str) -> str:
    """Name of a DFlash model's tensor without prefix; codebooks get the ending of matrices."""
    bare = name.removeprefix("model.")
    if bare.startswith("lilicorr."):
        return lattice_name(bare)
    bare = bare.replace("confidence_proj.", "confidence_head.proj.")
    return f"{bare}.weight" if bare.endswith(_CODEBOOKS) else bare


@dataclass(frozen=True, slots=True)
class ConvolutionSizes:
    """DFlash 2's convolutions: taps, and how many neighbouring elements share dynamic ones."""

    taps: int
    group: int


@dataclass(frozen=True, slots=True)
class SelectorSizes:
    """DFlash 2's candidate selector: size of its codebooks' rows, candidates of each row."""

    rank: int
    candidates: int


@dataclass(frozen=True, slots=True)
class MarkovSizes:
    """DSpark's Markov head: its rank, whether there is a confidence head and what that reads."""

    rank: int
    has_confidence: bool
    joined: bool


@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """Sizes of a DFlash draft model.

    rows: of an output head of its own, None where the target's is used. layers: layers of the
    target whose residuals are read, in the order of `fc`. drafts: tokens of a
    block; from_newest: the newest token's row predicts the first of them, else a mask's does.
    windows: for each layer how many tokens a row sees, None for all. causal: for each layer whether
    rows of a block see only those before them. sinks: an extra logit for each head. scale,
    multiplier: of embeddings and logits; cap: of logits. convolution, choice: None in the first
    DFlash. is_gemma: layers are Gemma 4's, with norms before and behind and a factor at their end.
    """

    layers: tuple[int, ...]
    drafts: int
    from_newest: bool
    mask_token: int
    hidden: int
    attention: layer_specs.AttentionSpec
    feed: FeedForwardSpec
    eps: float
    vocabulary: int
    rows: int | None
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    scale: float
    multiplier: float
    cap: float | None
    sinks: bool
    convolution: ConvolutionSizes | None
    choice: SelectorSizes | MarkovSizes | LatticeSizes | None
    is_gemma: bool

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "DFlashConfig":
        """Read a DFlash model's config.

        Raises BadModelFile for a wrong key, UnsupportedModel for variants that are not run.
        """
        nested, layer = config.get("dflash_config"), config.get("transformer_layer_config")
        is_speculators = isinstance(layer, Mapping)
        flat = {**layer, **config} if isinstance(layer, Mapping) else config
        fields = ConfigFields({**flat, **(nested if isinstance(nested, Mapping) else {})}, origin)
        fields.require({"attention_bias": False})
        projector = fields.string("projector_type", "")
        is_dspark = fields.has("markov_rank") or projector == "dspark"
        is_lattice = fields.has("lilicorr_candidate_topk") or projector == "lilicorr"
        is_newer = is_dspark or is_lattice or fields.has("selector_rank")
        if is_dspark:
            fields.require({"projector_type": "dspark", "markov_head_type": "vanilla"})
        kinds = fields.layer_types(*_KINDS) or (_KINDS[0],) * fields.layers()
        sliding = [kind == _KINDS[1] for kind in kinds]
        window = next((n for n in ("swa_window_size", "sliding_window") if fields.has(n)), "")
        size_of_window = fields.count(window or "sliding_window") if any(sliding) else None
        names = ("causal", "is_causal", "dflash_query_causal")
        told = next((fields.flag(name, default=False) for name in names if fields.has(name)), None)
        causal = False if told is None and is_newer and not is_speculators else told
        layers = fields.counts("target_layer_ids")
        if is_speculators:
            causal = False if fields.flag("sliding_window_non_causal", default=False) else told
            # they number a layer's input, which is the output of the one before
            layers = tuple(number - 1 for number in fields.counts("aux_hidden_state_layer_ids"))
        hidden, is_gemma = fields.count("hidden_size"), fields.has("global_head_dim")
        attention = _gemma_attention(fields) if is_gemma else _attention(fields)
        feed = plain_feed_forward(fields)
        if is_gemma:
            fields.require({"enable_moe_block": False, "hidden_size_per_layer_input": 0})
            activation = read_activation(fields, "gelu_pytorch_tanh", "hidden_activation")
            feed = replace(feed, activation=activation)
        vocabulary = fields.count("vocab_size")
        if not layers:
            raise BadModelFile(
                "{origin}: the config names no target_layer_ids. Get it again.", origin=origin
            )
        block = fields.count("block_size", 16, minimum=2, maximum=256)
        from_newest = (is_dspark or is_speculators) and fields.flag(
            "sample_from_anchor", default=not is_speculators
        )
        has_newest = not is_dspark or fields.flag("dspark_bonus_anchor", default=False)
        if is_speculators:
            has_newest = not from_newest
        choice: SelectorSizes | MarkovSizes | LatticeSizes | None
        if is_lattice:
            choice = LatticeSizes.read(fields, block - 1)
        else:
            choice = (
                _markov_head_sizes(fields) if is_dspark else _selector_sizes(fields, vocabulary)
            )
        return DFlashConfig(
            layers=layers,
            drafts=block - 1 if has_newest else block,
            from_newest=from_newest,
            mask_token=fields.count("mask_token_id", minimum=0, maximum=vocabulary - 1),
            hidden=hidden,
            attention=attention,
            feed=feed,
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            rows=fields.count("draft_vocab_size", vocabulary)
            if is_speculators or fields.flag("has_own_lm_head", default=False)
            else None,
            windows=tuple(size_of_window if slides else None for slides in sliding),
            causal=tuple(slides if causal is None else causal for slides in sliding),
            scale=fields.number("input_embedding_scale", hidden**0.5 if is_gemma else 1.0),
            multiplier=fields.number("output_multiplier", 1.0),
            cap=fields.number("final_logit_softcapping", 1.0)
            if fields.has("final_logit_softcapping")
            else None,
            sinks=fields.flag("attention_sink_bias", default=False),
            convolution=_convolution_sizes(fields, hidden),
            choice=choice,
            is_gemma=is_gemma,
        )

    def tensors(self, stored_names: Collection[str] = ()) -> layer_specs.Shapes:
        """Tensor name -> shape for all tensors of a DFlash model; stored_names: in the file."""
        hidden = self.hidden
        block = model_spec.BlockSpec(self.attention, self.feed).tensors(hidden)
        made: layer_specs.Shapes = {
            "fc.weight": (hidden, len(self.layers) * hidden),
            "hidden_norm.weight": (hidden,),
            "norm.weight": (hidden,),
        }
        if self.is_gemma:
            block |= {f"{end}_feedforward_layernorm.weight": (hidden,) for end in ("pre", "post")}
            block["layer_scalar"] = (1,)
        if self.sinks:
            block["self_attn.attention_sink_bias"] = (self.attention.heads,)
        if self.convolution is not None:
            taps, groups = self.convolution.taps, hidden // self.convolution.group
            for name in ("attention_conv", "mlp_conv"):
                block[f"{name}.base_kernel"] = (2, taps, hidden)
                block[f"{name}.kernel_projection.weight"] = (2 * taps * groups, hidden)
        for number in range(len(self.windows)):
            made |= {f"layers.{number}.{name}": shape for name, shape in block.items()}
        if self.rows is not None:
            made["lm_head.weight"] = (self.rows, hidden)
        if "embed_tokens.weight" in stored_names:
            made["embed_tokens.weight"] = (self.vocabulary, hidden)
        match self.choice:
            case SelectorSizes(rank=rank):
                pairs = CandidateSelector.tensors(hidden, self.vocabulary, rank)
                made |= {f"candidate_selector.{name}": shape for name, shape in pairs.items()}
            case MarkovSizes(rank, has, joined):
                tokens = (self.vocabulary, self.rows or self.vocabulary)
                made |= MarkovHead.tensors(hidden, tokens, rank, has_confidence=has, joined=joined)
            case LatticeSizes() as lattice:
                pairs = lattice.tensors(hidden)
                made |= {f"lilicorr.{name}": shape for name, shape in pairs.items()}
        return made


def _attention(fields: ConfigFields) -> layer_specs.AttentionSpec:
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    size = fields.count("head_dim", max(1, hidden // heads))
    interleaved = not fields.flag("rope_is_neox_style", default=True)
    return layer_specs.AttentionSpec(
        heads,
        fields.kv_heads(heads),
        size,
        size,
        rope_spec(fields, size, rotated_share=1.0, interleaved=interleaved),
        qk_norm="head",
        value_scale=fields.number("attention_value_scale", 1.0),
    )


def _gemma_attention(fields: ConfigFields) -> layer_specs.AttentionSpec:
    """Attention of Gemma 4's full layers; keys may be values, and values are normed."""
    heads, size = fields.count("num_attention_heads"), fields.count("global_head_dim")
    shares = fields.flag("attention_k_eq_v", default=False)
    kept = fields.count("num_global_key_value_heads" if shares else "num_key_value_heads")
    if heads % kept:
        raise fields.bad_field("num_global_key_value_heads", kept, f"a divisor of {heads}")
    return layer_specs.AttentionSpec(
        heads,
        kept,
        size,
        size,
        layer_type_rope(fields, size, FULL),
        qk_norm="head",
        scale=1.0,
        values="keys" if shares else "projected",
        value_norm=True,
    )


def _convolution_sizes(fields: ConfigFields, hidden: int) -> ConvolutionSizes | None:
    if not fields.count("conv_kernel_size", 0, minimum=0):
        return None
    taps, group = fields.count("conv_kernel_size", maximum=64), fields.count("conv_group_size")
    if hidden % group:
        raise fields.bad_field("conv_group_size", group, f"a divisor of {hidden}")
    return ConvolutionSizes(taps, group)


def _selector_sizes(fields: ConfigFields, vocabulary: int) -> SelectorSizes | None:
    if not fields.has("selector_rank"):
        return None
    rank = fields.count("selector_rank", maximum=2**14)
    return SelectorSizes(rank, fields.count("selector_top_k", maximum=vocabulary))


def _markov_head_sizes(fields: ConfigFields) -> MarkovSizes | None:
    rank = fields.count("markov_rank", 256, minimum=0, maximum=2**14)
    if not rank:
        fields.require({"enable_confidence_head": False})
        return None
    return MarkovSizes(
        rank=rank,
        has_confidence=fields.flag("enable_confidence_head", default=False),
        joined=fields.flag("confidence_head_with_markov", default=True),
    )
