"""OLMo Hybrid (`olmo_hybrid`): Gated DeltaNet layers of their own form, each fourth with attention.

Layers with attention are those of OLMo 2, normed after attention and feed-forward, and have no
positions where `rope_theta` is null; the others are normed before. Steps of the delta rule have
weights up to 2, unless `linear_allow_neg_eigval` is false. No MTP head is published, and llama.cpp
has no graph.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_feed_forward, plain_model
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import DeltaNetSpec
from mlx_engine.models.tensor_recipes import Recipe, Recipes, StoredPiece

_FULL, _LINEAR = "full_attention", "linear_attention"
_NORM_EPS = 1e-5
"""Epsilon of the norm of the delta rule's output; `rms_norm_eps` is that of other norms."""

_NORM = re.compile(r"layers\.(\d+)\.post_attention_layernorm\.weight")


class OlmoHybrid(NativeFamily):
    """OLMo Hybrid (`olmo_hybrid`): OLMo 2's attention in each fourth layer, else Gated DeltaNet."""

    renames: ClassVar = {
        "attention_layer_norm": "input_layernorm",
        "feedforward_layer_norm": "post_attention_layernorm",
        "post_feedforward_layernorm": "feed_out_norm",
        **{f"linear_attn.{part}_proj": f"linear_attn.in_proj_{part}" for part in "qkvab"},
        "linear_attn.g_proj": "linear_attn.in_proj_z",
        "linear_attn.o_proj": "linear_attn.out_proj",
        "linear_attn.o_norm": "linear_attn.norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(plain_attention(fields, bias="attention_bias"), qk_norm="whole")
        rope = fields.section("rope_parameters")
        told = rope if rope is not None and "rope_theta" in rope else fields
        if "rope_theta" in told and not told.has("rope_theta"):
            attention = replace(attention, rope=None)
        feed, delta = plain_feed_forward(fields), _delta_net(fields)
        blocks = (
            BlockSpec(attention, feed, norms="after") if kind == _FULL else BlockSpec(delta, feed)
            for kind in _layer_kinds(fields)
        )
        return plain_model(fields, blocks)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """Recipes of norms after attention, stored under the name of norms before feed-forwards."""
        found = filter(None, map(_NORM.fullmatch, names))
        return {
            f"layers.{match[1]}.mixer_out_norm.weight": Recipe((StoredPiece(match[0]),))
            for match in found
            if isinstance(self.spec.blocks[int(match[1])].mixer, AttentionSpec)
        }


def _layer_kinds(fields: ConfigFields) -> list[str]:
    layers = fields.layers()
    kinds = list(fields.layer_types(_FULL, _LINEAR))
    if not kinds:
        kinds = [_LINEAR if (layer + 1) % 4 else _FULL for layer in range(layers)]
        kinds = kinds if _FULL in kinds else [*kinds[:-1], _FULL]
    return kinds


def _delta_net(fields: ConfigFields) -> DeltaNetSpec:
    heads, hidden = fields.count("num_attention_heads"), fields.count("hidden_size")
    key_heads = fields.count("linear_num_key_heads", heads)
    key_dim = fields.count("linear_key_head_dim", max(1, int(0.75 * hidden / key_heads)))
    fields = fields.with_defaults(linear_num_value_heads=heads)
    value_heads = fields.count("linear_num_value_heads")
    if value_heads % key_heads:
        wanted = f"a multiple of linear_num_key_heads={key_heads}"
        raise fields.bad_field("linear_num_value_heads", value_heads, wanted)
    return DeltaNetSpec(
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=key_dim,
        value_dim=fields.count("linear_value_head_dim", 2 * key_dim),
        taps=fields.count("linear_conv_kernel_dim", 4),
        is_split=True,
        doubles_beta=fields.flag("linear_allow_neg_eigval", default=True),
        norm_eps=_NORM_EPS,
    )
