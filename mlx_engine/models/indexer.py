"""Lightning indexer of sparse attention (arXiv 2512.02556): which tokens a row attends to.

The published kernels score rotated (Hadamard) queries and keys in fp8; the rotation changes no
product, so it is left out, and scores are of the model's own type. A row's selection depends on its
scores alone: of equal ones, which are common because negative products count 0, the latest tokens
are taken, whatever rows lie beside it.
"""

import mlx.core as mx

from metal_kernels.stock import SCORES_BYTES, Position
from mlx_engine.cache.attention import AttentionCache, positions
from mlx_engine.models.layer_specs import IndexerSpec
from mlx_engine.models.layers import Linear, Norm, RotaryEmbedding
from mlx_engine.models.weights import Part

_SCORE_BYTES, _KEY_BYTES = 4, 8
"""Of a head's score for a token, and of the number that orders tokens."""

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

        x: normed hidden states [1, T, H]. query_latent: [1, T, rank]. Returns positions uint32
        [T, most], worst first; rows that see fewer tokens get some behind them, too. None where
        all rows see fewer.
        """
        spec, stock, (keys,) = self._spec, self._stock, cache.others
        length, rows = keys.shape[2], x.shape[1]
        if length <= spec.most:
            return None
        queries = self._queries(query_latent).reshape(1, rows, spec.heads, spec.size)
        queries = self._rotate(queries.swapaxes(1, 2), position).swapaxes(1, 2).squeeze(0)
        weights, columns = self._weights(x).reshape(rows, -1, 1), keys.squeeze((0, 1)).T
        weigh, made = stock.elementwise(_weigh), list[mx.array]()
        for few in tiles(slice(0, rows), 4 * length * _KEY_BYTES):
            each = [
                weigh(queries[part] @ columns, weights[part]).sum(axis=1)
                for part in tiles(few, 2 * spec.heads * length * _SCORE_BYTES)
            ]
            scores = mx.concatenate(each) if len(each) > 1 else each[0]
            places = stock.indices((1, length))
            if rows > 1 or isinstance(position, mx.array):
                seen = places <= positions(position, range(few.start, few.stop))[:, None]
                scores = mx.where(seen, scores, -mx.inf)
            ranked = mx.sort(stock.elementwise(_rank)(scores, places), axis=1)
            made.append(ranked[:, -spec.most :].astype(mx.uint32))
        return mx.concatenate(made) if len(made) > 1 else made[0]


def tiles(rows: slice, bytes_per_row: int) -> list[slice]:
    """Cut rows into slices whose temporary arrays take SCORES_BYTES at most, where possible."""
    count = max(1, SCORES_BYTES // bytes_per_row)
    starts = range(rows.start, rows.stop, count)
    return [slice(start, min(start + count, rows.stop)) for start in starts]


def _weigh(products: mx.array, weights: mx.array) -> mx.array:
    """Weighted scores in float32; their scale is left out, as it changes no selection."""
    return mx.maximum(products, 0) * weights.astype(mx.float32)


def _rank(scores: mx.array, places: mx.array) -> mx.array:
    """Integers in the order of float32 scores, and of places where scores are equal."""
    bits = (scores + 0.0).view(mx.int32)  # -0.0 is 0.0
    ordered = mx.bitwise_xor(bits, mx.right_shift(bits, 31) & 0x7FFFFFFF)
    return mx.left_shift(ordered.astype(mx.int64), 32) | places.astype(mx.int64)
