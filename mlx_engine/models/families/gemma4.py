"""Gemma 4: full and sliding layers differ in head size and RoPE.

The last layers may read the keys and values of the last earlier layer of their type. Small models
have per-layer inputs, one has experts in parallel to a dense feed-forward; full layers may use
projected keys as values. Norm weights are used as stored. In sliding layers of all but the small
models (`use_bidirectional_attention`) rows of a picture attend to all of it, within the window;
transformers does so when it generates, while llama.cpp has no causal mask there in any layer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.gemma3 import logit_cap
from mlx_engine.models.families.llama import head_size, plain_model, read_activation
from mlx_engine.models.family import TensorParts
from mlx_engine.models.feed_forward_specs import Activation, ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, RopeSpec
from mlx_engine.models.model_spec import AssistantLayers, BlockSpec, ModelSpec, PerLayerInputsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import rope_spec
from mlx_engine.models.tensor_names import (
    is_clipping_limit,
    is_key_value_tensor,
    layer_number,
    strip_prefixes,
)
from mlx_engine.values.words import Words

T = TypeVar("T")

FULL, SLIDING = "full_attention", "sliding_attention"
"""Layer types in the config's `layer_types`."""

_ROTATIONS: dict[str, dict[str, object]] = {
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}
"""RoPE parameters by layer type, for configs without `rope_parameters`."""


class Gemma4(NativeFamily):
    """Gemma 4 (`gemma4`, `gemma4_unified`, `gemma4_text`): full and sliding layers differ."""

    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "feed_out_norm",
        "post_feedforward_layernorm_1": "dense_out_norm",
        "pre_feedforward_layernorm_2": "experts_norm",
        "post_feedforward_layernorm_2": "experts_out_norm",
        "router.proj": "mlp.gate",
        "router.scale": "mlp.router_norm.weight",
        "router.per_expert_scale": "mlp.expert_scale",
        "experts": "mlp.experts",
        "experts.switch_glu": "mlp.switch_mlp",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        windows = _layer_windows(fields)
        sources = _kv_source_layers(fields, windows)
        width = fields.count("hidden_size_per_layer_input", 0, minimum=0)
        blocks = [
            BlockSpec(
                _attention_spec(fields, number, window, sources[number]),
                _feed_forward_spec(fields, is_shared=sources[number] is not None),
                norms="both",
                experts=_experts_spec(fields),
                per_layer_width=width,
                scaled=True,
            )
            for number, window in enumerate(windows)
        ]
        return replace(
            plain_model(fields, blocks),
            embed_scale=math.sqrt(fields.count("hidden_size")),
            logit_cap=logit_cap(fields),
            per_layer=_per_layer_inputs(fields, width),
            assistant_layers=_assistant_layers(windows, sources),
        )

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort tensors; keys and values of layers that read an earlier layer's are skipped."""
        unread = {name for name in tensors if self._is_unused_tensor(name)}
        parts = super().split_tensors({n: tensors[n] for n in tensors if n not in unread}, origin)
        return replace(parts, skipped=parts.skipped | {name: tensors[name] for name in unread})

    def _is_unused_tensor(self, name: str) -> bool:
        bare, blocks = strip_prefixes(name), self.spec.blocks
        number = layer_number(bare)
        reads_others = 0 <= number < len(blocks) and blocks[number].kv_layer is not None
        return (reads_others and is_key_value_tensor(bare)) or is_clipping_limit(bare)


def _layer_windows(fields: ConfigFields) -> list[int | None]:
    """Sliding window of each layer in tokens; None for full attention, as in the last one."""
    window = fields.count("sliding_window", 512)
    windows = fields.layer_windows(window, lambda layer: (layer + 1) % 6 != 0)
    return [*windows[:-1], None]


def _kv_source_layers(fields: ConfigFields, windows: Sequence[int | None]) -> list[int | None]:
    """For each layer the number of the one whose keys and values it reads; None for its own."""
    key, layers = "num_kv_shared_layers", len(windows)
    shared = fields.count(key, 0, minimum=0, maximum=layers - 1)
    last = {window: number for number, window in enumerate(windows[: layers - shared])}
    if shared and not last.keys() >= {*windows}:
        wanted = Words("a number that leaves a layer of each kind its own keys")
        raise fields.bad_field(key, shared, wanted)
    return [None] * (layers - shared) + [last[window] for window in windows[layers - shared :]]


def _attention_spec(
    fields: ConfigFields, number: int, window: int | None, kv_layer: int | None
) -> AttentionSpec:
    kind = FULL if window is None else SLIDING
    layer = fields_of_layer(fields, number, kind)
    heads, head = layer.count("num_attention_heads"), head_size(layer)
    bias = layer.flag("attention_bias", default=False)
    shares = layer.flag("attention_k_eq_v", default=False) and kind == FULL
    return AttentionSpec(
        heads=heads,
        kv_heads=layer.kv_heads(heads),
        key_dim=head,
        value_dim=head,
        rope=layer_type_rope(layer, head, kind),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        window=window,
        scale=1.0,
        values="keys" if shares else "projected",
        value_norm=True,
        kv_layer=kv_layer,
        whole_pictures=fields.has("use_bidirectional_attention") and kind == SLIDING,
    )


def fields_of_layer(fields: ConfigFields, number: int, layer_type: str) -> ConfigFields:
    """Config fields of Gemma 4 with the head size and number of key heads of one layer filled in.

    transformers 5.23 writes them per layer; older configs have one value for all full layers.
    """
    sizes = ("head_dim", "num_key_value_heads")
    per_layer = fields.section("per_layer_config")
    if per_layer is not None:
        keys = (f"{number:0{digits}}" for digits in (1, 2, 3))  # all of one length in a config
        layer = next(filter(None, map(per_layer.section, keys)), None)
        own = {n: layer.count(n) for n in sizes if layer is not None and layer.has(n)}
        return fields.with_values(**own)
    if layer_type != FULL:
        return fields
    own = {"head_dim": fields.count("global_head_dim", _global_head_size(fields))}
    if fields.flag("attention_k_eq_v", default=False) and fields.has("num_global_key_value_heads"):
        own["num_key_value_heads"] = fields.count("num_global_key_value_heads")
    return fields.with_values(**own)


def _global_head_size(fields: ConfigFields) -> int:
    """Read the head size of full-attention layers; where its field is null, that of all layers."""
    return fields.count("head_dim") if "global_head_dim" in fields else 512


def layer_type_rope(fields: ConfigFields, head_dim: int, layer_type: str) -> RopeSpec:
    """Read the RoPE spec of Gemma 4's full or sliding layers; head_dim: elements of a head."""
    key = "rope_parameters"
    if not fields.has(key):
        fields = fields.with_values(**{key: _ROTATIONS})
    given = fields.section(key)
    if given is None or given.section(layer_type) is None:
        wanted = Words("an object for each kind of layer")
        raise fields.bad_field(key, f"{layer_type}: null", wanted)
    outer = ("rope_theta", "rope_scaling", "partial_rotary_factor")
    return rope_spec(fields.with_values(**dict.fromkeys(outer)), head_dim, kind=layer_type)


def _feed_forward_spec(fields: ConfigFields, *, is_shared: bool) -> FeedForwardSpec:
    """Dense feed-forward spec; may be twice as wide in layers that share another layer's keys."""
    is_wide = is_shared and fields.flag("use_double_wide_mlp", default=False)
    inner = fields.count("intermediate_size") * (2 if is_wide else 1)
    return FeedForwardSpec(inner, _activation(fields))


def _activation(fields: ConfigFields) -> Activation:
    return read_activation(fields, "gelu_pytorch_tanh", "hidden_activation")


def _experts_spec(fields: ConfigFields) -> ExpertsSpec | None:
    if not fields.flag("enable_moe_block", default=False):
        return None
    count = fields.count("num_experts", maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("top_k_experts", maximum=count),
        feed=FeedForwardSpec(fields.count("moe_intermediate_size"), _activation(fields)),
        router_norm=True,
    )


def _per_layer_inputs(fields: ConfigFields, width: int) -> PerLayerInputsSpec | None:
    if not width:
        return None
    key, vocabulary = "vocab_size_per_layer_input", fields.count("vocab_size")
    rows = fields.count(key)
    if rows < vocabulary:
        raise fields.bad_field(key, rows, f"at least vocab_size={vocabulary}")
    return PerLayerInputsSpec(rows, width)


def _assistant_layers(
    windows: Sequence[int | None], sources: Sequence[int | None]
) -> AssistantLayers | None:
    """Numbers of the last full and sliding layers with own keys; None if a type is absent."""
    own = [n for n, kv_layer in enumerate(sources) if kv_layer is None]
    full = [n for n in own if windows[n] is None]
    sliding = [n for n in own if windows[n] is not None]
    return AssistantLayers(full[-1], sliding[-1]) if full and sliding else None
