"""Phi-3 (arXiv 2404.14219): joined projections, part of a head rotated, LongRoPE, a window."""

from collections.abc import Iterable
from dataclasses import replace

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model
from mlx_engine.models.layer_specs import Attention, FeedForward
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec
from mlx_engine.models.stored_forms import Recipe, Recipes, row_recipes


class Phi3(SpecFamily):
    """`phi3`."""

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config; a `sliding_window` is for every layer."""
        fields = fields.with_defaults(rms_norm_eps=1e-5, original_max_position_embeddings=4096)
        window = fields.count("sliding_window") if fields.has("sliding_window") else None
        attention = replace(plain_attention(fields), window=window)
        feed = FeedForward(fields.count("intermediate_size"))
        return plain_model(fields, [Block(attention, feed)] * fields.layers())

    def recipes(self, names: Iterable[str], spec: ModelSpec) -> Recipes:
        """Queries, keys and values lie one below the other, gates above ups."""
        listed, mixer, feed = list(names), spec.blocks[0].mixer, spec.blocks[0].feed
        assert isinstance(mixer, Attention)
        assert isinstance(feed, FeedForward)
        kept = mixer.kv_heads * mixer.key_dim
        rows = {"q": mixer.heads * mixer.key_dim, "k": kept, "v": kept}
        parts = {f"self_attn.{part}_proj": count for part, count in rows.items()}
        return row_recipes(listed, "self_attn.qkv_proj", parts) | gate_up_recipes(listed, feed)


def gate_up_recipes(names: Iterable[str], feed: FeedForward) -> dict[str, Recipe]:
    """Of `mlp.gate_up_proj`, gates above ups."""
    parts = {"mlp.gate_proj": feed.inner, "mlp.up_proj": feed.inner}
    return row_recipes(names, "mlp.gate_up_proj", parts)
