"""Kimi Linear (arXiv 2510.26692): Kimi Delta Attention, and latent attention without positions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import feed_forwards, latent_attention
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.layer_specs import RopeSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import KimiDeltaSpec

if TYPE_CHECKING:
    import mlx.core as mx


class KimiLinear(NativeFamily):
    """Kimi Linear (`kimi_linear`): layers of linear attention, each fourth of latent attention."""

    renames: ClassVar = {
        "block_sparse_moe": "mlp",
        "block_sparse_moe.shared_experts": "mlp.shared_expert",
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
        **{f"self_attn.{part}_conv.conv": f"self_attn.{part}_conv1d" for part in "qkv"},
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        experts = fields.count("num_local_experts", 256, maximum=2**16)
        fields = fields.with_defaults(
            n_routed_experts=fields.count("num_experts", experts, maximum=2**16),
            n_shared_experts=fields.count("num_shared_experts", 1, minimum=0),
            num_experts_per_tok=fields.count("num_experts_per_token", 8),
            norm_topk_prob=fields.flag("moe_renormalize", default=True),
            n_group=fields.count("num_expert_group", 1),
            routed_scaling_factor=2.446,
            first_k_dense_replace=1,
            max_position_embeddings=fields.count("model_max_length", 1048576),
            rms_norm_eps=1e-5,
        )
        latent = latent_attention(fields)
        width = fields.count("qk_rope_head_dim")
        still = RopeSpec(width, 1e4, (math.inf,) * (width // 2))
        latent = replace(latent, rope=still, scale=(latent.nope + width) ** -0.5)
        linear = fields.section("linear_attn_config") or _with_published_names(fields)
        size = linear.count("head_dim", 128)
        delta = KimiDeltaSpec(
            heads=linear.count("num_heads", 32),
            head_dim=size,
            taps=linear.count("short_conv_kernel_size", 4, maximum=2**10),
            rank=size,
        )
        kinds = zip(_full_layers(fields), feed_forwards(fields), strict=False)
        blocks = [BlockSpec(latent if is_full else delta, feed) for is_full, feed in kinds]
        return plain_model(fields, blocks)

    def convert_stored(self, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Return the tensors with rates and biases of decays flattened."""
        made = super().convert_stored(tensors)
        names = (name for name in made if name.endswith((".A_log", ".dt_bias")))
        return made | {name: made[name].reshape(-1) for name in names}


def _with_published_names(fields: ConfigFields) -> ConfigFields:
    """Give fields of linear attention, as transformers has them, their published names."""
    return fields.with_values(
        head_dim=fields.count("linear_head_dim", 128),
        num_heads=fields.count("linear_num_heads", 32),
        short_conv_kernel_size=fields.count("linear_conv_kernel_dim", 4),
    )


def _full_layers(fields: ConfigFields) -> list[bool]:
    """Whether each layer uses latent attention; `full_attn_layers` are counted from one."""
    linear, layers = fields.section("linear_attn_config"), range(fields.layers())
    kinds = fields.layer_types("full_attention", "linear_attention")
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    if linear is None:
        return [bool(layer) and layer % 4 == 0 for layer in layers]
    return [layer + 1 in linear.counts("full_attn_layers") for layer in layers]
