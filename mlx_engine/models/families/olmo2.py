"""OLMo 2 (arXiv 2501.00656): norms behind attention and feed-forward, q/k norms over all heads."""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model
from mlx_engine.models.layer_specs import FeedForward
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec


class Olmo2(SpecFamily):
    """`olmo2`."""

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
