"""Llama and Mistral, with the standard layer; Granite, OLMo, Phi-3 and GLM-4, which vary it.

Other families build on the helpers here: `plain_attention`, `plain_feed_forward`, `plain_model`.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.feed_forward_specs import Activation, ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, QueryPositionScale, RopeSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import context_length, rope_spec
from mlx_engine.models.tensor_recipes import Recipes, fused_recipes, qkv_recipes
from mlx_engine.values.errors import UnsupportedModel

_WINDOWED = ("mistral", "ministral", "ministral3", "mixtral")
"""Types whose config may ask for a window; others have such a key and do not mean it."""

_YARN = {
    "rope_type": "yarn",
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""Of Ministral 3, where its config does not say."""


class Llama(NativeFamily):
    """Llama, Mistral and alike, by their model types; also `mixtral`, `seed_oss`, `smollm3`."""

    renames: ClassVar = {"block_sparse_moe": "mlp"}

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if self.model_type == "ministral3" and not fields.has("rope_parameters"):
            fields = fields.with_defaults(rope_theta=1e6, rope_scaling=_YARN)
        attention = plain_attention(fields, bias="attention_bias")
        out_bias = fields.flag("attention_out_bias", default=attention.qkv_bias)
        attention = replace(attention, out_bias=out_bias, growth=self._query_position_scale(fields))
        feed = _feed_forward_spec(fields)
        blocks = [
            BlockSpec(
                replace(attention, window=window, rope=attention.rope if turns else None),
                feed,
            )
            for window, turns in zip(
                fields.layer_windows(_window_size(fields)), _rope_layers(fields), strict=True
            )
        ]
        return plain_model(fields, blocks)

    def _query_position_scale(self, fields: ConfigFields) -> QueryPositionScale | None:
        rope = fields.rope_fields("full_attention")
        if self.model_type != "ministral3" or not rope.non_negative_number("llama_4_scaling_beta"):
            return None
        trained = rope.count("original_max_position_embeddings", 16384)
        return QueryPositionScale(rope.number("llama_4_scaling_beta", 0.1), trained)


class Granite(Llama):
    """Granite 3 and MiniCPM: Llama with multipliers of scores, embeddings, residuals and logits."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if self.model_type == "minicpm":
            fields = _with_granite_fields(fields)
        model, factor = super()._read_spec(fields), partial(fields.number, default=1.0)
        scale, residual = factor("attention_multiplier"), factor("residual_multiplier")
        blocks = (
            replace(block, mixer=replace(block.mixer, scale=scale), residual_scale=residual)
            for block in model.blocks
            if isinstance(block.mixer, AttentionSpec)
        )
        return replace(
            model,
            blocks=tuple(blocks),
            embed_scale=factor("embedding_multiplier"),
            logit_scale=1 / factor("logits_scaling"),
        )


def _with_granite_fields(fields: ConfigFields) -> ConfigFields:
    """Fill in Granite's multipliers from the fields of a MiniCPM config (arXiv 2404.06395)."""
    width, base = fields.count("hidden_size"), fields.count("dim_model_base", 1)
    return fields.with_values(
        attention_multiplier=plain_attention(fields).key_dim ** -0.5,
        embedding_multiplier=fields.number("scale_emb", 1.0),
        logits_scaling=width / base,
        residual_multiplier=fields.number("scale_depth", 1.0) / fields.layers() ** 0.5,
    )


def _window_size(fields: ConfigFields) -> int | None:
    """Read the sliding window, in tokens, of Mistral-like model types; None without one.

    It applies to all layers unless `layer_types` says otherwise. Mistral's first config omitted its
    window of 4096.
    """
    if not any(kind in _WINDOWED for kind in fields.model_types):
        return None
    is_used = fields.flag("use_sliding_window", default=True)
    is_silent = {"mixtral", "ministral3"} & {*fields.model_types}
    return fields.window_size(None if is_silent else 4096) if is_used else None


def _rope_layers(fields: ConfigFields) -> tuple[bool, ...]:
    """For each layer whether it uses RoPE: SmolLM3 has a list, or omits it in every n-th layer."""
    layers = fields.layers()
    listed = fields.counts("no_rope_layers")[:layers]
    if fields.has("no_rope_layers") and len(listed) != layers:
        raise fields.bad_field("no_rope_layers", list(listed), f"a list of {layers} times 0 or 1")
    if not fields.has("no_rope_layer_interval"):
        return (True,) * layers
    interval = fields.count("no_rope_layer_interval")
    return tuple(map(bool, listed)) or tuple((n + 1) % interval != 0 for n in range(layers))


def _feed_forward_spec(fields: ConfigFields) -> FeedForwardSpec | ExpertsSpec:
    inner = plain_feed_forward(fields, has_bias=fields.flag("mlp_bias", default=False))
    if not fields.has("num_local_experts"):
        return inner
    count = fields.count("num_local_experts", maximum=2**16)
    return ExpertsSpec(count, fields.count("num_experts_per_tok", 2, maximum=count), inner)


class Olmo2(NativeFamily):
    """OLMo 2 (`olmo2`, arXiv 2501.00656) and 3 (`olmo3`): norms after mixer and feed-forward.

    Query and key norms span all heads. In OLMo 3 every fourth layer has full attention and scaled
    RoPE, the others have a sliding window.
    """

    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "post_feedforward_layernorm": "feed_out_norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        is_olmo3 = self.model_type == "olmo3"
        full = replace(plain_attention(fields, bias="attention_bias"), qk_norm="whole")
        windows = interleaved_windows(fields) if is_olmo3 else (None,) * fields.layers()
        slides = full
        if is_olmo3:
            slides = replace(full, rope=local_rope(fields, full.key_dim, 5e5))
        feed = plain_feed_forward(fields)
        mixers = (replace(slides, window=window) if window else full for window in windows)
        return plain_model(fields, (BlockSpec(mixer, feed, norms="after") for mixer in mixers))


def interleaved_windows(fields: ConfigFields) -> tuple[int | None, ...]:
    """Each layer's window or None, by `layer_types`, else all but every fourth have one."""
    return fields.layer_windows(
        fields.window_size(),
        lambda layer: (layer + 1) % fields.count("sliding_window_pattern", 4) != 0,
    )


class _FusedFamily(NativeFamily):
    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How matrices are split from fused query/key/value and gate/up matrices of the files."""
        listed, first = list(names), self.spec.blocks[0]
        assert isinstance(first.feed, FeedForwardSpec)
        halves = [("mlp.gate_proj", first.feed.inner), ("mlp.up_proj", first.feed.inner)]
        return qkv_recipes(listed, first) | fused_recipes(listed, "mlp.gate_up_proj", halves)


class Phi3(_FusedFamily):
    """Phi-3 (`phi3`, arXiv 2404.14219): partly rotated heads, LongRoPE, a sliding window."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(
            plain_attention(fields, rotated_share=1.0), window=fields.window_size(None)
        )
        feed = plain_feed_forward(fields)
        return plain_model(fields, [BlockSpec(attention, feed)] * fields.layers())


class Glm4(_FusedFamily):
    """GLM-4 (`glm`) and GLM-4-0414 (`glm4`): half of each head rotated, in neighbouring pairs.

    `glm4` norms before and after mixer and feed-forward, `glm` before only.
    """

    renames: ClassVar = {
        "post_self_attn_layernorm": "mixer_out_norm",
        "post_mlp_layernorm": "feed_out_norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(
            plain_attention(fields, rotated_share=0.5, interleaved=True),
            qkv_bias=fields.flag("attention_bias", default=True),
        )
        feed = plain_feed_forward(fields)
        block = BlockSpec(attention, feed, norms="before" if self.model_type == "glm" else "both")
        return plain_model(fields, [block] * fields.layers())


_ACTIVATIONS: dict[str, Activation] = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(
        ("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate"),
        "gelu_tanh",
    ),
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "relu2": "relu2",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "linear": "linear",
}
"""Names of transformers -> ours."""


def read_activation(
    fields: ConfigFields, default: str = "silu", field_name: str = "hidden_act"
) -> Activation:
    """Read a feed-forward's activation from a config; UnsupportedModel for an unknown one."""
    name = fields.string(field_name, default)
    if name not in _ACTIVATIONS:
        raise UnsupportedModel(
            "{origin}: asks for {key} {name}, which this version does not run. Take another model.",
            origin=fields.origin,
            key=field_name,
            name=ascii(name)[:40],
        )
    return _ACTIVATIONS[name]


def plain_feed_forward(
    fields: ConfigFields, inner_size: int | None = None, *, has_bias: bool = False
) -> FeedForwardSpec:
    """Read a gated feed-forward spec; inner_size: its width, by default `intermediate_size`."""
    width = fields.count("intermediate_size") if inner_size is None else inner_size
    return FeedForwardSpec(width, read_activation(fields), bias=has_bias)


def local_rope(fields: ConfigFields, head_dim: int, rope_base: float) -> RopeSpec:
    """RoPE spec of sliding-window layers, scaled only if `rope_parameters` lists them."""
    return rope_spec(fields, head_dim, kind="sliding_attention", base=rope_base)


def head_size(fields: ConfigFields) -> int:
    """Read the number of elements of an attention head from a config."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    return fields.count("head_dim", max(1, hidden // heads), maximum=2**14)


def rotary_dim_share(fields: ConfigFields) -> float:
    """Read which share of an attention head RoPE rotates, from `rotary_dim`."""
    head = head_size(fields)
    return fields.count("rotary_dim", head) / head


def plain_attention(
    fields: ConfigFields,
    *,
    rotated_share: float | None = None,
    interleaved: bool = False,
    bias: str = "",
    bias_default: bool = False,
) -> AttentionSpec:
    """Read a causal attention spec from a config, without norms.

    rotated_share: default share of a head that is rotated; None: all of it, whatever the config
    says. bias: field that says whether all projections have biases, bias_default where absent; "":
    none has.
    """
    heads, head = fields.count("num_attention_heads"), head_size(fields)
    has_bias = bool(bias) and fields.flag(bias, default=bias_default)
    return AttentionSpec(
        heads=heads,
        kv_heads=fields.kv_heads(heads),
        key_dim=head,
        value_dim=head,
        rope=rope_spec(fields, head, rotated_share=rotated_share, interleaved=interleaved),
        qkv_bias=has_bias,
        out_bias=has_bias,
    )


def plain_model(fields: ConfigFields, blocks: Iterable[BlockSpec]) -> ModelSpec:
    """Build a ModelSpec of these layers, with further fields read as most configs have them."""
    return ModelSpec(
        hidden=fields.count("hidden_size"),
        vocabulary=fields.count("vocab_size"),
        context=context_length(fields, 4096),
        eps=fields.number("rms_norm_eps", 1e-6),
        blocks=tuple(blocks),
        tied=fields.ties_embeddings(),
    )
