"""Grouped-query attention with the options of all families, by our kernel or by MLX."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeVar, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.choice import KernelRowCounts, Kernels, KernelWork
from metal_kernels.few_query_attention import (
    KeyBlocks,
    KeyBlockSpan,
    KeyExtent,
    few_query_attention,
    key_block_span,
    key_blocks,
)
from metal_kernels.key_value_formats import cache_format_name, named_cache_format
from metal_kernels.stock import (
    AttentionOptions,
    Position,
    has_fused_attention,
    row_tiles,
)
from mlx_engine.cache.attention import AttentionCache, KeysValues, Mask, row_positions
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.window import WindowCache
from mlx_engine.models import layer_specs
from mlx_engine.models.indexer import Selection, VisibleEntries, build_indexer, score_tiles
from mlx_engine.models.layers import Norm, Projections, ResidualLinear, RotaryEmbedding
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

T = TypeVar("T")
KeyValueCache = AttentionCache | WindowCache


class Masks:
    """Attention masks of one forward pass, computed once per sliding window and shared by layers.

    is_long: the pass uses the second RoPE table, for prompts longer than the trained context.
    selected: tokens that the last indexer selected for the rows of each sequence, if any.
    entries: those that a layer made for later ones, by sequence.
    places: RoPE positions int [3, T] of the rows, None where they are numbered like text.
    picture_ends: as PictureRows.ends, None without pictures.
    """

    def __init__(self, *, is_long: bool = False, pictures: PictureRows | None = None) -> None:
        self.is_long = is_long
        self.places = None if pictures is None else pictures.places
        self.picture_ends = None if pictures is None else pictures.ends
        self.selected: list[Selection | None] = []
        self.entries: deque[VisibleEntries] = deque()
        self._remembered: dict[Hashable, object] = {}

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return make(), called once in this pass for equal keys; a key has one type of result."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return cast("T", self._remembered[key])

    def attention_mask(self, cache: KeyValueCache, rows: int) -> Mask:
        """Attention mask of `rows` new rows behind a cache: bool [rows, keys], "causal" or None."""
        window = cache.window if isinstance(cache, WindowCache) else 0
        if not window and cache.pending_rows is None:
            return "causal" if rows > 1 else None
        key = "mask", window, cache.length, rows, cache.pending_rows
        return self.remember(key, partial(cache.make_mask, rows))

    def whole_picture_mask(self, cache: KeyValueCache, ends: NDArray[np.int64]) -> Mask:
        """Attention mask of new rows, where those of a picture also see later rows of the picture.

        ends: `picture_ends`.
        """

        def make() -> Mask:
            seen, rows = cache.make_mask(len(ends), return_array=True), np.arange(len(ends))
            if not isinstance(seen, mx.array):
                return seen
            later = mx.array((rows > rows[:, None]) & (rows < ends[:, None]))
            return seen | mx.pad(later, [(0, 0), (seen.shape[1] - len(ends), 0)])

        window = cache.window if isinstance(cache, WindowCache) else 0
        return self.remember(("whole pictures", window, cache.length), make)

    def visible_keys(
        self, cache: KeyValueCache, rows: int, block_choice: KeyBlocks
    ) -> KeyBlockSpan:
        """Range of cached keys that `rows` new rows attend to, as the attention kernel wants it."""
        start, window = (cache.first, cache.window) if isinstance(cache, WindowCache) else (0, 0)
        pending, end = cache.pending_rows, cache.most_committed + rows
        if pending is None:
            return key_block_span(KeyExtent(end, start, window), rows, block_choice)
        extent = KeyExtent(end, start, window, pending.most - 1)

        def make() -> KeyBlockSpan:
            newest = pending.length_with_count(cache.length + rows)
            return key_block_span(extent, rows, block_choice).with_lazy_end(newest)

        return self.remember(("span", extent, block_choice, pending), make)


class KernelByCacheBits:
    """The attention kernel by the KV cache's bits (16, 8 or 4), for sizes in `kernel_work`."""

    def __init__(
        self, kernels: Kernels, kernel_work: KernelWork, *, is_latent: bool = False
    ) -> None:
        self._kernels, self._work, self._of_latents = kernels, kernel_work, is_latent
        self._by_bits: dict[CacheBits, KernelRowCounts | None] = {}

    def row_counts(self, bits: CacheBits) -> KernelRowCounts | None:
        """Row counts that the attention kernel serves with a KV cache of `bits`; None for none."""
        if bits not in self._by_bits:
            work = self._work._replace(form=cache_format_name(bits, is_latent=self._of_latents))
            if bits != 16:  # a trial that waits is run before the first token, that rows stay exact
                self._kernels.row_counts_after_trial("attention", work)
            self._by_bits[bits] = self._kernels.served_row_counts("attention", work)
        return self._by_bits[bits]


class Attention:
    """Grouped-query attention of a decoder block: projections, norms, RoPE, KV cache and gate."""

    def __init__(self, spec: layer_specs.AttentionSpec, part: Part, eps: float) -> None:
        self._spec = spec
        queries, keys = spec.heads * spec.key_dim, spec.kv_heads * spec.key_dim
        values, is_whole = spec.kv_heads * spec.value_dim, spec.qk_norm == "whole"
        names = [n for n in ("q_proj", "k_proj", "v_proj") if f"{n}.weight" in part]
        queries_keys = queries + (keys if "k_proj" in names else 0)
        sizes = [queries_keys, values] if "v_proj" in names else [queries_keys]
        order: dict[str, Sequence[int]] = {}
        if is_whole:
            sizes = [queries, keys, values]
        if spec.gate == "element":
            sizes = [queries, *sizes]
            order["q_proj"] = _gate_then_query_rows(spec)
        if spec.gate == "head":
            names.append("g_proj")
            sizes.append(spec.heads)
        self._inputs = Projections.read(part, names, sizes, order)
        self.dtype = self._inputs.dtype
        self.out_proj = ResidualLinear.read(part, "o_proj")
        self._norm = self._query_norm = self._key_norm = None
        if spec.qk_norm == "head":
            turns = {"q_norm": spec.heads, "k_norm": spec.kv_heads}
            present = {name: count for name, count in turns.items() if f"{name}.weight" in part}
            self._norm = Norm.read_rows(part, present, eps)
        if spec.qk_norm == "heads":
            self._norm = Norm.read_heads(part, ("q_norm", "k_norm"), eps)
        if is_whole:
            self._query_norm = Norm.read(part, "q_norm", eps)
            self._key_norm = Norm.read(part, "k_norm", eps)
        self._value_norm = None
        if spec.value_norm and spec.kv_layer is None:
            self._value_norm = Norm.from_weight(
                mx.ones(spec.value_dim, dtype=self.dtype), part, eps
            )
        self._rotate = (
            RotaryEmbedding(spec.rope, part.kernels.stock) if spec.rope is not None else None
        )
        self._sinks = self._mlx_sinks = None  # MLX wants them in the queries' type
        if spec.sinks:
            self._sinks = part.vector("sinks", mx.float32)
            self._mlx_sinks = self._sinks.astype(self.dtype)
        self._indexer = None
        if spec.index is not None:
            self._indexer = build_indexer(spec.index, spec.rope, part.subpart("indexer"), eps)
        self._scale = spec.key_dim**-0.5 if spec.scale is None else spec.scale
        self._stock = part.kernels.stock
        work = KernelWork("", spec.value_dim, spec.key_dim, spec.heads // spec.kv_heads)
        served = KernelByCacheBits(part.kernels, work)
        self._served = None if spec.cap or served.row_counts(16) is None else served

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create an empty KV cache for this attention layer; bits: of keys and values."""
        window = self._spec.window
        if window is not None:
            return WindowCache(window, self._stock, bits)
        return AttentionCache(bits, 0 if self._indexer is None else 1)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Attend with normed hidden states [1, T, H] -> [1, T, N] for the output projection."""
        spec, rows = self._spec, x.shape[1]
        parts, gate = self._inputs(x), None
        if spec.gate == "element":
            gate, *parts = parts
        if spec.gate == "head":
            *parts, gate = parts
        if self._query_norm is not None and self._key_norm is not None:
            queries, keys, values = parts
            parts = [mx.concatenate([self._query_norm(queries), self._key_norm(keys)], -1), values]
        queries_keys, *projected = parts
        if spec.values == "keys" and spec.kv_layer is None:
            projected = [queries_keys[..., spec.heads * spec.key_dim :]]
        if self._norm is not None:
            queries_keys = self._norm(queries_keys)
        queries_keys = queries_keys.reshape(1, rows, -1, spec.key_dim)
        stored = [self._cached_values(values) for values in projected]
        if self._indexer is not None:
            stored += self._indexer.project_queries_keys(x)
        attended = run_each_conversation(
            cache, partial(self._run_sequence, masks), queries_keys, *stored
        )
        width = spec.heads * spec.value_dim
        if gate is None:
            return attended.reshape(1, rows, width)
        if spec.gate == "element":
            attended = attended.reshape(gate.shape)
        else:
            gate = gate[..., None]
        return self._stock.compile_elementwise(apply_gate)(attended, gate).reshape(1, rows, width)

    def _cached_values(self, values: mx.array) -> mx.array:
        """Reshape projected values [1, T, N] to [1, T, KV heads, size], normed and scaled for the
        cache.
        """
        spec = self._spec
        values = values.reshape(1, -1, spec.kv_heads, spec.value_dim)
        if self._value_norm is not None:
            values = self._value_norm(values)
        return values if spec.value_scale == 1.0 else values * spec.value_scale

    def _run_sequence(
        self,
        masks: Masks,
        cache: LayerCache,
        queries_keys: mx.array,
        values: mx.array | None = None,
        *index: mx.array,
    ) -> mx.array:
        """Attend within one sequence: queries and keys side by side [1, T, heads, size] -> outputs.

        values [1, T, KV heads, size]; None for layers that read the keys and values of an earlier
        layer. index: queries and keys of an indexer, [1, T, N] each.
        """
        assert isinstance(cache, AttentionCache | WindowCache)
        queries = queries_keys.transpose(0, 2, 1, 3)
        if self._rotate is not None and masks.places is not None:
            queries = self._rotate.rotate_by_positions(queries, masks.places)
        elif self._rotate is not None:
            queries = self._rotate(queries, cache.position(), is_long=masks.is_long)
        keys_values = None
        if values is not None:
            queries, keys = mx.split(queries, [self._spec.heads], axis=1)
            keys_values = KeysValues(keys, values.transpose(0, 2, 1, 3))
        if self._spec.growth is not None:
            queries = _scale_by_position(queries, cache.next_row_index(), self._spec.growth)
        if self._indexer is None or keys_values is None:
            return self._attend(queries, keys_values, cache, masks).transpose(0, 2, 1, 3)
        assert isinstance(cache, AttentionCache)
        index_queries, index_keys = index
        start = cache.next_row_index()
        cache.append(*keys_values, self._indexer.keys_to_cache(index_keys, start))
        found = self._indexer.select_keys(index_queries, cache, start)
        return self._attend_sparse(queries, cache, masks, found).transpose(0, 2, 1, 3)

    def _attend_sparse(
        self, queries: mx.array, cache: AttentionCache, masks: Masks, selection: Selection | None
    ) -> mx.array:
        """Attend to all tokens in rows that see few, and to selected ones in later rows.

        queries: [1, heads, T, size]; their keys and values are cached. selection: None where all
        rows see few; which rows do may be unknown to the host.
        """
        if selection is None:
            return self._attend(queries, None, cache, masks)
        sparse = self._attend_selected(queries, cache, selection)
        if cache.length >= selection.least:
            return sparse
        dense = self._attend(queries, None, cache, masks)
        is_early = (
            row_positions(cache.next_row_index(), range(queries.shape[2]))[:, None]
            < selection.least
        )
        return mx.where(is_early, dense, sparse)

    def _attend_selected(
        self, queries: mx.array, cache: AttentionCache, selection: Selection
    ) -> mx.array:
        """Attend by MLX, each row of queries [1, heads, T, size] to the tokens found for it."""
        spec, (rows, *_, width) = self._spec, selection.tokens.shape
        by_row = queries.transpose(2, 1, 0, 3)
        assert selection.counts is not None
        seen = (self._stock.consecutive_indices((1, width)) < selection.counts)[:, None, None]
        options = AttentionOptions(self._scale, None, self._mlx_sinks, spec.cap)
        a_row = width * spec.kv_heads * (spec.key_dim + spec.value_dim) * queries.dtype.size
        made = []
        for part in score_tiles(slice(0, rows), a_row):
            keys, values = cache.keys_and_values_of(cache.gather_rows(selection.tokens[part]))
            part_options = options._replace(mask=seen[part])
            made.append(self._stock.attention(by_row[part], keys, values, part_options))
        return mx.concatenate(made).transpose(2, 1, 0, 3)

    def _attend(
        self, queries: mx.array, keys_values: KeysValues | None, cache: KeyValueCache, masks: Masks
    ) -> mx.array:
        """Append new keys and values to a KV cache and attend to all in it, within its window.

        queries: rotated, [1, heads, T, size]. keys_values: None where an earlier layer has written
        them. Few rows go through the kernel, on the cache in place. Returns [1, heads, T, DV].
        """
        spec, rows = self._spec, queries.shape[2]
        served = None if self._served is None else self._served.row_counts(cache.row_bits)
        ends = masks.picture_ends if spec.whole_pictures else None
        if ends is not None:
            mask = masks.whole_picture_mask(cache, ends)
            return self._stock_attend(queries, keys_values, cache, mask, ends)
        if served is None or rows not in served:
            mask = masks.attention_mask(cache, rows)
            return self._stock_attend(queries, keys_values, cache, mask, np.arange(1, rows + 1))
        form = named_cache_format(cache_format_name(cache.row_bits), spec.key_dim, spec.value_dim)
        cut = key_blocks(form, spec.key_dim, spec.value_dim, spec.heads // spec.kv_heads)
        return few_query_attention(
            self._stock.make_contiguous(queries),
            cache.key_value_buffers if keys_values is None else cache.append(*keys_values),
            form,
            masks.visible_keys(cache, rows, cut),
            self._scale,
            served.launcher,
            self._sinks,
        )

    def _stock_attend(
        self,
        queries: mx.array,
        keys_values: KeysValues | None,
        cache: KeyValueCache,
        mask: Mask,
        ends: NDArray[np.int64],
    ) -> mx.array:
        """Attend by MLX, in slices of rows where all scores at once would be large.

        ends: number of the first row that each row does not see, int [T], never falling.
        """
        cached = cache.keys_and_values() if keys_values is None else cache.write(*keys_values)
        _, heads, rows, _ = queries.shape
        length, cap, value_size = cached.keys.shape[2], self._spec.cap, cached.values.shape[-1]
        options = AttentionOptions(self._scale, mask, self._mlx_sinks, cap)
        is_fused = not cap and has_fused_attention(queries.shape, cached.keys.shape, value_size)
        tiles = row_tiles(rows, heads * length * queries.dtype.size)
        if is_fused or len(tiles) == 1:
            return self._stock.attention(queries, *cached, options)
        parts = []
        for part in tiles:
            end = length - rows + int(ends[part.stop - 1])  # keys that none of them sees left out
            keys, values = (side[:, :, :end] for side in cached)
            seen = mask[part, :end] if isinstance(mask, mx.array) else mask
            part_options = options._replace(mask=seen)
            parts.append(self._stock.attention(queries[:, :, part], keys, values, part_options))
        return mx.concatenate(parts, axis=2)


def _scale_by_position(
    queries: mx.array, start: Position, position_scale: layer_specs.QueryPositionScale
) -> mx.array:
    """Scale queries [1, heads, T, size] by their position, with factors in float32."""
    periods = row_positions(start, range(queries.shape[2])) // position_scale.period
    factors = 1 + position_scale.weight * mx.log(1 + periods.astype(mx.float32))
    return queries * factors[:, None].astype(queries.dtype)


def _gate_then_query_rows(spec: layer_specs.AttentionSpec) -> list[int]:
    """Row order that puts gates before queries, for a q_proj that interleaves them by head."""
    width, heads = spec.key_dim, range(spec.heads)
    starts = [(2 * head + 1) * width for head in heads] + [2 * head * width for head in heads]
    return [row for start in starts for row in range(start, start + width)]


def apply_gate(attended: mx.array, gate: mx.array) -> mx.array:
    """Multiply attention's output by the sigmoid of a gate."""
    return attended * mx.sigmoid(gate)
