"""Gemma 4: hidden states apart from logits, and the keys and values that its assistant reads."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Identity

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.contract import Headless
from mlx_engine.models.library.caches import handed_to_class, kept_caches
from mlx_engine.models.library.model import packed_cache_of
from mlx_engine.values.options import CacheBits


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


class Gemma4Model(Headless):
    """The text model; hidden states are those after the final norm.

    full, sliding: the last layer of each kind with keys and values of its own; None: there is none.
    """

    plain_only = None

    def __init__(self, text: Module) -> None:
        inner = text["model"]
        shared = {layer.number: layer for layer in _with_own_keys(inner)}
        full = [layer for layer in shared.values() if layer.window is None]
        sliding = [layer for layer in shared.values() if layer.window is not None]
        self.full = full[-1] if full else None
        self.sliding = sliding[-1] if sliding else None
        self._text, self._inner, self._ear = text, inner, _Ear()
        self._scale, self._cap = float(inner.embed_scale), text.final_logit_softcapping
        self._norm, self._rows = inner["norm"], inner["embed_tokens"]
        self._output = text.get("lm_head", self._rows.as_linear)
        inner.norm = Identity()  # both its sides are wanted
        self.layers = len(inner["layers"])
        seen = self.forward(mx.zeros((1, 1), dtype=mx.int32), self.make_caches())
        self.hidden_size, self.vocabulary = seen.shape[-1], self.logits(seen).shape[-1]
        self.packed_cache = packed_cache_of(self)

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for all layers."""
        return kept_caches(self._text, bits)

    def embed(self, tokens: mx.array) -> mx.array:
        """Int tokens [..., T] -> [..., T, H], unscaled."""
        rows: mx.array = self._rows(tokens)
        return rows

    def scaled_embed(self, tokens: mx.array) -> mx.array:
        """The same as the first layer gets them."""
        return self.embed(tokens) * self._scale

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states after the final norm [1, T, H]."""
        hidden: mx.array = self._norm(self._residual(tokens, caches))
        return hidden

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V], held within the model's limits."""
        logits: mx.array = self._output(hidden)
        if self._cap is not None:
            logits = mx.tanh(logits / self._cap) * self._cap
        return logits.astype(mx.float32)

    def forward_with(self, tokens: mx.array, caches: LayerCaches, after: Sequence[int]) -> mx.array:
        """Hidden states and, behind them, the residuals after these layers (-1: the embedding)."""
        for layer in after:
            self._listen(layer)
        heard = self._ear.heard = {}
        try:
            heard[self.layers - 1] = residual = self._residual(tokens, caches)
        finally:
            self._ear.heard = None
        return mx.concatenate([self._norm(residual), *(heard[layer] for layer in after)], axis=-1)

    def forward_with_keys(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states, then the new keys and values of `full` and `sliding`.

        [1, T, H + full.width + sliding.width], each token's heads one after the other.
        """
        assert self.full is not None
        assert self.sliding is not None
        handed: list[object] = list(handed_to_class(caches, tokens.shape[1]))
        heard = []
        for number in (self.full.number, self.sliding.number):
            cache = caches.layers[number]
            assert isinstance(cache, AttentionCache | WindowCache)
            heard.append(_Overheard(cache))
            handed[number] = heard[-1]
        hidden = self._norm(self._inner(tokens, handed))
        return mx.concatenate([hidden, *(row for one in heard for row in one.rows())], axis=-1)

    def _residual(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """[1, T, H] before the final norm."""
        hidden: mx.array = self._inner(tokens, handed_to_class(caches, tokens.shape[1]))
        return hidden

    def _listen(self, layer: int) -> None:
        """To the residual that the layer behind this one begins with."""
        if layer < self.layers - 1:
            following = self._inner["layers"][layer + 1]
            if not isinstance(following["input_layernorm"], _Tap):
                following.input_layernorm = _Tap(following["input_layernorm"], layer, self._ear)


class _Ear:
    """What the taps of one model hear: residuals by the layer they come from; None: not listening.

    Nothing is kept between passes, so that no residual outlives its use.
    """

    def __init__(self) -> None:
        self.heard: dict[int, mx.array] | None = None


class _Tap(Module):
    """A norm that tells an ear what it is given: the residual after `layer`."""

    def __init__(self, norm: Module, layer: int, ear: _Ear) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.norm = norm
        self._layer = layer
        self._ear = ear

    def __call__(self, x: mx.array) -> mx.array:
        """As the norm."""
        if self._ear.heard is not None:
            self._ear.heard[self._layer] = x
        normed: mx.array = self.norm(x)
        return normed


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


def gemma4_model(whole: Module) -> Gemma4Model:
    """From the built class, with or without the wrapping that published models have."""
    text: Module = whole.get("language_model", whole)
    return Gemma4Model(text)


_OF_FULL_LAYERS = {
    "head_dim": "global_head_dim",
    "num_key_value_heads": "num_global_key_value_heads",
}


def with_head_sizes(config: Mapping[str, object]) -> dict[str, object]:
    """The config with the sizes of full layers, which transformers 5.23 writes layer by layer."""
    made = dict(config)
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        made["text_config"] = with_head_sizes(inner)
    layers = config.get("per_layer_config")
    if not isinstance(layers, Mapping):
        return made
    entries = [entry for entry in layers.values() if isinstance(entry, Mapping)]
    for key, of_full_layers in _OF_FULL_LAYERS.items():
        told = next((entry[key] for entry in entries if key in entry), config.get(key))
        made.setdefault(of_full_layers, told)
    return made


def _with_own_keys(inner: Module) -> list[SharedLayer]:
    found = []
    for number, layer in enumerate(inner["layers"]):
        attention = layer["self_attn"]
        if "k_proj" in attention:
            window = inner.window_size if layer.layer_type == "sliding_attention" else None
            found.append(SharedLayer(number, attention.n_kv_heads, attention.head_dim, window))
    return found
