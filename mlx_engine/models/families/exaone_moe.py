"""K-EXAONE: EXAONE 4's attention behind its norm, DeepSeek's experts, a dense MTP head.

The head is named as Qwen3.5's. As vLLM runs it: the trunk's states after its norm, the head's own
after its norm; the layer is of the kind that `mtp_layer_types` says, else of the trunk's first.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import routed_experts
from mlx_engine.models.families.llama import most_windows, plain_attention, plain_model
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.layer_specs import FeedForward
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, Heads, ModelSpec
from mlx_engine.values.words import Words


class ExaoneMoe(SpecFamily):
    """`exaone_moe`: all but every fourth layer have a window; those that see all do not rotate."""

    renames: ClassVar = {
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
        "mlp.shared_experts": "mlp.shared_expert",
    }
    head_names = Qwen35.head_names

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        count = fields.count("num_experts", 64, most=2**16)
        fields = fields.with_defaults(
            rms_norm_eps=1e-5,
            rope_theta=1e6,
            routed_scaling_factor=2.5,
            n_routed_experts=count,
            n_shared_experts=fields.count("num_shared_experts", 1, least=0),
        )
        slides = replace(plain_attention(fields), qk_norm="head")
        has_window = fields.has("sliding_window")
        full = replace(slides, rope=None) if has_window else slides
        windows = most_windows(fields)
        mixers = [replace(slides, window=window) if window else full for window in windows]
        dense, experts = FeedForward(fields.count("intermediate_size")), routed_experts(fields)
        feeds = [experts if sparse else dense for sparse in _sparse(fields)]
        kinds = fields.words("mtp_layer_types")
        first = mixers[0] if not kinds else full
        if kinds and kinds[0] == "sliding_attention":
            first = replace(slides, window=fields.count("sliding_window"))
        heads = Heads(
            blocks=(Block(first, dense),),
            promised=fields.count("num_nextn_predict_layers", 0, least=0),
        )
        model = plain_model(fields, map(Block, mixers, feeds))
        return replace(model, heads=heads)


def _sparse(fields: ConfigFields) -> tuple[bool, ...]:
    """For each layer whether it has experts, told in one of three ways."""
    layers = fields.layers()
    kinds, flags = fields.words("mlp_layer_types"), fields.flags("is_moe_layer")
    listed = tuple(kind == "sparse" for kind in kinds) or flags
    if listed and len(listed) < layers:
        raise fields.wrong("mlp_layer_types", list(kinds), Words("a kind for each layer"))
    first = fields.count("first_k_dense_replace", 1, least=0)
    return listed[:layers] or tuple(layer >= first for layer in range(layers))
