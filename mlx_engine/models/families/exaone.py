"""EXAONE 4, 4.5 and K-EXAONE: norms of each head, windows but in every fourth layer, an MTP head.

Layers that see all do not rotate where others have a window. EXAONE 4 has its norms behind mixer
and feed-forward, K-EXAONE before them, and DeepSeek's experts. The head of 4.5 and K-EXAONE is
dense and named as Qwen3.5's. As vLLM runs it: the trunk's states after its norm, the head's own
after its norm.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import routed_experts
from mlx_engine.models.families.llama import (
    Olmo2,
    default_windows,
    plain_attention,
    plain_feed_forward,
    plain_model,
)
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_names import MTP_NAMES
from mlx_engine.values.words import Words


class Exaone4(NativeFamily):
    """`exaone4` and `exaone4_5`."""

    renames = Olmo2.renames
    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        feed = plain_feed_forward(fields)
        *blocks, head = (
            BlockSpec(mixer, feed, norms="after") for mixer in _attention_specs(fields)
        )
        return replace(plain_model(fields, blocks), heads=_mtp_heads(fields, head))


class ExaoneMoe(NativeFamily):
    """`exaone_moe`."""

    renames: ClassVar = {
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
        "mlp.shared_experts": "mlp.shared_expert",
    }
    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        count = fields.count("num_experts", 64, most=2**16)
        fields = fields.with_defaults(
            n_routed_experts=count,
            n_shared_experts=fields.count("num_shared_experts", 1, least=0),
        )
        dense, experts = plain_feed_forward(fields), routed_experts(fields)
        feeds = [experts if sparse else dense for sparse in _expert_layers(fields)]
        *blocks, head = map(BlockSpec, _attention_specs(fields), (*feeds, dense))
        return replace(plain_model(fields, blocks), heads=_mtp_heads(fields, head))


def _attention_specs(fields: ConfigFields) -> list[AttentionSpec]:
    """Of the trunk's layers and of the head's, which is of the kind that `mtp_layer_types` says or
    `layer_types` behind the trunk's, else of the first.
    """
    slides, windows = replace(plain_attention(fields), qk_norm="head"), default_windows(fields)
    full = replace(slides, rope=None) if fields.window_size() else slides
    listed = fields.words("layer_types")
    told = (fields.words("mtp_layer_types") or listed[fields.layers() :] or listed)[:1]
    windows += default_windows(fields.with_values(num_hidden_layers=1, layer_types=list(told)))
    return [replace(slides, window=window) if window else full for window in windows]


def _mtp_heads(fields: ConfigFields, head: BlockSpec) -> MtpHeadsSpec:
    return MtpHeadsSpec(
        blocks=(head,), promised=fields.count("num_nextn_predict_layers", 0, least=0)
    )


def _expert_layers(fields: ConfigFields) -> tuple[bool, ...]:
    """For each layer whether it has experts, from one of three config keys."""
    layers = fields.layers()
    kinds, flags = fields.words("mlp_layer_types"), fields.flags("is_moe_layer")
    listed = tuple(kind == "sparse" for kind in kinds) or flags
    if listed and len(listed) < layers:
        raise fields.wrong("mlp_layer_types", list(kinds), Words("a kind for each layer"))
    first = fields.count("first_k_dense_replace", 1, least=0)
    return listed[:layers] or tuple(layer >= first for layer in range(layers))
