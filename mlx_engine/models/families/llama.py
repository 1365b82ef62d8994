"""Llama, Mistral and Mixtral: the plain layer, with a window or experts."""

from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.rope import rope_of
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Attention, Block, Experts, FeedForward, ModelSpec


class Llama(SpecFamily):
    """`llama`, `mistral` and `mixtral`.

    A `sliding_window` is for every layer unless `layer_types` names those that have it (Ministral).
    """

    renames: ClassVar = {"block_sparse_moe": "mlp"}

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head = fields.count("head_dim", max(1, hidden // heads), most=2**14)
        bias = fields.flag("attention_bias", default=False)
        rope, feed = rope_of(fields, head), _feed(fields)
        windows = fields.windows(_window(fields))
        blocks = tuple(
            Block(
                Attention(
                    heads=heads,
                    kv_heads=fields.kv_heads(heads),
                    key_dim=head,
                    value_dim=head,
                    rope=rope,
                    qkv_bias=bias,
                    out_bias=bias,
                    window=window,
                ),
                feed,
            )
            for window in windows
        )
        return ModelSpec(
            hidden=hidden,
            vocabulary=fields.count("vocab_size"),
            context=fields.count("max_position_embeddings", 4096, least=8),
            eps=fields.number("rms_norm_eps", 1e-6),
            blocks=blocks,
            tied=fields.tied(),
        )


def _window(fields: ConfigFields) -> int | None:
    """Of the layers that have one; Mistral's first config left its 4096 out."""
    if "mistral" in fields.model_types and "sliding_window" not in fields:
        return 4096
    is_off = not fields.flag("use_sliding_window", default=True)
    if "llama" in fields.model_types or is_off or not fields.has("sliding_window"):
        return None
    return fields.count("sliding_window")


def _feed(fields: ConfigFields) -> FeedForward | Experts:
    inner = FeedForward(
        fields.count("intermediate_size"), bias=fields.flag("mlp_bias", default=False)
    )
    if not fields.has("num_local_experts"):
        return inner
    count = fields.count("num_local_experts", most=2**16)
    return Experts(count, fields.count("num_experts_per_tok", 2, most=count), inner)
