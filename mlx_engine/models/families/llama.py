"""Llama, Mistral, Ministral and Mixtral: the plain layer, with a window or experts.

Other families say what differs from it: `plain_attention`, `plain_model`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Attention, Experts, FeedForward
from mlx_engine.models.rope import context_of, rope_of
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec

_WINDOWED = ("mistral", "ministral", "mixtral")
"""Types whose config may ask for a window; others have such a key and do not mean it."""


class Llama(SpecFamily):
    """`llama`, `mistral`, `ministral` and `mixtral`."""

    renames: ClassVar = {"block_sparse_moe": "mlp"}

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        if "mixtral" in fields.model_types:
            fields = fields.with_defaults(rope_theta=1e6, rms_norm_eps=1e-5)
        bias = fields.flag("attention_bias", default=False)
        attention = replace(plain_attention(fields), qkv_bias=bias, out_bias=bias)
        feed = _feed(fields)
        windows = fields.windows(_window(fields))
        return plain_model(fields, (Block(replace(attention, window=w), feed) for w in windows))


def plain_attention(
    fields: ConfigFields, *, share: float = 1.0, interleaved: bool = False
) -> Attention:
    """Causal over all, without norms and biases; share: the part of a head that is rotated."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    head = fields.count("head_dim", max(1, hidden // heads), most=2**14)
    return Attention(
        heads=heads,
        kv_heads=fields.kv_heads(heads),
        key_dim=head,
        value_dim=head,
        rope=rope_of(fields, head, share=share, interleaved=interleaved),
    )


def plain_model(fields: ConfigFields, blocks: Iterable[Block]) -> ModelSpec:
    """The model of these blocks."""
    return ModelSpec(
        hidden=fields.count("hidden_size"),
        vocabulary=fields.count("vocab_size"),
        context=context_of(fields, 4096),
        eps=fields.number("rms_norm_eps", 1e-6),
        blocks=tuple(blocks),
        tied=fields.tied(),
    )


def _window(fields: ConfigFields) -> int | None:
    """Of the layers that have one: all, unless `layer_types` says which (Ministral).

    Mistral's first config left its 4096 out.
    """
    if not any(kind in _WINDOWED for kind in fields.model_types):
        return None
    if "sliding_window" not in fields and "mixtral" not in fields.model_types:
        return 4096
    is_used = fields.flag("use_sliding_window", default=True) and fields.has("sliding_window")
    return fields.count("sliding_window") if is_used else None


def _feed(fields: ConfigFields) -> FeedForward | Experts:
    inner = FeedForward(
        fields.count("intermediate_size"), bias=fields.flag("mlp_bias", default=False)
    )
    if not fields.has("num_local_experts"):
        return inner
    count = fields.count("num_local_experts", most=2**16)
    return Experts(count, fields.count("num_experts_per_tok", 2, most=count), inner)
