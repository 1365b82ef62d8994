"""GLM-4.5, 4.5-Air, 4.6 and 4.7: half-rotated grouped-query attention, experts, one NextN head.

The experts are DeepSeek-V3's; the head is the layer behind the last one (46 in Air, 92 in the
others), and its files carry copies of the trunk's embedding and output head.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import routed_feeds, with_head_behind
from mlx_engine.models.families.llama import plain_attention
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import ModelSpec
from mlx_engine.models.tensor_names import NEXTN_NAMES


class Glm4Moe(SpecFamily):
    """`glm4_moe`."""

    renames: ClassVar = {"mlp.shared_experts": "mlp.shared_expert"}
    head_names = NEXTN_NAMES

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        fields = fields.with_defaults(
            rms_norm_eps=1e-5, first_k_dense_replace=1, n_shared_experts=1
        )
        attention = replace(
            plain_attention(fields, share=0.5),
            qkv_bias=fields.flag("attention_bias", default=False),
            qk_norm="head" if fields.flag("use_qk_norm", default=False) else "none",
        )
        return with_head_behind(fields, attention, routed_feeds(fields))
