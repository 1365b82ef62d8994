"""Inkling (`inkling_mm_model`): biases by distance in place of RoPE, short convolutions, 8 heads.

Text part of Inkling and Inkling-Small. Each layer has four short convolutions, of keys, of values
and of what attention and feed-forward add to the residual; a factor of the feed-forward's output
goes into the last one's weights. Shared experts are scored by the router, beside the chosen ones.
Up to 8 MTP heads, one after the other: layers with dense feed-forwards, which read the trunk's
state behind the final norm, and pass on their residual.

References disagree about the heads, of which no published weights were run here:

- They read embeddings behind the trunk's norm of embeddings in vLLM, SGLang and here, raw ones in
transformers and mlx-vlm. Others measured 78 % and 66 % of first drafts accepted on Inkling-Small.
- Their logits are made of the residual in vLLM, SGLang, transformers and here, of its final norm in
mlx-vlm. Neither published model has the norm that `chain_hidden_post_norm` asks for.
- Later heads read, in transformers and vLLM, states of the head before for every row; here they
read the trunk's for rows that are settled.
- Heads with a sliding window attend to all tokens in transformers 5.23.

The published NVFP4 folders are not read: their scales are named and paired otherwise.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import QueryLogScale, RelativeAttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import ResidualConvolutionSpec
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.models.tensor_recipes import Recipe, Recipes, StoredPiece, StridedRows

_ATTENTION = {"wq_du": "q", "wk_dv": "k", "wv_dv": "v", "wr_du": "r", "wo_ud": "o"}
_CONVOLUTIONS = {
    "attn.k_sconv": "self_attn.k_sconv",
    "attn.v_sconv": "self_attn.v_sconv",
    "self_attn.k_sconv": "self_attn.k_sconv",
    "self_attn.v_sconv": "self_attn.v_sconv",
    "attn_sconv": "conv.attn_sconv",
    "mlp_sconv": "conv.mlp_sconv",
}
_TAPS = ".conv1d.weight"
_WHOLE = re.compile(r"padded\.((?:embed_tokens|lm_head)\.\w+)")
_GATE_UP = re.compile(
    r"(.+\.mlp\.)(?:experts\.w13_weight|(shared_expert\.)shared_w13_weight|w13_dn\.weight)"
)
_SHARED = re.compile(r"(.+\.mlp\.shared_expert\.)(?:shared_w2_weight|(\w+_proj))")
_CHAIN_NORM = "layers.0.chain_norm.weight"
_UNPADDED = "unpadded_vocab_size"
_SLIDING = ("hybrid_sliding", "sliding_attention")


class Inkling(NativeFamily):
    """Inkling and Inkling-Small (`inkling_mm_model`): biases by distance, short convolutions."""

    renames: ClassVar = {
        **dict.fromkeys(("embed", "embed_tokens"), "padded.embed_tokens"),
        **dict.fromkeys(("unembed", "lm_head"), "padded.lm_head"),
        "embed_tokens.embed_norm": "embed_norm",
        "attn_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "attn": "self_attn",
        **{f"attn.{theirs}": f"self_attn.{part}_proj" for theirs, part in _ATTENTION.items()},
        "self_attn.rel_proj": "self_attn.rel_logits_proj.proj",
        **{
            f"{theirs}{kind}": f"{ours}.conv1d"
            for theirs, ours in _CONVOLUTIONS.items()
            for kind in ("", ".conv1d", ".conv")
        },
        "mlp.gate.bias": "mlp.gate.e_score_correction_bias",
        "mlp.gate_weight": "mlp.gate.weight",
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
        "mlp.w2_md": "mlp.down_proj",
        **dict.fromkeys(("mlp.gate.global_scale", "mlp.global_scale"), "conv.scale"),
    }
    head_names = HeadNames(
        {"input_proj": "join", "hidden_norm": "hnorm", "embed_norm": "enorm", "eh_proj": "join"}
    )
    heads_key = "num_mtp_layers"

    @property
    def _fields(self) -> ConfigFields:
        fields = super()._fields
        own = fields.section("mtp_config")
        names = {
            "model_max_length": "max_position_embeddings",
            "sconv_kernel_size": "conv_kernel_size",
        }
        values = {ours: fields.count(name) for name, ours in names.items() if fields.has(name)}
        if own is None:
            return fields.with_values(**values)
        return fields.with_values(
            **values,
            num_mtp_layers=own.count("num_nextn_predict_layers", 1, 0, 64),
            mtp_local_layer_ids=list(own.counts("local_layer_ids")),
            chain_hidden_post_norm=own.flag("chain_hidden_post_norm", default=False),
        )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        layers, own_width = fields.layers(), fields.has("dense_intermediate_size")
        width = fields.count("dense_intermediate_size" if own_width else "intermediate_size")
        dense = FeedForwardSpec(width)
        inner = fields.count("intermediate_size" if own_width else "moe_intermediate_size", 3072)
        full, sliding = _attention(fields, ""), _attention(fields, "swa_")
        experts = _experts(fields, inner)
        blocks = [
            _block(fields, sliding if slides else full, experts if is_sparse else dense)
            for slides, is_sparse in zip(
                _sliding_layers(fields, layers), _sparse_layers(fields, layers), strict=True
            )
        ]
        local = fields.counts("mtp_local_layer_ids")
        heads = MtpHeadsSpec(
            tuple(
                _block(fields, sliding if number in local else full, dense)
                for number in range(max(1, fields.count("num_mtp_layers", 1, 0, 64)))
            ),
            embedding_first=False,
            norm="own" if fields.flag("chain_hidden_post_norm", default=False) else "none",
        )
        plain = plain_model(fields, blocks)
        return replace(
            plain,
            vocabulary=fields.count(_UNPADDED, plain.vocabulary, maximum=plain.vocabulary),
            tied=False,
            logit_scale=1 / fields.number("logits_mup_width_multiplier", 24.0),
            embed_norm="own",
            heads=heads,
        )

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How tables without padding, gates beside what they multiply, and a norm are assembled."""
        listed = list(names)
        made = dict(super().tensor_recipes(listed))
        for name in listed:
            if (whole := _WHOLE.fullmatch(name)) is not None:
                rows = range(self.spec.vocabulary) if self._fields.has(_UNPADDED) else None
                made[whole[1]] = Recipe((StoredPiece(name, rows),))
            elif (both := _GATE_UP.fullmatch(name)) is not None:
                is_routed = name.endswith("experts.w13_weight")
                place = both[1] + ("switch_mlp." if is_routed else both[2] or "")
                for number, part in enumerate(("gate", "up")):
                    rows_of = StridedRows(number, 2)
                    made[f"{place}{part}_proj.weight"] = Recipe((StoredPiece(name, rows_of),))
            elif (shared := _SHARED.fullmatch(name)) is not None:
                made[f"{shared[1]}{shared[2] or 'down_proj'}.weight"] = Recipe((StoredPiece(name),))
            elif name.endswith(".mlp.experts.w2_weight"):
                base = name.removesuffix("experts.w2_weight")
                made[f"{base}switch_mlp.down_proj.weight"] = Recipe((StoredPiece(name),))
            elif name.endswith(_TAPS):
                taps = Recipe((StoredPiece(name),), form="transposed", inputs=1)
                made[name.removesuffix(_TAPS) + ".weight"] = taps
            elif name == _CHAIN_NORM:
                heads = [n.removesuffix("join.weight") for n in listed if n.endswith("join.weight")]
                made |= {f"{head}norm.weight": Recipe((StoredPiece(name),)) for head in heads}
        return made


def _sliding_layers(fields: ConfigFields, layers: int) -> list[bool]:
    """For each layer whether it has a sliding window."""
    kinds = fields.layer_types(*_SLIDING, "hybrid", "full_attention")
    if kinds:
        return [kind in _SLIDING for kind in kinds]
    local = fields.counts("local_layer_ids")
    if fields.has("local_layer_ids"):
        return [layer in local for layer in range(layers)]
    return [(layer + 1) % 6 > 0 for layer in range(layers)]


def _sparse_layers(fields: ConfigFields, layers: int) -> list[bool]:
    """For each layer whether it has experts."""
    kinds = fields.layer_types("sparse", "dense", name="mlp_layer_types")
    first = fields.count("dense_mlp_idx", 0, minimum=0)
    return [kind == "sparse" for kind in kinds] or [layer >= first for layer in range(layers)]


def _attention(fields: ConfigFields, prefix: str) -> RelativeAttentionSpec:
    """Read the attention of full layers, or with a prefix of sliding ones."""
    heads = fields.count(f"{prefix}num_attention_heads", 64)
    kept = fields.count(f"{prefix}num_key_value_heads", 16 if prefix else 8)
    if heads % kept:
        wanted = f"a divisor of the {heads} heads"
        raise fields.bad_field(f"{prefix}num_key_value_heads", kept, wanted)
    window = fields.count("sliding_window_size", 512) if prefix else None
    growth = None
    if window is None and fields.has("log_scaling_n_floor"):
        weight = fields.number("log_scaling_alpha", 0.1)
        growth = QueryLogScale(weight, fields.count("log_scaling_n_floor"))
    return RelativeAttentionSpec(
        heads=heads,
        kv_heads=kept,
        size=fields.count(f"{prefix}head_dim", 128, maximum=2**14),
        bias_size=fields.count("d_rel", 16),
        extent=window or fields.count("rel_extent", 1024),
        window=window,
        growth=growth,
    )


def _block(
    fields: ConfigFields, mixer: RelativeAttentionSpec, feed: ExpertsSpec | FeedForwardSpec
) -> BlockSpec:
    hidden, keys = fields.count("hidden_size"), mixer.kv_heads * mixer.size
    taps = fields.count("conv_kernel_size", 4, minimum=2, maximum=2**10)
    of_keys_values = (("k_sconv", keys), ("v_sconv", keys))
    return BlockSpec(
        mixer,
        feed,
        convolutions=(
            ResidualConvolutionSpec(mixer.prefix, of_keys_values, taps),
            ResidualConvolutionSpec("conv", (("attn_sconv", hidden),), taps),
            ResidualConvolutionSpec("conv", (("mlp_sconv", hidden),), taps, scaled=True),
        ),
    )


def _experts(fields: ConfigFields, inner: int) -> ExpertsSpec:
    count = fields.count("n_routed_experts", 256, maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 6, maximum=count),
        feed=FeedForwardSpec(inner),
        score="sigmoid",
        choice_bias=True,
        float32_router=True,
        scale=fields.number("route_scale", 8.0),
        scored_shared=fields.count("n_shared_experts", 2, maximum=64),
    )
