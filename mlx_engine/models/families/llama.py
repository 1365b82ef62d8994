"""Llama and Mistral, which have the plain layer; OLMo 2, Phi-3 and GLM-4, which differ a little.

Families in other files say what differs from it too: `plain_attention`, `plain_model`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Attention, Experts, FeedForward
from mlx_engine.models.rope import context_of, rope_of
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec
from mlx_engine.models.stored_forms import Recipes, qkv_recipes, row_recipes

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


class Olmo2(SpecFamily):
    """`olmo2` (arXiv 2501.00656): norms behind mixer and feed-forward, q/k norms over all heads."""

    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "post_feedforward_layernorm": "feed_out_norm",
    }

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        fields = fields.with_defaults(rms_norm_eps=1e-5, max_position_embeddings=2048)
        bias = fields.flag("attention_bias", default=False)
        attention = replace(plain_attention(fields), qkv_bias=bias, out_bias=bias, qk_norm="whole")
        feed = FeedForward(fields.count("intermediate_size"))
        return plain_model(fields, [Block(attention, feed, norms="after")] * fields.layers())


class _Joined(SpecFamily):
    """Stores queries, keys and values one below the other, or gates above ups, or both."""

    def recipes(self, names: Iterable[str], spec: ModelSpec) -> Recipes:
        """Rows of the joined matrices that are there."""
        listed, first = list(names), spec.blocks[0]
        assert isinstance(first.feed, FeedForward)
        halves = [("mlp.gate_proj", first.feed.inner), ("mlp.up_proj", first.feed.inner)]
        return qkv_recipes(listed, first) | row_recipes(listed, "mlp.gate_up_proj", halves)


class Phi3(_Joined):
    """`phi3` (arXiv 2404.14219): part of a head rotated, LongRoPE, a window."""

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config; a `sliding_window` is for every layer."""
        fields = fields.with_defaults(rms_norm_eps=1e-5, original_max_position_embeddings=4096)
        window = fields.count("sliding_window") if fields.has("sliding_window") else None
        attention = replace(plain_attention(fields), window=window)
        feed = FeedForward(fields.count("intermediate_size"))
        return plain_model(fields, [Block(attention, feed)] * fields.layers())


class Glm4(_Joined):
    """`glm4`, and `glm` before it: half of a head rotated in neighbouring pairs.

    GLM-4-0414 (`glm4`) has norms before and after, GLM-4 and GLM-Edge (`glm`) before alone.
    """

    renames: ClassVar = {
        "post_self_attn_layernorm": "mixer_out_norm",
        "post_mlp_layernorm": "feed_out_norm",
    }

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        fields = fields.with_defaults(head_dim=128, rms_norm_eps=1.5625e-7)
        attention = replace(
            plain_attention(fields, share=0.5, interleaved=True),
            qkv_bias=fields.flag("attention_bias", default=True),
        )
        feed = FeedForward(fields.count("intermediate_size"))
        block = Block(attention, feed, norms="before" if self.model_type == "glm" else "both")
        return plain_model(fields, [block] * fields.layers())


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
