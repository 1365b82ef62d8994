"""MiMo-V2-Flash, V2.5 and V2-Pro: full and sliding attention, sinks, three MTP heads.

As in llama.cpp (#26228), MTP heads read and pass on the residual before the norm. vLLM, which uses
the first head only, passes on hidden states after the head's norm; the two have not been compared
on real weights.

The window is read as transformers does: `sliding_window_size` counts the tokens before a row,
`sliding_window` includes the row. Published configs have 128 for both, where llama.cpp and mlx-lm
read the second; which of them the models were trained with is not known.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import routed_experts
from mlx_engine.models.families.llama import plain_feed_forward, plain_model
from mlx_engine.models.layer_specs import AttentionSpec, RopeSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import rope_spec
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.models.tensor_recipes import Recipes, expert_recipes, qkv_recipes

_HEADS = 3
_MOST_HEADS, _MOST_WIDE = 2**10, 2**12  # joined rows are listed, so a wild number would hang


class MimoV2(NativeFamily):
    """MiMo-V2 (`mimo_v2_flash`, `mimo_v2`): full and sliding attention, three MTP heads."""

    renames: ClassVar = {"self_attn.attention_sink_bias": "self_attn.sinks"}
    head_names = HeadNames(
        {
            "eh_proj": "join",
            "final_layernorm": "norm",
            "pre_mlp_layernorm": "post_attention_layernorm",
        }
    )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields = fields.with_defaults(rms_norm_eps=fields.number("layernorm_epsilon", 1e-5))
        full_attention = _attention_spec(fields)
        local = _sliding_attention(fields, full_attention)
        dense = plain_feed_forward(fields)
        sparse = routed_experts(fields)
        blocks = (
            BlockSpec(local if is_windowed else full_attention, sparse if has_experts else dense)
            for is_windowed, has_experts in zip(
                _sliding_layers(fields), _expert_layers(fields), strict=True
            )
        )
        heads = MtpHeadsSpec(
            blocks=(BlockSpec(local, dense),) * _HEADS,
            trunk_state="residual",
            chain_state="residual",
        )
        return replace(plain_model(fields, blocks), heads=heads)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How MiMo-V2's experts are stacked and fused query/key/value matrices split.

        Published files of V2.5 and Pro have one block for each of the `num_key_value_heads` (sglang
        #23808, vLLM #46755), GGUF files a single block.
        """
        spec, listed = self.spec, list(names)
        assert spec.heads is not None
        blocks = spec.heads.blocks if "layers.0.join.weight" in listed else spec.blocks
        recipes, joined = expert_recipes(listed), [name for name in listed if ".qkv_proj." in name]
        for number, block in enumerate(blocks):
            its = [name for name in joined if name.startswith(f"layers.{number}.")]
            recipes |= qkv_recipes(its, block) if its else {}
        return recipes


def _attention_spec(fields: ConfigFields) -> AttentionSpec:
    heads = fields.count("num_attention_heads", maximum=_MOST_HEADS)
    head = fields.count("head_dim", 192, maximum=_MOST_WIDE)
    is_unscaled = "attention_value_scale" in fields and not fields.has("attention_value_scale")
    kept = fields.kv_heads(heads)
    in_blocks = fields.string("attention_projection_layout", "split") == "fused_qkv"
    return AttentionSpec(
        heads=heads,
        kv_heads=kept,
        key_dim=head,
        value_dim=fields.count("v_head_dim", 128, maximum=_MOST_WIDE),
        rope=rope_spec(fields, head, base=5e6, rotated_share=0.334),
        qkv_bias=fields.flag("attention_bias", default=False),
        sinks=fields.flag("add_full_attention_sink_bias", default=False),
        value_scale=1.0 if is_unscaled else fields.number("attention_value_scale", 0.707),
        qkv_blocks=kept if in_blocks else 1,
    )


def _sliding_attention(fields: ConfigFields, full_attention: AttentionSpec) -> AttentionSpec:
    """Attention spec of MiMo-V2's sliding layers; by default twice the key heads of others."""
    heads = fields.count("swa_num_attention_heads", full_attention.heads, maximum=_MOST_HEADS)
    kept = fields.count("swa_num_key_value_heads", 2 * full_attention.kv_heads)
    if heads % kept:
        raise fields.bad_field("swa_num_key_value_heads", kept, f"a divisor of the {heads} heads")
    head = fields.count("swa_head_dim", full_attention.key_dim, maximum=_MOST_WIDE)
    kinds = fields.section("rope_parameters")
    if kinds is not None and kinds.has("sliding_attention"):
        rope = rope_spec(fields, head, kind="sliding_attention", base=1e4, rotated_share=0.334)
    else:
        width = int(head * fields.number("partial_rotary_factor", 0.334))
        rope = RopeSpec(width, fields.number("swa_rope_theta", 1e4))
    before = "sliding_window_size"
    return replace(
        full_attention,
        heads=heads,
        kv_heads=kept,
        key_dim=head,
        value_dim=fields.count("swa_v_head_dim", full_attention.value_dim, maximum=_MOST_WIDE),
        rope=rope,
        sinks=fields.flag("add_swa_attention_sink_bias", default=True),
        window=fields.count(before) + 1 if fields.has(before) else fields.count("sliding_window"),
    )


def _sliding_layers(fields: ConfigFields) -> tuple[bool, ...]:
    layers = fields.layers()
    if fields.strings("layer_types"):
        return tuple(window is not None for window in fields.layer_windows(1))
    pattern = fields.counts("hybrid_layer_pattern")
    if len(pattern) < layers:
        raise fields.bad_field("hybrid_layer_pattern", list(pattern), f"0 or 1 for {layers} layers")
    return tuple(bool(flag) for flag in pattern[:layers])


def _expert_layers(fields: ConfigFields) -> tuple[bool, ...]:
    layers = fields.layers()
    kinds, pattern = fields.strings("mlp_layer_types"), fields.counts("moe_layer_freq")
    listed = [kind == "sparse" for kind in kinds] or [bool(flag) for flag in pattern]
    if listed and len(listed) < layers:
        raise fields.bad_field("moe_layer_freq", list(pattern), f"0 or 1 for {layers} layers")
    return tuple(listed[:layers]) if listed else (False, *[True] * (layers - 1))
