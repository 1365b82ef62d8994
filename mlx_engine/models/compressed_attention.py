"""Attention to a sliding window and to compressed entries (DeepSeek-V4).

A compressor makes an entry of every few tokens; a row attends to the last tokens and to entries
that end with it or before it, all or those that an indexer selects, in one softmax with sinks. All
heads share one key, which is the value too. What rows of a block see is gathered at once; a row
attends by itself, to keys in an order and number that follow from its position alone, so it has the
same bits alone and in a block.

Rotated elements come first here, published ones last: rows of weights are put in this order when
they are read, and the attention's result back when it is made. Rows that entries are made of are
kept in the model's own type, gates are weighed in float32 (as in transformers; DeepSeek's own code
and llama.cpp keep them in float32).
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.stock import AttentionOptions, Position
from mlx_engine.cache.attention import row_positions
from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.models.attention import Masks
from mlx_engine.models.compressed_specs import CompressedAttentionSpec, CompressorSpec
from mlx_engine.models.indexer import (
    EntryIndexer,
    VisibleEntries,
    are_alone,
    join_tiles,
    score_tiles,
)
from mlx_engine.models.latent_attention import PerHeadMatrices
from mlx_engine.models.layer_specs import RopeSpec
from mlx_engine.models.layers import Norm, Projections, ResidualLinear, RotaryEmbedding
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


def rotated_first(size: int, rope: RopeSpec, heads: int = 1) -> list[int]:
    """Row order that puts the rotated end of each of `heads` heads before its other elements."""
    still = size - rope.width
    head = [*range(still, size), *range(still)]
    return [start + row for start in range(0, heads * size, size) for row in head]


class Compressor:
    """Makes entries of tokens, each a mean weighted by a softmax of gates, normed and rotated."""

    def __init__(self, spec: CompressorSpec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        self.order = rotated_first(spec.size, spec.rope, spec.side_size // spec.size)
        order = mx.array(self.order)
        self._bias = part.vector("position_bias", mx.float32)[:, order]
        weight = part.vector("norm.weight")[order[: spec.size]]
        self._norm = Norm.from_weight(weight, part, eps)
        self._rotate = RotaryEmbedding(spec.rope.counting(spec.ratio), self._stock)
        self._add = self._stock.compile_elementwise(_sum_in_float32)

    @property
    def context_tokens(self) -> int:
        """Number of tokens before an entry's `ratio` tokens that the entry is also made of."""
        return self._spec.ratio if self._spec.overlaps else 0

    def make_entries(self, rows: mx.array, first: int) -> mx.array:
        """Make entries from number `first` on -> [1, 1, count, size].

        rows: values and gates [1, tokens, 2 * side size] of these entries, after those of the
        entry before if entries overlap and there is one.
        """
        spec, size = self._spec, self._spec.size
        values, gates = mx.split(rows.reshape(-1, spec.ratio, 2 * spec.side_size), 2, axis=-1)
        gates = self._add(gates, self._bias)
        if spec.overlaps:
            if first == 0:
                values = mx.pad(values, [(1, 0), (0, 0), (0, 0)])
                gates = mx.pad(gates, [(1, 0), (0, 0), (0, 0)], constant_values=-mx.inf)
            values, gates = (
                mx.concatenate([side[:-1, :, :size], side[1:, :, size:]], axis=1)
                for side in (values, gates)
            )
        weights = mx.softmax(gates, axis=1)
        entries = (values * weights).sum(axis=1).astype(rows.dtype)[None]
        return self._rotate(self._norm(entries)[:, None], first)


def _sum_in_float32(gates: mx.array, bias: mx.array) -> mx.array:
    return gates.astype(mx.float32) + bias


class CompressedAttention:
    """Attention of a decoder block to its last tokens and to compressed entries."""

    def __init__(self, spec: CompressedAttentionSpec, part: Part, eps: float) -> None:
        self._spec, self._eps = spec, eps
        self._kernels, self._stock = part.kernels, part.kernels.stock
        of_head, sources = rotated_first(spec.size, spec.rope), self._read_sources(part)
        width = sum(part.shapes[f"{name}.weight"][0] for name in sources)
        sizes = [spec.q_rank, spec.size, *([width] if width else [])]
        self._inputs = Projections.read(
            part, ["q_a_proj", "kv_proj", *sources], sizes, {"kv_proj": of_head, **sources}
        )
        self.dtype = self._inputs.dtype
        self._query_latent_norm = Norm.read(part, "q_a_layernorm", eps)
        by_head = {"q_b_proj": rotated_first(spec.size, spec.rope, spec.heads)}
        self._queries = Projections.read(part, ["q_b_proj"], order=by_head)
        self._key_norm = Norm.from_weight(
            part.vector("kv_norm.weight")[mx.array(of_head)], part, eps
        )
        self._rotate = RotaryEmbedding(spec.rope, self._stock)
        self._rotate_back = RotaryEmbedding(spec.rope.counting(-1), self._stock)
        (grouped,) = part.take_per_head("o_a_proj", spec.groups, (spec.out_rank,))
        self._group_products = PerHeadMatrices(grouped, stock=self._stock)
        self.out_proj = ResidualLinear.read(part, "o_proj")
        self._sinks = part.vector("sinks", mx.float32)
        self._indexer = None
        if spec.indexer is not None and spec.compressor is not None:
            index = part.subpart("indexer")
            self._indexer = EntryIndexer(spec.indexer, index, spec.compressor.ratio)

    def _read_sources(self, part: Part) -> dict[str, Sequence[int]]:
        """Read what makes entries; returns the projections of their tokens, with row orders."""
        every = self._spec.compressors
        self._compressors = [
            Compressor(own, part.subpart(name), self._eps) for name, own in every.items()
        ]
        return {
            f"{name}.{side}_proj": made.order
            for name, made in zip(every, self._compressors, strict=True)
            for side in ("kv", "gate")
        }

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create an empty cache of the last tokens and of compressed entries; bits: 16."""
        assert bits == 16
        ratio = 0 if self._spec.compressor is None else self._spec.compressor.ratio
        return CompressedCache(self._spec.kept_rows, ratio, self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Attend with normed hidden states [1, T, H] -> [1, T, groups * out rank] for o_proj."""
        spec, rows = self._spec, x.shape[1]
        latent, key, *sources = self._inputs(x)
        latent = self._query_latent_norm(latent)
        (queries,) = self._queries(latent)
        queries = queries.reshape(1, rows, spec.heads, spec.size)
        if spec.norms_queries:
            queries = self._stock.rms_norm(queries, None, self._eps).astype(x.dtype)
        key = self._key_norm(key)
        source = sources[0] if sources else key[..., :0]
        run = partial(self._run_sequence, masks)
        attended = run_each_conversation(cache, run, queries, key, source, x, latent)
        grouped = attended.reshape(1, rows, spec.groups, -1)
        if self._kernels.exact:  # each row by itself, as MLX rounds several rows differently
            made = self._group_products(grouped.reshape(rows, spec.groups, 1, -1))
        else:
            made = self._group_products(grouped.swapaxes(1, 2)).swapaxes(1, 2)
        return made.reshape(1, rows, -1)

    def _run_sequence(
        self,
        masks: Masks,
        cache: LayerCache,
        queries: mx.array,
        key: mx.array,
        source: mx.array,
        x: mx.array,
        query_latent: mx.array,
    ) -> mx.array:
        """Attend within one sequence with queries [1, T, heads, size] -> [1, T, heads, size].

        key: not yet rotated, [1, T, size]. source: rows that entries are made of. x, query_latent:
        rows that an indexer reads.
        """
        assert isinstance(cache, CompressedCache)
        position = cache.next_row_index()
        queries = self._rotate(queries.swapaxes(1, 2), position)
        cache.append(self._rotate(key[:, None], position), source[:, None])
        if cache.entries_to_make:
            self._make_entries(cache)
        if self._spec.sees_whole_block:
            return self._restore_order(self._attend_block(queries, cache), position)
        visible = self._find_entries(cache, masks, x, query_latent)
        entries, selected = visible.entries, visible.selected
        rows, window = queries.shape[2], self._spec.window
        place = (window, cache.ratio, cache.first, cache.length, rows, cache.pending_rows)
        seen = masks.remember(place, partial(_SeenRows.find, cache, rows, window))
        attended = self._attend(queries, cache, entries, seen, selected)
        return self._restore_order(attended, position)

    def _find_entries(
        self, cache: CompressedCache, masks: Masks, x: mx.array, query_latent: mx.array
    ) -> VisibleEntries:
        """Find the entries of the rows just written; x, query_latent: what an indexer reads."""
        del masks
        selected, (entries, *keys) = None, cache.entries(cache.entry_count) or (self._none(x),)
        if self._indexer is not None and keys:
            position = cache.next_row_index()
            selected = self._indexer.select_entries(x, query_latent, keys[0], position)
            selected = None if selected is None else mx.sort(selected, axis=-1)
        return VisibleEntries(entries, selected)

    def _none(self, x: mx.array) -> mx.array:
        """No entries, of the type of x."""
        return mx.zeros((1, 1, 0, self._spec.size), x.dtype)

    def append_context(self, x: mx.array, cache: CompressedCache) -> None:
        """Write keys of rows [1, T, H] for later blocks to attend to, uncommitted."""
        key = self._key_norm(self._inputs(x)[1])[:, None]
        cache.append(self._rotate(key, cache.next_row_index()), key[..., :0])

    def _restore_order(self, attended: mx.array, position: Position) -> mx.array:
        """Rotate a result [1, heads, T, size] back -> [1, T, heads, size] in published order."""
        width = self._spec.rope.width
        turned, still = mx.split(self._rotate_back(attended, position), [width], axis=-1)
        return mx.concatenate([still, turned], axis=-1).swapaxes(1, 2)

    def _attend_block(self, queries: mx.array, cache: CompressedCache) -> mx.array:
        """Attend with a block's queries [1, heads, T, size] to its window and to the whole block.

        The host must know the number of committed rows.
        """
        rows, (keys, _) = queries.shape[2], cache.keys_and_values()
        end = cache.length + rows
        places = np.arange(end - keys.shape[2], end)
        first = np.arange(cache.length, end)[:, None] - self._spec.window
        sinks = self._sinks.astype(queries.dtype)
        options = AttentionOptions(self._spec.size**-0.5, mx.array(places > first), sinks)
        return self._stock.attention(queries, keys, keys, options)

    def _make_entries(self, cache: CompressedCache) -> None:
        """Make the entries that the block just written completes, and write them to the cache."""
        numbers, made, start = cache.entries_to_make, list[mx.array](), 0
        for compressor, spec in zip(
            self._compressors, self._spec.compressors.values(), strict=True
        ):
            begin = max(0, numbers.start * cache.ratio - compressor.context_tokens)
            rows = cache.rows_to_compress(begin, numbers.stop * cache.ratio)
            source = rows[..., start : start + 2 * spec.side_size]
            made.append(compressor.make_entries(source, numbers.start))
            start += 2 * spec.side_size
        cache.write_entries(*made)

    def _attend(
        self,
        queries: mx.array,
        cache: CompressedCache,
        entries: mx.array,
        seen: "_SeenRows",
        selected: mx.array | None,
    ) -> mx.array:
        """Attend with queries [1, heads, T, size] to the keys that each row sees -> the same shape.

        entries: [1, 1, E, size]. selected: numbers of entries [T, N], ascending, that each row
        sees, and of some behind it; None for all.
        """
        spec, rows = self._spec, queries.shape[2]
        most = entries.shape[2] if selected is None else selected.shape[1]
        by_row, columns = queries.transpose(2, 0, 1, 3), 1 + spec.window + most
        nbytes = columns * (3 * spec.size + 4 * spec.heads) * queries.dtype.size
        made = []
        for part in score_tiles(slice(0, rows), nbytes):
            chosen = None if selected is None else selected[part]
            keys, mask = self._gather_seen(cache, entries[:, 0], seen.rows(part), chosen)
            mask = mask.astype(queries.dtype)
            if not are_alone(self._kernels, rows):
                options = AttentionOptions(spec.size**-0.5, mask)
                made.append(self._stock.attention(by_row[part], keys, keys, options))
                continue
            for row in range(part.start, part.stop):
                count, own = most, slice(row - part.start, row - part.start + 1)
                if isinstance(cache.next_row_index(), int):
                    count = min(most, (cache.length + row + 1) // max(1, cache.ratio))
                width = columns - most + count  # by the position alone
                options = AttentionOptions(spec.size**-0.5, mask[own, ..., :width])
                seen_keys = keys[own, :, :width]
                made.append(
                    self._stock.attention(by_row[row : row + 1], seen_keys, seen_keys, options)
                )
        return join_tiles(made).transpose(1, 2, 0, 3)

    def _gather_seen(
        self,
        cache: CompressedCache,
        entries: mx.array,
        seen: "_SeenRows",
        selected: mx.array | None,
    ) -> "_GatheredKeys":
        """Gather keys that rows attend to: one of zeros for the sinks, the window, then entries.

        entries: [1, E, size], those that all rows may see unless some are `selected` [T, N].
        """
        rows, (buffer, *_) = len(seen.window), cache.key_value_buffers
        size = buffer.shape[-1]
        window = mx.take(buffer.squeeze((0, 1)), seen.window, axis=0)
        if selected is None:
            numbers = self._stock.consecutive_indices((1, entries.shape[1]))
            gathered = mx.broadcast_to(entries, (rows, *entries.shape[1:]))
        else:
            numbers, gathered = selected, mx.take(entries.squeeze(0), selected, axis=0)
        zeros = mx.zeros((rows, 1, size), buffer.dtype)
        keys = mx.concatenate([zeros, window, gathered], axis=1)[:, None]
        visible = mx.concatenate([seen.is_token, numbers < seen.entry_counts], axis=1)
        sinks = mx.broadcast_to(self._sinks[None, :, None], (rows, len(self._sinks), 1))
        shape = (rows, len(self._sinks), visible.shape[1])
        added = mx.broadcast_to(mx.where(visible, 0.0, -mx.inf)[:, None], shape)
        return _GatheredKeys(keys, mx.concatenate([sinks, added], axis=-1)[:, None])


class _SeenRows(NamedTuple):
    """Keys that rows of a block attend to, T at most: a window each, and complete entries.

    window: indices [T, window] of the cache's rows. is_token: whether there is such a token, bool.
    entry_counts: numbers of entries complete at each row, uint32 [T, 1].
    """

    window: mx.array
    is_token: mx.array
    entry_counts: mx.array

    @staticmethod
    def find(cache: CompressedCache, rows: int, window: int) -> "_SeenRows":
        """Find the keys for the rows just written; window: tokens, the row itself included."""
        start, ratio = cache.next_row_index(), max(1, cache.ratio)
        if isinstance(start, int):  # from the host, without a launch
            places = np.arange(start, start + rows, dtype=np.uint32)[:, None]
            known = places.astype(np.int32) + np.arange(1 - window, 1, dtype=np.int32)
            indices = np.maximum(known - cache.first, 0)
            return _SeenRows(*map(mx.array, (indices, known >= 0, (places + 1) // ratio)))
        at = row_positions(start, range(rows))[:, None]
        tokens = at + mx.arange(1 - window, 1)
        complete = ((at + 1) // ratio).astype(mx.uint32)
        return _SeenRows(mx.maximum(tokens - cache.first, 0), tokens >= 0, complete)

    def rows(self, part: slice) -> "_SeenRows":
        """Cut out some of the rows."""
        return _SeenRows(*(array[part] for array in self))


class _GatheredKeys(NamedTuple):
    """Keys that rows attend to, [T, 1, N, size], and addends of scores [T, 1, heads, N]."""

    keys: mx.array
    mask: mx.array
