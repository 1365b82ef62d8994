"""Gemma 3 (arXiv 2503.19786): norms before and after, five layers with a window to one without.

The first Gemma (arXiv 2403.08295) has norms before alone and no windows. In Gemma 3 layers with a
window rotate on a base of their own, unscaled. Norm weights are stored as w and used as 1 + w;
embeddings are multiplied by the square root of their size.
"""

import math
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    local_rope,
    plain_attention,
    plain_model,
    read_activation,
)
from mlx_engine.models.layer_specs import AttentionSpec, FeedForwardSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.values.errors import UnsupportedModel


class Gemma3(NativeFamily):
    """`gemma3_text`, and `gemma3` with it as text_config."""

    norms = "1+w"
    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "feed_out_norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        cap = logit_cap(fields)
        if fields.has("attn_logit_softcapping"):
            raise UnsupportedModel(
                "{origin}: the config asks for capped scores (attn_logit_softcapping), which are "
                "not known of Gemma 3. Take another one.",
                origin=fields.origin,
            )
        full = replace(_attention(fields), qk_norm="head")
        base = fields.number("rope_local_base_freq", 10000.0)
        local = local_rope(fields, full.key_dim, base)
        return _model(fields, full, replace(full, rope=local), cap)


class Gemma2(Gemma3):
    """`gemma2` (arXiv 2408.00118): scores and logits are capped, every other layer has a window."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        caps = (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0))
        scores, logits = (_soft_cap(fields, name, default) for name, default in caps)
        mixer = replace(_attention(fields), cap=scores)
        return _model(fields, mixer, mixer, logits)


def logit_cap(fields: ConfigFields) -> float:
    """Of Gemma 3 and 4: 0 for none, which it is where the config does not say."""
    return _soft_cap(fields, "final_logit_softcapping", 0.0)


def _soft_cap(fields: ConfigFields, name: str, default: float) -> float:
    """A soft cap, 0 for none; usual: the default of an absent key."""
    return fields.non_negative(name) if name in fields else default


def _attention(fields: ConfigFields) -> AttentionSpec:
    if fields.flag("use_bidirectional_attention", default=False):
        raise UnsupportedModel(
            "{origin}: the config asks for attention in both directions, which this version does "
            "not run. Take another Gemma.",
            origin=fields.origin,
        )
    bias = fields.flag("attention_bias", default=False)
    scale = fields.number("query_pre_attn_scalar", 256.0) ** -0.5
    return replace(plain_attention(fields), qkv_bias=bias, out_bias=bias, scale=scale)


def _model(
    fields: ConfigFields, full: AttentionSpec, sliding: AttentionSpec, cap: float
) -> ModelSpec:
    """full, slides: of layers without and with a window. cap: of logits."""
    act = read_activation(fields, "gelu_pytorch_tanh", "hidden_activation")
    feed = FeedForwardSpec(fields.count("intermediate_size"), act)
    windows = fields.layer_windows(
        fields.count("sliding_window"),
        lambda layer: (layer + 1) % fields.count("sliding_window_pattern", 6) != 0,
    )
    mixers = (full if window is None else replace(sliding, window=window) for window in windows)
    model = plain_model(fields, (BlockSpec(mixer, feed, norms="both") for mixer in mixers))
    return replace(model, embed_scale=math.sqrt(model.hidden), logit_cap=cap)


class Gemma(NativeFamily):
    """`gemma`, the first, whose configs say `gelu` though it was trained with that by tanh."""

    norms = "1+w"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        bias = fields.flag("attention_bias", default=False)
        attention = replace(plain_attention(fields), qkv_bias=bias, out_bias=bias)
        act = read_activation(fields, "gelu_pytorch_tanh")
        feed = FeedForwardSpec(
            fields.count("intermediate_size"), "gelu_tanh" if act == "gelu" else act
        )
        model = plain_model(fields, [BlockSpec(attention, feed)] * fields.layers())
        return replace(model, embed_scale=math.sqrt(model.hidden))
