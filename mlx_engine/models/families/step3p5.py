"""Step-3.5-Flash: gated attention heads, clipped feed-forwards, three MTP heads.

As in llama.cpp (#24340) and vLLM, MTP heads are dense layers behind the last one, with their own
output heads; they read and pass on the residual before the norm. Per-layer lists in the config
continue over the heads; where a list ends early, a head has full attention. Hugging Face stores
norms as w, MLX and GGUF as 1 + w.

References disagree about the heads, which only published weights can settle, and only acceptance
depends on: transformers' MtpModel (Step-3.7) feeds them states after the norm and passes such
states on, runs later heads over every row the first one reads, each on the state of the head
before it, and uses the trunk's output head.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_feed_forward, plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, RopeSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import apply_rope_scaling
from mlx_engine.models.tensor_names import NEXTN_NAMES
from mlx_engine.values.words import Words

_HEADS = 3
_FULL, _SLIDING = "full_attention", "sliding_attention"
_CHOICE_BIAS = "mlp.gate.e_score_correction_bias"


class Step3p5(NativeFamily):
    """Step-3.5-Flash and Step-3.7 (`step3p5`): gated attention heads, three MTP heads."""

    norms = "either"
    head_names = NEXTN_NAMES
    renames: ClassVar = {
        "moe": "mlp.switch_mlp",
        "moe.gate": "mlp.gate",
        "moe.router_bias": _CHOICE_BIAS,
        "share_expert": "mlp.shared_expert",
        "mlp.gate.gate": "mlp.gate",
        "mlp.gate.router_bias": _CHOICE_BIAS,
        "mlp.share_expert": "mlp.shared_expert",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields = fields.with_defaults(rms_norm_eps=1e-5, sliding_window=512)
        fields = fields.with_values(hidden_act="silu")  # whatever name a config has for it
        layers, sparse = fields.layers(), _expert_layers(fields)
        kinds = _layer_types(fields, layers + _HEADS)
        blocks = [
            BlockSpec(
                _attention_spec(fields, layer, kinds),
                _experts_spec(fields, layer)
                if layer in sparse
                else _dense_feed_forward(fields, layer),
            )
            for layer in range(layers + _HEADS)
        ]
        heads = MtpHeadsSpec(
            blocks=tuple(blocks[layers:]),
            trunk_state="residual",
            chain_state="residual",
            output="own",
        )
        return replace(plain_model(fields, blocks[:layers]), heads=heads)


def _layer_types(fields: ConfigFields, count: int) -> list[str]:
    if not fields.layer_types(_FULL, _SLIDING):
        return [_FULL if layer % 2 else _SLIDING for layer in range(count)]
    return [*fields.strings("layer_types"), *[_FULL] * count][:count]


def _expert_layers(fields: ConfigFields) -> set[int]:
    """Numbers of Step-3.5's trunk layers with experts; by default all but the first."""
    listed = fields.string("moe_layers_enum", "")
    if not listed:
        return set(range(1, fields.layers()))
    try:
        return {int(number) for number in listed.split(",")} & set(range(fields.layers()))
    except ValueError as error:
        raise fields.bad_field(
            "moe_layers_enum", listed, Words("numbers with commas between")
        ) from error


def _attention_spec(fields: ConfigFields, layer: int, layer_types: list[str]) -> AttentionSpec:
    is_sliding = layer_types[layer] == _SLIDING
    other = fields.section("attention_other_setting") if is_sliding else None
    sizes, head = other or fields, fields.count("head_dim", maximum=2**14)
    heads = sizes.count("num_attention_heads")
    kept = sizes.count("num_attention_groups")
    if heads % kept:
        raise sizes.bad_field("num_attention_groups", kept, f"a divisor of the {heads} heads")
    return AttentionSpec(
        heads=heads,
        kv_heads=kept,
        key_dim=head,
        value_dim=head,
        rope=_layer_rope(fields, layer, layer_types, head),
        qk_norm="head",
        gate="head" if fields.flag("use_head_wise_attn_gate", default=True) else "none",
        window=fields.count("sliding_window") if is_sliding else None,
    )


def _layer_rope(
    fields: ConfigFields, layer: int, layer_types: list[str], head_dim: int
) -> RopeSpec:
    """RoPE spec of a Step-3.5 layer, scaled if `yarn_only_types` has its type or is absent."""
    fallback_layer = layer_types.index(_FULL) if _FULL in layer_types else 0
    base = _layer_value(fields.per_layer_numbers("rope_theta"), layer, fallback_layer, 10000.0)
    width = int(
        head_dim
        * _layer_value(fields.numbers("partial_rotary_factors"), layer, fallback_layer, 1.0)
    )
    if width < 2 or width > head_dim or width % 2 or base <= 1:
        raise fields.bad_field(
            "partial_rotary_factors", width / head_dim, Words("an even part of a head")
        )
    plain, only = RopeSpec(width, base), fields.strings("yarn_only_types")
    is_scaled = not only or layer_types[layer] in only
    return apply_rope_scaling(plain, fields.rope_fields(_FULL), fields) if is_scaled else plain


def _layer_value(
    layer_values: tuple[float, ...], layer: int, fallback_layer: int, default: float
) -> float:
    """A layer's value in a config's per-layer list; beyond its end that of `fallback_layer`."""
    if len(layer_values) == 1:
        return layer_values[0]
    place = layer if layer < len(layer_values) else fallback_layer
    return layer_values[place] if place < len(layer_values) else default


def _clip_limit(fields: ConfigFields, name: str, layer: int) -> float:
    limits = fields.numbers(name)
    return max(0.0, limits[layer]) if layer < len(limits) else 0.0


def _dense_feed_forward(fields: ConfigFields, layer: int) -> FeedForwardSpec:
    limit = _clip_limit(fields, "swiglu_limits_shared", layer)
    return replace(plain_feed_forward(fields), limit=limit)


def _experts_spec(fields: ConfigFields, layer: int) -> ExpertsSpec:
    count = fields.count("moe_num_experts", 288, maximum=2**16)
    shared = _clip_limit(fields, "swiglu_limits_shared", layer)
    inner = fields.count("moe_intermediate_size", 1280)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("moe_top_k", 8, maximum=count),
        feed=replace(
            plain_feed_forward(fields, inner), limit=_clip_limit(fields, "swiglu_limits", layer)
        ),
        score="sigmoid",
        choice_bias=True,
        normalise=fields.flag("norm_expert_weight", default=True),
        scale=fields.number("moe_router_scaling_factor", 3.0),
        shared=replace(
            plain_feed_forward(fields, fields.count("share_expert_dim", 1280)), limit=shared
        ),
    )
