"""Indexers of sparse attention, which select the tokens that a row attends to.

A lightning indexer (arXiv 2512.02556) selects single tokens, in GLM-5.3-Flash pools of tokens by
weighted means of their keys; that of Qwen3.8-Flash-Next selects blocks of tokens by plain means,
that of MiniMax-M3 blocks by their best token, for each key head. Means of committed rows are made
once. The published kernels of the first score rotated (Hadamard) queries and keys in fp8; the
rotation changes no product, so it is left out, and scores are of the model's own type. A row's
selection depends on its scores alone: of equal ones, which are common because negative products
count 0, the latest tokens are taken, whatever rows lie beside it.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.choice import MOST_ROWS, Kernels
from metal_kernels.stock import SCORES_BYTES, ElementwiseFunction, Position, StockOperations
from mlx_engine.cache.attention import AttentionCache, row_positions
from mlx_engine.models.layer_specs import BlockIndexSpec, GroupIndexSpec, IndexerSpec, RopeSpec
from mlx_engine.models.layers import Linear, Norm, Projections, RotaryEmbedding
from mlx_engine.models.weights import Part

_SCORE_BYTES, _KEY_BYTES = 4, 8
"""Of a head's score for a token, and of the number that orders tokens."""

_MINUS_ZERO = -(2**31)
"""Bits of -0.0 as an int32."""


class EntryIndexer:
    """Selects entries, each a token or a mean of several, by index keys that the caller makes."""

    def __init__(self, spec: IndexerSpec, part: Part, tokens_per_entry: int = 1) -> None:
        self._spec, self._stock, self._ratio = spec, part.kernels.stock, tokens_per_entry
        self._queries = Linear.read(part, "wq_b")
        self._weights = Linear.read(part, "weights_proj")
        self._rotate = None if spec.rope is None else RotaryEmbedding(spec.rope, self._stock)

    def _turn(self, x: mx.array, position: Position) -> mx.array:
        """Rotate queries or keys [1, N, T, size]; those rotated at their end begin with it then."""
        rope = self._spec.rope
        if self._rotate is None or rope is None:
            return x
        still = self._spec.size - rope.width
        if not self._spec.rotates_end or not still:
            return self._rotate(x, position)
        rest, end = mx.split(x, [still], axis=-1)
        return mx.concatenate([self._rotate(end, position), rest], axis=-1)

    def select_entries(
        self,
        x: mx.array,
        query_latent: mx.array,
        keys: mx.array,
        position: Position,
        narrow: "Callable[[mx.array, slice], mx.array] | None" = None,
    ) -> mx.array | None:
        """Select entries for each row of a block, among those that end before it or with it.

        x: normed hidden states [1, T, H] from `position` on. query_latent: [1, T, rank]. keys: [1,
        1, L, size], of all entries up to the last row. Returns indices uint32 [T, most], worst
        first; rows that see fewer entries get some behind them, too. None where all rows see fewer.
        narrow: takes scores [R, L] of some rows, -inf for what they do not see, and returns those
        to select by.
        """
        spec, stock = self._spec, self._stock
        length, rows = keys.shape[2], x.shape[1]
        if length <= spec.most:
            return None
        queries = self._queries(query_latent).reshape(1, rows, spec.heads, spec.size)
        queries = self._turn(queries.swapaxes(1, 2), position).swapaxes(1, 2).squeeze(0)
        weights, columns = self._weights(x).reshape(rows, -1, 1), keys.squeeze((0, 1)).T
        weigh, made = stock.compile_elementwise(_weighted_head_scores), list[mx.array]()
        for few in score_tiles(slice(0, rows), 4 * length * _KEY_BYTES):
            scores = join_tiles(
                weigh(queries[part] @ columns, weights[part]).sum(axis=1)
                for part in score_tiles(few, 2 * spec.heads * length * _SCORE_BYTES)
            )
            places = stock.consecutive_indices((1, length))
            if rows > 1 or isinstance(position, mx.array):
                ends = row_positions(position, range(few.start + 1, few.stop + 1))[:, None]
                seen = places < (ends if self._ratio == 1 else ends // self._ratio)
                scores = mx.where(seen, scores, -mx.inf)
            if narrow is not None:
                scores = narrow(scores, few)
            made.append(_top_k_indices(scores, spec.most, stock))
        return join_tiles(made)


class VisibleEntries(NamedTuple):
    """Entries [1, 1, E, size] that rows of a block attend to.

    selected: numbers [T, N], ascending, that each row sees, and of some behind it; None for all.
    keys: [1, 1, E, key size], that indexers score. candidates: bool [T, blocks], those that later
    indexers select in; None for all.
    """

    entries: mx.array
    selected: mx.array | None
    keys: mx.array | None = None
    candidates: mx.array | None = None


def best_blocks(scores: mx.array, block: int, most: int, stock: StockOperations) -> mx.array:
    """Find the blocks of entries with the best scores [R, L] -> bool [R, blocks], `most` each.

    A row's last block is always among them. Entries that a row does not see have -inf.
    """
    blocks = -(-scores.shape[1] // block)
    padded = mx.pad(scores, [(0, 0), (0, -scores.shape[1] % block)], constant_values=-mx.inf)
    last = ((scores > -mx.inf).sum(axis=1, keepdims=True) - 1) // block
    best = padded.reshape(len(scores), blocks, block).max(axis=-1)
    best = mx.where(stock.consecutive_indices((1, blocks)) == last, mx.inf, best)
    chosen = _top_k_indices(best, most, stock)
    return mx.put_along_axis(mx.zeros(best.shape, mx.bool_), chosen, mx.array(True), axis=1)


class Indexer(EntryIndexer):
    """An indexer that selects tokens; index keys are cached beside the attention's keys."""

    def __init__(self, spec: IndexerSpec, part: Part) -> None:
        super().__init__(spec, part)
        self._to_keys = Linear.read(part, "wk")
        self._key_norm = Norm.read(part, "k_norm", spec.eps, is_layer_norm=True)

    def index_keys(self, x: mx.array, position: Position) -> mx.array:
        """Normed hidden states [1, T, H] from `position` on -> keys to cache [1, 1, T, size]."""
        return self._turn(self._key_norm(self._to_keys(x))[:, None], position)

    def select_keys(
        self, x: mx.array, query_latent: mx.array, cache: AttentionCache, position: Position
    ) -> "Selection | None":
        """Select tokens for each row of a block that was just written to the cache.

        Arguments are those of `select_entries`; an entry is a token. None where all rows see all.
        """
        (keys,) = cache.others
        found = self.select_entries(x, query_latent, keys, position)
        return None if found is None else Selection(found, None, self._spec.most)


class Selection(NamedTuple):
    """Positions int [T, N] of the tokens that rows attend to, worst ones first.

    [T, KV heads, N] where each key head has its own. counts: how many of them each row attends to,
    [T, 1], the last ones being left over; None for all. least: position from which on a row sees
    selected tokens; before it, all. known: the counts, where the host knows them.
    """

    tokens: mx.array
    counts: mx.array | None
    least: int
    known: tuple[int, ...] = ()


class PooledIndexer(EntryIndexer):
    """An indexer that selects pools of tokens; keys and gates of tokens are cached.

    A pool's key is the mean of its tokens' keys, each element of which is weighted by a softmax
    over gates plus a learned number for the token's place in the pool.
    """

    def __init__(self, spec: IndexerSpec, part: Part) -> None:
        super().__init__(spec, part, spec.pool)
        self._keys_gates = Projections.read(part, ("wk", "pool_gate"))
        self._key_norm = Norm.read(part, "k_norm", spec.eps, is_layer_norm=True)
        self._places = part.vector("pool_places", mx.float32)

    def index_keys(self, x: mx.array, position: Position) -> mx.array:
        """Hidden states [1, T, H] -> keys and gates to cache [1, 1, T, 2 * size]."""
        del position
        keys, gates = self._keys_gates(x)
        return mx.concatenate([self._key_norm(keys), gates], axis=-1)[:, None]

    def select_keys(
        self, x: mx.array, query_latent: mx.array, cache: AttentionCache, position: Position
    ) -> Selection | None:
        """Select tokens for each row of a block, as `Indexer` does, by their pools."""
        spec, (rows,) = self._spec, cache.others
        pools = rows.shape[2] // spec.pool
        if pools <= spec.most:
            cache.summaries = None
            return None
        keys = _block_summaries(cache, spec.pool, pools, self._pool_keys)
        found = self.select_entries(x, query_latent, keys, position)
        assert found is not None
        return _tokens_of_blocks(found, spec.pool, rows.shape[2], position, self._stock)

    def _pool_keys(self, rows: mx.array, first: int) -> mx.array:
        """Keys [1, 1, N, size] of pools of rows [1, 1, N * pool, 2 * size]."""
        del first
        rows = rows.reshape(1, -1, self._spec.pool, 2 * self._spec.size)
        keys, gates = mx.split(rows, 2, axis=-1)
        weights = mx.softmax(gates.astype(mx.float32) + self._places, axis=2)
        return (weights * keys).sum(axis=2)[:, None].astype(keys.dtype)


class BlockIndexer:
    """An indexer that selects blocks of tokens; raw keys are cached beside the attention's."""

    def __init__(self, spec: BlockIndexSpec, rope: RopeSpec | None, part: Part, eps: float) -> None:
        self._spec, self._kernels, self._stock = spec, part.kernels, part.kernels.stock
        self._inputs = Linear.read(part, "index_qk_proj")
        self._query_norm = Norm.read(part, "q_layernorm", eps)
        self._key_norm = Norm.read(part, "k_layernorm", eps)
        self._rotate = self._rotate_blocks = None
        if rope is not None:
            self._rotate = RotaryEmbedding(rope, self._stock)
            self._rotate_blocks = RotaryEmbedding(rope.counting(spec.block), self._stock)

    def project_queries_keys(self, x: mx.array) -> list[mx.array]:
        """Hidden states [1, T, H] -> queries [1, T, heads * size] and raw keys [1, T, size]."""
        return list(mx.split(self._inputs(x), [self._spec.heads * self._spec.size], axis=-1))

    def keys_to_cache(self, keys: mx.array, position: Position) -> mx.array:
        """Raw keys [1, T, size] -> [1, 1, T, size], as they are cached."""
        del position
        return keys[:, None]

    def select_keys(
        self, queries: mx.array, cache: AttentionCache, position: Position
    ) -> Selection | None:
        """Select tokens for each row of a block that was just written to the cache.

        queries: as `project_queries_keys` made them. None where all rows see all tokens.
        """
        spec, rows, (keys,) = self._spec, queries.shape[1], cache.others
        blocks = keys.shape[2] // spec.block
        if blocks <= spec.most:
            cache.summaries = None
            return None
        queries = self._query_norm(queries.reshape(1, rows, spec.heads, spec.size)).swapaxes(1, 2)
        if self._rotate is not None:
            queries = self._rotate(queries, position)
        queries = queries.squeeze(0).swapaxes(0, 1).astype(mx.float32)
        made = _block_summaries(cache, spec.block, blocks, self._block_keys)
        columns = made.squeeze((0, 1)).T
        a_row = row_bytes(self._kernels, rows, 2 * spec.heads * blocks * _SCORE_BYTES)
        seen = _visible_token_counts(position, rows)
        complete, places = seen // spec.block, self._stock.consecutive_indices((1, blocks))
        chosen = []
        for few in score_tiles(slice(0, rows), 4 * blocks * _KEY_BYTES):
            scores = join_tiles(
                mx.maximum(queries[part] @ columns, 0).sum(axis=1)
                for part in score_tiles(few, a_row)
            )
            scores = mx.where(places < complete[few], scores, -mx.inf)
            chosen.append(_top_k_indices(scores, spec.most, self._stock))
        found = join_tiles(chosen)
        return _tokens_of_blocks(found, spec.block, keys.shape[2], position, self._stock)

    def _block_keys(self, rows: mx.array, first: int) -> mx.array:
        """Keys float32 [1, 1, N, size] of blocks of rows, the first of which is block `first`."""
        widened = rows.astype(mx.float32).reshape(1, -1, self._spec.block, self._spec.size)
        made = self._key_norm(mx.mean(widened, axis=2).astype(rows.dtype))[:, None]
        if self._rotate_blocks is not None:
            made = self._rotate_blocks(made, first)
        return made.astype(mx.float32)


def _block_summaries(
    cache: AttentionCache, block: int, blocks: int, make: Callable[[mx.array, int], mx.array]
) -> mx.array:
    """Summaries [1, 1, blocks, size] of blocks of cached rows; of committed rows made once.

    make: of rows [1, 1, N * block, ...] whose first block has this number.
    """
    (rows,), known, count = cache.others, cache.summaries, 0
    if known is not None:
        count = min(known.shape[2], cache.length // block)
        known = known if count == known.shape[2] else known[:, :, :count]
    if known is None or count < blocks:
        made = make(rows[:, :, count * block : blocks * block], count)
        known = mx.concatenate([known, made], axis=2) if known is not None and count else made
    cache.summaries = known
    return known


def _tokens_of_blocks(
    blocks: mx.array, block: int, length: int, position: Position, stock: StockOperations
) -> Selection:
    """Select the tokens of whole blocks, numbers [T, most], and of the incomplete last block."""
    rows, most = blocks.shape
    seen = _visible_token_counts(position, rows)
    every = mx.concatenate([blocks, seen // block], axis=1)
    tokens = every[..., None] * block + stock.consecutive_indices((1, 1, block))
    tokens = mx.minimum(tokens.reshape(rows, -1)[:, :-1], length - 1)
    known: tuple[int, ...] = ()
    if isinstance(position, int):
        known = tuple(most * block + (position + row + 1) % block for row in range(rows))
    return Selection(tokens, most * block + seen % block, (most + 1) * block - 1, known)


class GroupIndexer:
    """An indexer that selects blocks of tokens for each key head, by the best token of a block.

    Products are of the model's own type, as keys are cached.
    """

    def __init__(self, spec: GroupIndexSpec, rope: RopeSpec | None, part: Part, eps: float) -> None:
        self._spec, self._kernels, self._stock = spec, part.kernels, part.kernels.stock
        self._inputs = Projections.read(part, ("q_proj", "k_proj"))
        self._query_norm, self._key_norm = (Norm.read(part, f"{n}_norm", eps) for n in "qk")
        self._rotate = None if rope is None else RotaryEmbedding(rope, self._stock)

    def project_queries_keys(self, x: mx.array) -> list[mx.array]:
        """Hidden states [1, T, H] -> queries [1, T, heads * size] and keys [1, T, size]."""
        return self._inputs(x)

    def keys_to_cache(self, keys: mx.array, position: Position) -> mx.array:
        """Norm and rotate keys [1, T, size] from `position` on -> [1, 1, T, size]."""
        return self._turn(self._key_norm(keys[:, :, None]), position)

    def _turn(self, x: mx.array, position: Position) -> mx.array:
        x = x.swapaxes(1, 2)
        return x if self._rotate is None else self._rotate(x, position)

    def select_keys(
        self, queries: mx.array, cache: AttentionCache, position: Position
    ) -> Selection | None:
        """Select tokens for each row and key head, as BlockIndexer does for each row."""
        spec, rows, (keys,) = self._spec, queries.shape[1], cache.others
        length, heads = keys.shape[2], spec.heads
        blocks = -(-length // spec.block)
        if blocks <= spec.most:
            return None
        queries = self._query_norm(queries.reshape(1, rows, heads, spec.size))
        queries = self._turn(queries, position).squeeze(0).swapaxes(0, 1)
        columns, seen = keys.squeeze((0, 1)).T, _visible_token_counts(position, rows)
        a_row = row_bytes(self._kernels, rows, 2 * heads * length * _SCORE_BYTES)
        scores = join_tiles(
            self._block_scores(queries[part] @ columns, seen[part])
            for part in score_tiles(slice(0, rows), a_row)
        )
        prefer = self._stock.compile_elementwise(_prefer_own_blocks(spec.block, spec.local))
        numbers = self._stock.consecutive_indices((1, 1, blocks))
        scores = prefer(scores, numbers, seen[..., None]).reshape(rows * heads, blocks)
        best = _top_k_indices(scores, spec.most, self._stock).reshape(rows, heads, spec.most, 1)
        tokens = best * spec.block + self._stock.consecutive_indices((1, 1, 1, spec.block))
        tokens = mx.minimum(tokens.reshape(rows, heads, -1), length - 1)
        count = self._stock.compile_elementwise(_selected_count(spec.block, spec.most))
        return Selection(tokens, count(seen), spec.most * spec.block)

    def _block_scores(self, scores: mx.array, seen: mx.array) -> mx.array:
        """Scores [T, heads, L] of tokens, of which `seen` count -> of blocks, in float32."""
        length, block = scores.shape[-1], self._spec.block
        places = self._stock.consecutive_indices((1, 1, length))
        scores = mx.where(places < seen[..., None], scores, -mx.inf)
        scores = mx.pad(scores, [(0, 0), (0, 0), (0, -length % block)], constant_values=-mx.inf)
        return scores.reshape(*scores.shape[:2], -1, block).max(axis=-1).astype(mx.float32)


@cache
def _prefer_own_blocks(block: int, local: int) -> ElementwiseFunction:
    """Make the function that gives the last `local` blocks that a row sees the highest score."""

    def prefer(scores: mx.array, numbers: mx.array, seen: mx.array) -> mx.array:
        last = (seen - 1) // block
        return mx.where((numbers <= last) & (numbers + local > last), mx.inf, scores)

    return prefer


@cache
def _selected_count(block: int, most: int) -> ElementwiseFunction:
    """Make the function that counts tokens in `most` blocks, the last being that of the row."""
    return lambda seen: (most - 1) * block + (seen - 1) % block + 1


def build_indexer(
    spec: BlockIndexSpec | GroupIndexSpec, rope: RopeSpec | None, part: Part, eps: float
) -> BlockIndexer | GroupIndexer:
    """Build the indexer that selects blocks of tokens, as its spec says."""
    if isinstance(spec, GroupIndexSpec):
        return GroupIndexer(spec, rope, part, eps)
    return BlockIndexer(spec, rope, part, eps)


def score_tiles(rows: slice, bytes_per_row: int) -> list[slice]:
    """Cut rows into slices whose temporary arrays take SCORES_BYTES at most, where possible."""
    count = max(1, SCORES_BYTES // bytes_per_row)
    starts = range(rows.start, rows.stop, count)
    return [slice(start, min(start + count, rows.stop)) for start in starts]


def row_bytes(kernels: Kernels, rows: int, nbytes: int) -> int:
    """Bytes per row for `score_tiles`, so many that rows go one by one where they must."""
    return SCORES_BYTES if are_alone(kernels, rows) else nbytes


def are_alone(kernels: Kernels, rows: int) -> bool:
    """Return whether few rows are computed one by one, as MLX may round several differently."""
    return kernels.exact and rows <= MOST_ROWS


def join_tiles(parts: Iterable[mx.array]) -> mx.array:
    """Join results of slices of rows along the first axis, without a launch for a single slice."""
    made = list(parts)
    return made[0] if len(made) == 1 else mx.concatenate(made)


def _visible_token_counts(position: Position, rows: int) -> mx.array:
    """Number of tokens that each row of a block at a position sees, itself included, [T, 1]."""
    if isinstance(position, int):  # from the host, without a launch
        return mx.array(np.arange(position + 1, position + rows + 1, dtype=np.uint32)[:, None])
    return row_positions(position, range(1, rows + 1))[:, None].astype(mx.uint32)


def _weighted_head_scores(products: mx.array, weights: mx.array) -> mx.array:
    """Weighted scores in float32; their scale is left out, as it changes no selection."""
    return mx.maximum(products, 0) * weights.astype(mx.float32)


def _top_k_indices(scores: mx.array, count: int, stock_mlx: StockOperations) -> mx.array:
    """Indices uint32 [R, count] of the highest float32 scores [R, N], worst first.

    Of equal scores the later ones are taken.
    """
    places = stock_mlx.consecutive_indices((1, scores.shape[1]))
    ranked = mx.sort(
        stock_mlx.compile_elementwise(_sortable_bits)(scores.view(mx.int32), places), axis=1
    )
    return ranked[:, -count:].astype(mx.uint32)


def _sortable_bits(score_bits: mx.array, key_positions: mx.array) -> mx.array:
    """Make int64 keys that sort as float32 scores do, equal scores by position.

    score_bits: the scores viewed as int32; a view in here would keep MLX from compiling this
    formula for all shapes.
    """
    score_bits = mx.where(score_bits == _MINUS_ZERO, 0, score_bits)
    ordered = mx.bitwise_xor(score_bits, mx.right_shift(score_bits, 31) & 0x7FFFFFFF)
    return mx.left_shift(ordered.astype(mx.int64), 32) | key_positions.astype(mx.int64)
