"""DFlash: a small model that drafts a whole block in one pass (z-lab's DFlash, 2025).

fc and a norm join residuals of the target into one state for every token read; each layer makes
keys and values of these. A block holds the newest token and mask tokens; its rows attend to all of
that and to one another, and row i says token i of the block. Embedding and output head are the
target's.
"""

from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.drafters.dflash_config import DFlashConfig
from mlx_engine.models.drafters.feature_adapter import FeatureAdapter
from mlx_engine.models.drafters.rotation import Rotation
from mlx_engine.models.drafters.target import DraftTarget, check_widths
from mlx_engine.models.layers import GatedFeedForward, Linear, Norm
from mlx_engine.models.weights import WeightTable

ContextCache = AttentionCache | WindowCache


@dataclass(frozen=True, slots=True)
class _Layer:
    """A residual block; window and causal as in the config."""

    sizes: DFlashConfig
    rotation: Rotation
    window: int | None
    causal: bool
    norm: Norm
    queries: Linear
    keys: Linear
    values: Linear
    out: Linear
    query_norm: Norm
    key_norm: Norm
    second_norm: Norm
    feed_forward: GatedFeedForward

    @staticmethod
    def take(table: WeightTable, sizes: DFlashConfig, number: int, rotation: Rotation) -> "_Layer":
        name, hidden, eps, size = f"layers.{number}", sizes.hidden, sizes.eps, sizes.head_size
        inner, kept = f"{name}.self_attn", sizes.kv_heads * size
        return _Layer(
            sizes,
            rotation,
            sizes.windows[number],
            sizes.causal[number],
            Norm.take(table, f"{name}.input_layernorm", hidden, eps),
            Linear.take(table, f"{inner}.q_proj", sizes.heads * size, hidden),
            Linear.take(table, f"{inner}.k_proj", kept, hidden),
            Linear.take(table, f"{inner}.v_proj", kept, hidden),
            Linear.take(table, f"{inner}.o_proj", hidden, sizes.heads * size),
            Norm.take(table, f"{inner}.q_norm", size, eps),
            Norm.take(table, f"{inner}.k_norm", size, eps),
            Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps),
            GatedFeedForward.take(table, f"{name}.mlp", hidden, sizes.inner),
        )

    def remember(self, context: mx.array, cache: ContextCache) -> None:
        """Write keys and values of joined states [1, T, H]; the caller keeps them."""
        cache.update_and_fetch(*self._keys_values(context, cache.length))

    def __call__(self, x: mx.array, cache: ContextCache) -> mx.array:
        """A block [1, B, H] behind what the cache holds -> [1, B, H]; nothing is remembered."""
        x = x + self._attend(self.norm(x), cache)
        return self.feed_forward.onto(x, self.second_norm(x))

    def _attend(self, x: mx.array, cache: ContextCache) -> mx.array:
        rows, start = x.shape[1], cache.length
        queries = self.query_norm(self._by_head(self.queries(x), self.sizes.heads))
        queries = self.rotation(queries.transpose(0, 2, 1, 3), start)
        own, seen = self._keys_values(x, start), cache.shown()
        attended = mx.fast.scaled_dot_product_attention(
            queries,
            mx.concatenate([seen.keys, own.keys], axis=2),
            mx.concatenate([seen.values, own.values], axis=2),
            scale=self.sizes.head_size**-0.5,
            mask=self._mask(rows, start, seen.keys.shape[2]),
        )
        return self.out(attended.transpose(0, 2, 1, 3).reshape(1, rows, -1))

    def _keys_values(self, x: mx.array, start: int) -> KeysValues:
        """[1, T, H] at positions from `start` on -> [1, heads, T, size] each."""
        kept = self.sizes.kv_heads
        keys = self.key_norm(self._by_head(self.keys(x), kept)).transpose(0, 2, 1, 3)
        values = self._by_head(self.values(x), kept).transpose(0, 2, 1, 3)
        return KeysValues(self.rotation(keys, start), values)

    def _by_head(self, x: mx.array, heads: int) -> mx.array:
        return x.reshape(1, x.shape[1], heads, self.sizes.head_size)

    def _mask(self, rows: int, start: int, shown: int) -> mx.array | None:
        """Bool [rows, shown + rows]: a row sees within its window, and the block as configured."""
        if self.window is None and not self.causal:
            return None
        queries = mx.arange(start, start + rows)[:, None]
        keys = mx.arange(start - shown, start + rows)[None]
        seen = keys <= queries if self.causal else mx.ones((rows, shown + rows), dtype=mx.bool_)
        return seen if self.window is None else seen & (keys > queries - self.window)


class DFlash:
    """The drafter of one target; `target` is to be run in its place while this drafts."""

    def __init__(self, sizes: DFlashConfig, table: WeightTable, target: DraftTarget) -> None:
        origin, hidden = table.origin, sizes.hidden
        _check_sizes(sizes, target, origin)
        self._sizes = sizes
        self._embed = target.embed
        self.target: FeatureAdapter = target.with_residuals(sizes.layers, origin)
        self._fc = Linear.take(table, "fc", hidden, len(sizes.layers) * hidden)
        self._join_norm = Norm.take(table, "hidden_norm", hidden, sizes.eps)
        rotation = Rotation.read(sizes.config, sizes.head_size, origin)
        self._layers = [_Layer.take(table, sizes, n, rotation) for n in range(len(sizes.windows))]
        self._norm = Norm.take(table, "norm", hidden, sizes.eps)
        table.check_all_used()
        self.arrays = table.handed_out

    @property
    def most(self) -> int:
        """Tokens it can draft at once."""
        return self._sizes.block - 1

    def check_values(self) -> None:
        """All is told by the headers."""

    def make_caches(self) -> LayerCaches:
        """Empty caches for what each layer remembers of the target's tokens."""
        return LayerCaches(
            [AttentionCache() if window is None else WindowCache(window)
             for window in self._sizes.windows]
        )  # fmt: skip

    def remember(self, features: mx.array, caches: LayerCaches) -> None:
        """Write what the target's features [1, T, F] mean to each layer, and keep it."""
        context = self._join_norm(self._fc(features))
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            layer.remember(context, cache)
        caches.keep(features.shape[1])

    def block(self, token: mx.array, caches: LayerCaches) -> mx.array:
        """The newest token int [1] -> states [1, most, H] of the tokens after it.

        Always a whole block, as it was trained, however few tokens are wanted.
        """
        masks = mx.full((self.most,), self._sizes.mask_token, dtype=token.dtype)
        x = self._embed(mx.concatenate([token, masks])[None]) * self._sizes.scale
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            x = layer(x, cache)
        return self._norm(x)[:, 1:]

    def logits(self, states: mx.array) -> mx.array:
        """States [1, T, H] -> float32 logits [1, T, V] through the target's output head."""
        logits, cap = self.target.logits(states) * self._sizes.multiplier, self._sizes.cap
        return logits if cap is None else mx.tanh(logits / cap) * cap


def _check_sizes(sizes: DFlashConfig, target: DraftTarget, origin: str) -> None:
    adapter = target.adapter
    pairs = {
        "hidden states are": (sizes.hidden, adapter.hidden_size),
        "vocabulary is": (sizes.vocabulary, adapter.vocabulary),
    }
    check_widths(pairs, origin)
