"""GLM-4: norms before and after, half of a head rotated in neighbouring pairs, gate above up."""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model
from mlx_engine.models.families.phi3 import gate_up_recipes
from mlx_engine.models.layer_specs import FeedForward
from mlx_engine.models.spec_family import SpecFamily
from mlx_engine.models.specs import Block, ModelSpec
from mlx_engine.models.stored_forms import Recipes


class Glm4(SpecFamily):
    """`glm4`."""

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
        return plain_model(fields, [Block(attention, feed, norms="both")] * fields.layers())

    def recipes(self, names: Iterable[str], spec: ModelSpec) -> Recipes:
        """Gates lie above ups."""
        feed = spec.blocks[0].feed
        assert isinstance(feed, FeedForward)
        return gate_up_recipes(names, feed)
