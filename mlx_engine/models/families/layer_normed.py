"""Families with layer norms: Cohere's Command R, R7B and A."""

from collections.abc import Iterable
from dataclasses import replace

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    most_windows,
    plain_attention,
    plain_feed,
    plain_model,
)
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec


class Cohere(SpecFamily):
    """`cohere` (Command R, Aya) and `cohere2` (Command R7B and A): one norm for mixer and
    feed-forward, logits scaled.

    In `cohere2` all but every fourth layer have a window, and those that see all do not rotate.
    """

    def read(self, fields: ConfigFields) -> ModelSpec:
        """By the names of Hugging Face's config."""
        is_second = self.model_type.startswith("cohere2")
        fields = fields.with_defaults(
            max_position_embeddings=8192,
            rope_theta=1e4 if is_second else 5e5,
            sliding_window=4096,
            tie_word_embeddings=True,
        )
        bias = fields.flag("attention_bias", default=False)
        slides = replace(
            plain_attention(fields, interleaved=True),
            qkv_bias=bias,
            out_bias=bias,
            qk_norm="heads" if fields.flag("use_qk_norm", default=False) else "none",
        )
        full = replace(slides, rope=None) if is_second else slides
        windows = most_windows(fields) if is_second else (None,) * fields.layers()
        mixers = (replace(slides, window=window) if window else full for window in windows)
        feed = plain_feed(fields)
        blocks = (Block(mixer, feed, norms="shared") for mixer in mixers)
        model = _layer_normed(fields, blocks, "layer_norm_eps", has_bias=False)
        return replace(model, logit_scale=fields.number("logit_scale", 0.0625))


def _layer_normed(
    fields: ConfigFields, blocks: Iterable[Block], eps: str, *, has_bias: bool
) -> ModelSpec:
    """eps: the key of it. has_bias: of the norms."""
    model = plain_model(fields, blocks)
    return replace(model, eps=fields.number(eps, 1e-5), norm="layer", norm_bias=has_bias)
