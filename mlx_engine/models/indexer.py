"""Lightning indexer of sparse attention (arXiv 2512.02556): which tokens a row attends to.

The published kernels score rotated (Hadamard) queries and keys in fp8; the rotation changes no
product, so it is left out, and scores are of the model's own type. A row's selection depends on its
scores alone: of equal ones, which are common because negative products count 0, the latest tokens
are taken, whatever rows lie beside it.
"""

from collections.abc import Iterator

import mlx.core as mx

from metal_kernels.stock import SCORES_BYTES, Position
from mlx_engine.cache.attention import AttentionCache, positions
from mlx_engine.models.layer_specs import IndexerSpec
from mlx_engine.models.layers import Linear, Norm, RotaryEmbedding
from mlx_engine.models.weights import Part

_KEY_EPS = 1e-6
"""Of the layer norm of keys: transformers' and llama.cpp's; mlx-lm's is 1e-5."""


class Indexer:
    """An indexer with its own projections; its keys are cached beside those of the attention."""

    def __init__(self, spec: IndexerSpec, part: Part) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        self._to_keys = Linear.read(part, "wk")
        self._key_norm = Norm.read(part, "k_norm", _KEY_EPS, is_layer_norm=True)
        self._queries = Linear.read(part, "wq_b")
        self._weights = Linear.read(part, "weights_proj")
        self._rotate = RotaryEmbedding(spec.rope, self._stock)

    def keys(self, x: mx.array, position: Position) -> mx.array:
        """Normed hidden states [1, T, H] from `position` on -> keys to cache [1, 1, T, size]."""
        return self._rotate(self._key_norm(self._to_keys(x))[:, None], position)

    def select(
        self, x: mx.array, query_latent: mx.array, cache: AttentionCache, position: Position
    ) -> mx.array | None:
        """Select tokens for each row of a block that was just written to the cache.

        x: normed hidden states [1, T, H]. query_latent: [1, T, rank]. Returns ascending positions
        uint32 [T, most]; rows that see fewer tokens get 0 behind theirs. None where all do.
        """
        spec, rows, (keys,) = self._spec, x.shape[1], cache.others
        if keys.shape[2] <= spec.most:
            return None
        queries = self._queries(query_latent).reshape(1, rows, spec.heads, spec.size)
        queries = self._rotate(queries.swapaxes(1, 2), position).swapaxes(1, 2)[0]
        factor = (spec.heads * spec.size) ** -0.5
        weights = (self._weights(x)[0].astype(mx.float32) * factor)[..., None]
        columns = keys[0, 0].T
        made = []
        for part in tiles(rows, 2 * spec.heads * keys.shape[2] * 4):
            places = positions(position, range(part.start, part.stop))[:, None]
            weighed = self._stock.elementwise(_weigh)(queries[part] @ columns, weights[part])
            seen = self._stock.indices((1, keys.shape[2])) <= places
            made.append(self._highest(mx.where(seen, weighed.sum(axis=1), -mx.inf)))
        return made[0] if len(made) == 1 else mx.concatenate(made)

    def _highest(self, scores: mx.array) -> mx.array:
        """Ascending indices [R, most] of the highest scores [R, L], the last ones of equal ones."""
        most, length = self._spec.most, scores.shape[1]
        least = self._stock.top_values(scores, most)[:, :1]
        above, equal = scores > least, scores == least
        left = most - above.sum(axis=1, keepdims=True)
        chosen = above | (equal & (mx.cumsum(equal, axis=1, reverse=True) <= left))
        ranks = mx.where(chosen, mx.cumsum(chosen, axis=1) - 1, most)
        indices = mx.broadcast_to(self._stock.indices((1, length)), scores.shape)
        free = mx.zeros((len(scores), most + 1), mx.uint32)  # the last is for those not chosen
        return mx.put_along_axis(free, ranks, indices, axis=1)[:, :most]


def tiles(rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Cut rows into slices whose temporary arrays take SCORES_BYTES at most, where possible."""
    count = max(1, SCORES_BYTES // bytes_per_row)
    return (slice(start, min(start + count, rows)) for start in range(0, rows, count))


def _weigh(products: mx.array, weights: mx.array) -> mx.array:
    return mx.maximum(products, 0) * weights
