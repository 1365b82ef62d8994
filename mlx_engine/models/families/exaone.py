"""EXAONE 4, 4.5 and K-EXAONE: per-head norms, three sliding-window layers to a full one, MTP head.

Full-attention layers use no RoPE if others have a window. EXAONE 4 norms after mixer and
feed-forward, K-EXAONE before them, with DeepSeek's experts. The MTP head of 4.5 and K-EXAONE is
dense and named like Qwen3.5's; as in vLLM it reads hidden states after the final norm and passes on
its own after its norm.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import routed_experts
from mlx_engine.models.families.llama import (
    Olmo2,
    interleaved_windows,
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
    """EXAONE 4 and 4.5 (`exaone4`, `exaone4_5`): norms after mixer and feed-forward."""

    renames = Olmo2.renames
    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        feed = plain_feed_forward(fields)
        *blocks, head = (
            BlockSpec(mixer, feed, norms="after") for mixer in _attention_specs(fields)
        )
        return replace(plain_model(fields, blocks), heads=MtpHeadsSpec((head,)))


class ExaoneMoe(NativeFamily):
    """K-EXAONE (`exaone_moe`): norms before mixer and feed-forward, routed experts."""

    renames: ClassVar = {
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
    }
    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        count = fields.count("num_experts", 64, maximum=2**16)
        fields = fields.with_defaults(
            n_routed_experts=count,
            n_shared_experts=fields.count("num_shared_experts", 1, minimum=0),
        )
        dense, experts = plain_feed_forward(fields), routed_experts(fields)
        feeds = [experts if sparse else dense for sparse in _expert_layers(fields)]
        *blocks, head = map(BlockSpec, _attention_specs(fields), (*feeds, dense))
        return replace(plain_model(fields, blocks), heads=MtpHeadsSpec((head,)))


def _attention_specs(fields: ConfigFields) -> list[AttentionSpec]:
    """Attention specs of EXAONE's trunk layers, followed by that of its MTP head.

    The head's type is read from `mtp_layer_types`, or from `layer_types` behind the trunk's layers,
    else it is the first layer's.
    """
    slides, windows = replace(plain_attention(fields), qk_norm="head"), interleaved_windows(fields)
    full = replace(slides, rope=None) if fields.window_size() else slides
    listed = fields.strings("layer_types")
    last = (fields.strings("mtp_layer_types") or listed[fields.layers() :] or listed)[:1]
    windows += interleaved_windows(fields.with_values(num_hidden_layers=1, layer_types=list(last)))
    return [replace(slides, window=window) if window else full for window in windows]


def _expert_layers(fields: ConfigFields) -> tuple[bool, ...]:
    layers = fields.layers()
    kinds, flags = fields.strings("mlp_layer_types"), fields.flags("is_moe_layer")
    listed = tuple(kind == "sparse" for kind in kinds) or flags
    if listed and len(listed) < layers:
        raise fields.bad_field("mlp_layer_types", list(kinds), Words("a kind for each layer"))
    first = fields.count("first_k_dense_replace", 1, minimum=0)
    return listed[:layers] or tuple(layer >= first for layer in range(layers))
