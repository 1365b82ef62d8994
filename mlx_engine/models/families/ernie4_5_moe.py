"""ERNIE 4.5 with experts: a softmax router whose choice is corrected, rotated pairs side by side.

Its MTP head (`mtp_block` and the like) is not run: no reference says how it joins its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Attention, Experts, FeedForward
from mlx_engine.models.rope import rope_of
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec

if TYPE_CHECKING:
    import mlx.core as mx

_BIAS = "mlp.gate.e_score_correction_bias"


class Ernie45Moe(SpecFamily):
    """`ernie4_5_moe`."""

    renames: ClassVar = {
        "mlp.moe_statics.e_score_correction_bias": _BIAS,
        "mlp.gate.moe_statics.e_score_correction_bias": _BIAS,
        "mlp.shared_experts": "mlp.shared_expert",
    }

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head = fields.count("head_dim", max(1, hidden // heads))
        has_bias = fields.flag("use_bias", default=False)
        attention = Attention(
            heads=heads,
            kv_heads=fields.kv_heads(heads),
            key_dim=head,
            value_dim=head,
            rope=rope_of(fields, head, base=500000.0, interleaved=True),
            qkv_bias=has_bias,
            out_bias=has_bias,
        )
        return ModelSpec(
            hidden=hidden,
            vocabulary=fields.count("vocab_size"),
            context=fields.count("max_position_embeddings", 131072, least=8),
            eps=fields.number("rms_norm_eps", 1e-5),
            blocks=tuple(
                Block(attention, _feed(fields, layer, has_bias)) for layer in range(fields.layers())
            ),
            tied=fields.tied(),
            logit_bias=has_bias,
        )

    def stored(self, raw: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """The correction without its axis of length one."""
        return {n: a.reshape(-1) if n.endswith(_BIAS) else a for n, a in raw.items()}


def _feed(fields: ConfigFields, layer: int, has_bias: bool) -> FeedForward | Experts:
    """Every moe_layer_interval-th layer between start and end has experts; end -1 is the last."""
    start = fields.count("moe_layer_start_index", 1, least=0)
    end = fields.count("moe_layer_end_index", -1, least=-1)
    is_last = end == -1 or layer <= end
    interval = fields.count("moe_layer_interval", 1)
    if (layer + 1) % interval or layer < start or not is_last:
        return FeedForward(fields.count("intermediate_size"), bias=has_bias)
    count = fields.count("moe_num_experts", most=2**16)
    inner = fields.count("moe_intermediate_size")
    shared = fields.count("moe_num_shared_experts", 2, least=0)
    return Experts(
        count=count,
        per_token=fields.count("moe_k", 6, most=count),
        feed=FeedForward(inner),
        choice_bias=True,
        float32_router=True,
        least_sum=fields.number("moe_norm_min", 1e-12),
        shared=FeedForward(shared * inner, bias=has_bias) if shared else None,
    )
