"""Gemma 4: hidden states apart from logits, and the keys and values that its assistant reads."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.mlx_lm_trunk.adapters import TrunkAdapter
from mlx_engine.models.mlx_lm_trunk.caches import as_the_class_has_them, kept_caches
from mlx_engine.models.mlx_lm_trunk.trunk import Trunk, take_apart

GEMMA4 = ("gemma4_text", "gemma4", "gemma4_unified")


class SharedLayer(NamedTuple):
    """A layer whose keys and values others read: [1, heads, T, size] each.

    window: tokens its rows see, None for all.
    """

    number: int
    heads: int
    size: int
    window: int | None

    @property
    def width(self) -> int:
        """Keys and values of one token."""
        return 2 * self.heads * self.size


class Gemma4Adapter(TrunkAdapter):
    """The text model; hidden states are those after the final norm.

    full, sliding: the last layer of each kind with keys and values of its own; None: there is none.
    """

    def __init__(self, text: Module) -> None:
        inner = text["model"]
        shared = {layer.number: layer for layer in _with_own_keys(inner)}
        full = [layer for layer in shared.values() if layer.window is None]
        sliding = [layer for layer in shared.values() if layer.window is not None]
        self.full = full[-1] if full else None
        self.sliding = sliding[-1] if sliding else None
        self._scale = float(inner.embed_scale)
        super().__init__(_capped(take_apart(text), text), partial(kept_caches, text))

    def embed(self, tokens: mx.array) -> mx.array:
        """Int tokens [..., T] -> [..., T, H], scaled as the first layer gets them."""
        return self.trunk.embed(tokens) * self._scale

    def forward_with_keys(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states, then the new keys and values of `full` and `sliding`.

        [1, T, H + full.width + sliding.width], each token's heads one after the other.
        """
        assert self.full is not None
        assert self.sliding is not None
        handed: list[object] = list(as_the_class_has_them(caches, tokens.shape[1]))
        heard = []
        for number in (self.full.number, self.sliding.number):
            cache = caches.layers[number]
            assert isinstance(cache, AttentionCache | WindowCache)
            heard.append(_Overheard(cache))
            handed[number] = heard[-1]
        hidden = self.trunk.norm(self.trunk.layers(tokens, handed))
        return mx.concatenate([hidden, *(row for one in heard for row in one.rows())], axis=-1)


class _Overheard:
    """A cache as an mlx-lm class knows it, which remembers the rows of one block."""

    def __init__(self, cache: AttentionCache | WindowCache) -> None:
        self._cache = cache
        self._block: KeysValues | None = None
        self.make_mask = cache.make_mask

    @property
    def offset(self) -> int:
        """Position of the next row."""
        return self._cache.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Of the cache."""
        self._block = KeysValues(keys, values)
        return self._cache.update_and_fetch(keys, values)

    def rows(self) -> list[mx.array]:
        """Keys and values of the block, [1, T, heads * size] each."""
        assert self._block is not None
        return [array.transpose(0, 2, 1, 3).reshape(1, array.shape[2], -1) for array in self._block]


def gemma4_adapter(model: Module) -> Gemma4Adapter:
    """From the built class, with or without the wrapping that published models have."""
    text: Module = model.get("language_model", model)
    return Gemma4Adapter(text)


def with_head_sizes(config: Mapping[str, object]) -> dict[str, object]:
    """The config with `global_head_dim`, which transformers 5.23 writes layer by layer."""
    made = dict(config)
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        made["text_config"] = with_head_sizes(inner)
    layers = config.get("per_layer_config")
    if isinstance(layers, Mapping) and "global_head_dim" not in config:
        sizes = [entry.get("head_dim") for entry in layers.values() if isinstance(entry, Mapping)]
        made["global_head_dim"] = sizes[0] if sizes else config.get("head_dim")
    return made


def _with_own_keys(inner: Module) -> list[SharedLayer]:
    found = []
    for number, layer in enumerate(inner["layers"]):
        attention = layer["self_attn"]
        if "k_proj" in attention:
            window = inner.window_size if layer.layer_type == "sliding_attention" else None
            found.append(SharedLayer(number, attention.n_kv_heads, attention.head_dim, window))
    return found


def _capped(trunk: Trunk, text: Module) -> Trunk:
    """The trunk with logits held within the model's limits."""
    limit, output = text.final_logit_softcapping, trunk.output
    if limit is None:
        return trunk
    return replace(trunk, output=lambda hidden: mx.tanh(output(hidden) / limit) * limit)
