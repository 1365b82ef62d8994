"""MiniMax-M2: experts chosen by corrected sigmoids, queries and keys normed over all heads."""

from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Attention, Experts, FeedForward
from mlx_engine.models.rope import rope_of
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec

_BIAS = "mlp.gate.e_score_correction_bias"


class MiniMaxM2(SpecFamily):
    """`minimax_m2`, and `minimax` as MLX's conversions call it; its MTP heads are not run."""

    renames: ClassVar = {
        "block_sparse_moe": "mlp",
        "block_sparse_moe.e_score_correction_bias": _BIAS,
        "mlp.e_score_correction_bias": _BIAS,
    }

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config; rotary_dim: rotated elements of a head."""
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head = fields.count("head_dim", max(1, hidden // heads))
        share = fields.count("rotary_dim", head) / head
        count = fields.count("num_local_experts", most=2**16)
        block = Block(
            Attention(
                heads=heads,
                kv_heads=fields.kv_heads(heads),
                key_dim=head,
                value_dim=head,
                rope=rope_of(fields, head, base=5e6, share=share),
                qk_norm="whole" if fields.flag("use_qk_norm", default=True) else "none",
            ),
            Experts(
                count=count,
                per_token=fields.count("num_experts_per_tok", most=count),
                feed=FeedForward(fields.count("intermediate_size")),
                score="sigmoid",
                choice_bias=True,
            ),
        )
        return ModelSpec(
            hidden=hidden,
            vocabulary=fields.count("vocab_size"),
            context=fields.count("max_position_embeddings", 196608, least=8),
            eps=fields.number("rms_norm_eps", 1e-6),
            blocks=(block,) * fields.layers(),
            tied=fields.tied(),
        )
