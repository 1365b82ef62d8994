"""Gemma 1 to 3 (arXiv 2403.08295, 2408.00118, 2503.19786), built on the engine's own layers.

Gemma 3 norms before and after mixer and feed-forward and has five sliding-window layers, with an
unscaled RoPE base of their own, to each full one. The first Gemma norms before only and has no
windows. Norm weights are stored as w and used as 1 + w; embeddings are multiplied by
sqrt(hidden_size). In Gemma 3 rows of a picture attend to all of it, within a layer's window.
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
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily


class Gemma3(NativeFamily):
    """Gemma 3 (`gemma3`, `gemma3_text`): five sliding-window layers to each full one."""

    norms = "1+w"
    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "feed_out_norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        full = replace(_attention_spec(fields), qk_norm="head", whole_pictures=True)
        base = fields.number("rope_local_base_freq", 10000.0)
        local = local_rope(fields, full.key_dim, base)
        return _gemma_model(fields, full, replace(full, rope=local), logit_cap(fields))


class Gemma2(Gemma3):
    """Gemma 2 (`gemma2`): soft-capped scores and logits, a sliding window in every other layer."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        caps = (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0))
        scores, logits = (_attention_soft_cap(fields, name, default) for name, default in caps)
        mixer = replace(_attention_spec(fields), cap=scores)
        return _gemma_model(fields, mixer, mixer, logits)


def logit_cap(fields: ConfigFields) -> float:
    """Read the soft cap of logits from a config of Gemma 3 or 4; 0 for none, the default."""
    return _attention_soft_cap(fields, "final_logit_softcapping", 0.0)


def _attention_soft_cap(fields: ConfigFields, name: str, default: float) -> float:
    return fields.non_negative_number(name) if name in fields else default


def _attention_spec(fields: ConfigFields) -> AttentionSpec:
    scale = fields.number("query_pre_attn_scalar", 256.0) ** -0.5
    return replace(plain_attention(fields, bias="attention_bias"), scale=scale)


def _gemma_model(
    fields: ConfigFields, full: AttentionSpec, sliding: AttentionSpec, cap: float
) -> ModelSpec:
    """Build Gemma's ModelSpec from attention specs of full and sliding layers; cap: of logits."""
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
    """The first Gemma (`gemma`), trained with tanh GELU, though its configs say `gelu`."""

    norms = "1+w"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = plain_attention(fields, bias="attention_bias")
        act = read_activation(fields, "gelu_pytorch_tanh")
        feed = FeedForwardSpec(
            fields.count("intermediate_size"), "gelu_tanh" if act == "gelu" else act
        )
        model = plain_model(fields, [BlockSpec(attention, feed)] * fields.layers())
        return replace(model, embed_scale=math.sqrt(model.hidden))
