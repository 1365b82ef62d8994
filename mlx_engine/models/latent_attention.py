"""Multi-head latent attention (arXiv 2405.04434), bit-equal for one row and for several.

A block of up to ABSORBED_ROWS rows multiplies its queries by the matrix that unpacks keys and
attends to the latents themselves ("absorbed"), by our kernel for few rows. Longer blocks, of
prompts, unpack keys and values first, which is cheaper there. Verify passes are short, so drafted
rows get the same bits as others.

Heads without a rotated part have zeros in its place, in caches and kernels. With an indexer
(indexer.py), rows that see more tokens than it selects gather the latents of those
and attend to them absorbed, each row by itself; all other rows are computed as without one. Long
blocks mask the tokens that are not selected, while there are not many more of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import KernelWork
from metal_kernels.few_query_attention import (
    KeyBlocks,
    KeyBlockSpan,
    KeyExtent,
    few_query_attention,
    key_block_span,
    key_blocks,
)
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import KeyValueFormat, cache_format_name, named_cache_format
from metal_kernels.stock import (
    AttentionOptions,
    Position,
    StockOperations,
    row_tiles,
)
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.attention import AttentionCache, row_positions
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.models import layer_specs
from mlx_engine.models.attention import KernelByCacheBits, Masks, apply_gate
from mlx_engine.models.indexer import (
    Indexer,
    PooledIndexer,
    Selection,
    join_tiles,
    row_bytes,
    score_tiles,
)
from mlx_engine.models.layers import Linear, Norm, Projections, ResidualLinear, RotaryEmbedding
from mlx_engine.models.matrix import Matrix, dequantised
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

ABSORBED_ROWS = 128
"""Of DeepSeek-V3's sizes absorbing is cheaper up to 170 rows, whatever the length before them."""


MASKED_SHARE = 4
"""Times the selected tokens up to which masking is cheaper than gathering, at the same sizes."""


@dataclass(frozen=True, slots=True)
class PerHeadMatrices:
    """Weight matrices [N, K] of all attention heads; is_transposed: each is stored as [K, N]."""

    matrices: Matrix
    is_transposed: bool = False
    stock: StockOperations = MLX

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [1, heads, T, K], or one head for all, by each head's W: x W^T."""
        return self._product(x, transpose=not self.is_transposed)

    def multiply_transposed(self, x: mx.array) -> mx.array:
        """Multiply x [1, heads, T, N] by each head's W as it is: x W [1, heads, T, K]."""
        return self._product(x, transpose=self.is_transposed)

    def _product(self, x: mx.array, *, transpose: bool) -> mx.array:
        stack = self.matrices
        if stack.scales is not None:
            return stack.multiply(x, transpose=transpose)
        values = stack.weight if stack.mode == "dense" else dequantised(stack, x.dtype, self.stock)
        return x @ (values.swapaxes(-1, -2) if transpose else values)


class _LatentBlock(NamedTuple):
    """Inputs of latent attention: unrotated and rotated (scaled) queries [1, heads, T, ...].

    keys, values: for the unrotated queries, [1, heads, L, ...]. rotated_keys: of all tokens [1, 1,
    L, rotated size]. position: of the first row. selected: bool [T, L], which tokens a row sees of
    those up to itself; None for all.
    """

    unrotated: mx.array
    rotated: mx.array
    keys: mx.array
    values: mx.array
    rotated_keys: mx.array
    position: Position
    selected: mx.array | None


class LatentAttention:
    """Multi-head latent attention of a decoder block, with its projections and cache.

    The KV cache stores latents as keys and rotated keys as values.
    """

    def __init__(self, spec: layer_specs.LatentAttentionSpec, part: Part, eps: float) -> None:
        del eps  # the norms of latents have their own
        self._spec, self._stock, self._kernels = spec, part.kernels.stock, part.kernels
        work = KernelWork("", spec.kv_rank, spec.key_width, spec.heads)
        self._served = KernelByCacheBits(part.kernels, work, is_latent=True)
        self._served.row_counts(16)
        self._rotate = None if spec.rope is None else RotaryEmbedding(spec.rope, self._stock)
        is_direct, rotated = spec.q_rank is None, 0 if spec.rope is None else spec.rope.width
        names = ("q_proj" if is_direct else "q_a_proj", "kv_a_proj_with_mqa")
        sizes = (spec.q_rank or spec.heads * (spec.nope + rotated), spec.kv_rank, rotated)
        self._inputs = Projections.read(part, names, sizes if rotated else sizes[:2])
        self.dtype = self._inputs.linears[-1].matrix.dtype
        weight = part.vector("kv_a_layernorm.weight")
        if spec.latent_scale != 1.0:
            weight = weight.astype(mx.float32) * spec.latent_scale
        self._latent_norm = Norm.from_weight(weight, part, spec.eps)
        self.out_proj = ResidualLinear.read(part, "o_proj")
        self._query_norm = None if is_direct else Norm.read(part, "q_a_layernorm", spec.eps)
        self._unpack_queries = None if is_direct else Linear.read(part, "q_b_proj")
        if "kv_b_proj.weight" in part:
            keys, values = part.take_per_head("kv_b_proj", spec.heads, (spec.nope, spec.value_dim))
            self._unpack_keys = PerHeadMatrices(keys, stock=self._stock)
        else:
            self._unpack_keys = PerHeadMatrices(
                part.matrix("embed_q"), is_transposed=True, stock=self._stock
            )
            values = part.matrix("unembed_out")
        self._unpack_values = PerHeadMatrices(values, stock=self._stock)
        self._indexer = None
        if spec.indexer is not None and not spec.indexer.is_shared:
            kind = PooledIndexer if spec.indexer.pool else Indexer
            self._indexer = kind(spec.indexer, part.subpart("indexer"))
        self._gate = None if spec.gate == "none" else Linear.read(part, "g_proj")
        self._sinks = part.vector("sinks", mx.float32) if spec.sinks else None

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create latent attention's empty cache; bits: of latents and rotated keys."""
        return AttentionCache(bits, 0 if self._indexer is None else 1)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run latent attention on normed hidden states [1, T, H] -> [1, T, N] for o_proj."""
        queries, latent, *keys = self._inputs(x)
        read, latent = x, self._latent_norm(latent)
        if self._query_norm is not None and self._unpack_queries is not None:
            read = self._query_norm(queries)
            queries = self._unpack_queries(read)
        if self._indexer is not None:
            masks.selected = []
        run = partial(self._run_sequence, masks, iter(masks.selected))
        heads = run_each_conversation(cache, run, queries, latent, x, read, *keys)
        if self._gate is None:
            return heads
        gate = self._gate(x)
        if self._spec.gate == "element":
            return self._stock.compile_elementwise(apply_gate)(heads, gate)
        by_head = heads.reshape(1, x.shape[1], self._spec.heads, -1)
        return self._stock.compile_elementwise(apply_gate)(by_head, gate[..., None]).reshape(
            heads.shape
        )

    def _run_sequence(
        self,
        masks: Masks,
        selected: Iterator[Selection | None],
        cache: LayerCache,
        queries: mx.array,
        latent: mx.array,
        x: mx.array,
        query_latent: mx.array,
        key: mx.array | None = None,
    ) -> mx.array:
        """Latent attention within one sequence; queries, latents and unrotated keys [1, T, ...].

        selected: what an earlier layer's indexer selected in each sequence; x, query_latent: the
        rows that an indexer of this layer reads; key: None where no part of heads is rotated.
        """
        assert isinstance(cache, AttentionCache)
        spec, position, rows = self._spec, cache.next_row_index(), queries.shape[1]
        queries = queries.reshape(1, rows, spec.heads, -1).swapaxes(1, 2)
        latent = latent[:, None]
        if self._rotate is None or key is None:
            unrotated, every = queries, _zero_rows(spec.heads, rows, spec.key_width, latent.dtype)
            rotated, key = every, every[:, :1]
        else:
            unrotated, rotated = mx.split(queries, [spec.nope], axis=-1)
            key = self._rotate(key[:, None], position, is_long=masks.is_long)
            rotated = self._rotate(rotated, position, is_long=masks.is_long)
        others = [] if self._indexer is None else [self._indexer.index_keys(x, position)]
        cache.append(latent, key, *others)
        if spec.indexer is None:
            heads = self._attend(unrotated, rotated, cache, masks)
        else:
            if self._indexer is not None:
                masks.selected.append(self._indexer.select_keys(x, query_latent, cache, position))
            heads = self._attend_sparse(unrotated, rotated, cache, masks, next(selected))
        return heads.swapaxes(1, 2).reshape(1, rows, spec.heads * spec.value_dim)

    def _attend_sparse(
        self,
        unrotated: mx.array,
        rotated: mx.array,
        cache: AttentionCache,
        masks: Masks,
        selection: Selection | None,
    ) -> mx.array:
        """Attend to all tokens in rows that see few, to selected ones in later rows.

        selection: None where all rows see few. Which rows do may be unknown to the host.
        """
        if selection is None:
            return self._attend(unrotated, rotated, cache, masks)
        (rows, most), length = selection.tokens.shape, cache.most_committed + rotated.shape[2]
        if rows > ABSORBED_ROWS and length <= MASKED_SHARE * most:
            none, tokens = mx.zeros((rows, length + 1), mx.bool_), selection.tokens
            if selection.counts is not None:
                left_over = self._stock.consecutive_indices((1, most)) >= selection.counts
                tokens = mx.where(left_over, length, tokens)
            selected = mx.put_along_axis(none, tokens, mx.array(True), axis=1)
            return self._stock_attention(unrotated, rotated, cache, selected)
        sparse = self._attend_selected(unrotated, rotated, cache, selection)
        if cache.length >= selection.least:
            return sparse
        dense = self._attend(unrotated, rotated, cache, masks)
        is_early = row_positions(cache.next_row_index(), range(rows))[:, None] < selection.least
        return mx.where(is_early, dense, sparse)

    def _attend(
        self, unrotated: mx.array, rotated: mx.array, cache: AttentionCache, masks: Masks
    ) -> mx.array:
        """Attend with queries [1, heads, T, ...] to all tokens up to each -> [1, heads, T, size].

        The rows' own latents were appended to the cache before.
        """
        rows = rotated.shape[2]
        served = self._served.row_counts(cache.row_bits)
        if served is None or rows not in served:
            return self._stock_attention(unrotated, rotated, cache, None)
        absorbed = self._row_by_row(self._unpack_keys.multiply_transposed, unrotated)
        span = masks.visible_keys(cache, rows, self._key_blocks(cache.row_bits))
        launcher, stored = served.launcher, cache.key_value_buffers
        absorbed, rotated = (self._stock.make_contiguous(side) for side in (absorbed, rotated))
        attended = self._run_kernel(absorbed, rotated, stored, cache.row_bits, span, launcher)
        return self._row_by_row(self._unpack_values, attended)

    def _key_format(self, bits: CacheBits) -> KeyValueFormat:
        name = cache_format_name(bits, is_latent=True)
        return named_cache_format(name, self._spec.key_width, self._spec.kv_rank)

    def _key_blocks(self, bits: CacheBits) -> KeyBlocks:
        spec, form = self._spec, self._key_format(bits)
        return key_blocks(form, spec.key_width, spec.kv_rank, spec.heads)

    def _run_kernel(
        self,
        absorbed: mx.array,
        rotated: mx.array,
        stored: Sequence[mx.array],
        bits: CacheBits,
        place: KeyExtent | KeyBlockSpan,
        launcher: Launcher,
    ) -> mx.array:
        """Attend by the kernel for few rows to latents and keys as stored in so many bits.

        Arrays are row-contiguous: queries [1, heads, T, ...], latents and keys [1, 1, L, ...].
        """
        half = len(stored) // 2
        return few_query_attention(
            rotated,
            (*stored[half:], *stored[:half]),
            self._key_format(bits),
            place,
            self._spec.scale,
            launcher,
            self._sinks,
            q_latent=absorbed,
        )

    def _attend_selected(
        self, unrotated: mx.array, rotated: mx.array, cache: AttentionCache, selection: Selection
    ) -> mx.array:
        """Attend with queries [1, heads, T, ...] to the latents of the tokens selected for each."""
        spec, (rows, count), bits = self._spec, selection.tokens.shape, cache.row_bits
        absorbed = self._row_by_row(self._unpack_keys.multiply_transposed, unrotated)
        by_row = absorbed.transpose(2, 1, 0, 3), rotated.transpose(2, 1, 0, 3)
        served, made = self._served.row_counts(bits), list[mx.array]()
        if served is not None and rows in served:
            every = (
                *map(self._stock.make_contiguous, by_row),
                *cache.gather_rows(selection.tokens),
            )
            for row in range(rows):
                queries, turned, *stored = (side[row : row + 1] for side in every)
                place, launcher = self._selected_keys(selection, row, bits), served.launcher
                made.append(self._run_kernel(queries, turned, stored, bits, place, launcher))
        else:
            nbytes = count * (spec.kv_rank + spec.key_width + 4 * spec.heads) * rotated.dtype.size
            a_row = row_bytes(self._kernels, rows, nbytes)
            for part in score_tiles(slice(0, rows), a_row):
                gathered = cache.gather_rows(selection.tokens[part])
                latents, keys = cache.keys_and_values_of(gathered)
                queries, turned = (side[part].swapaxes(1, 2) for side in by_row)
                added = (turned * spec.scale) @ keys.swapaxes(-1, -2)
                if selection.counts is not None:
                    seen = self._stock.consecutive_indices((1, count)) < selection.counts[part]
                    added = mx.where(seen[:, None, None], added, mx.finfo(added.dtype).min)
                if self._sinks is not None:  # heads are rows here, so sinks are scores of no value
                    sinks = self._sinks.astype(added.dtype)[:, None]
                    sinks = mx.broadcast_to(sinks, (*added.shape[:-1], 1))
                    added = mx.concatenate([added, sinks], axis=-1)
                    latents = mx.pad(latents, [(0, 0), (0, 0), (0, 1), (0, 0)])
                options = AttentionOptions(spec.scale, added)
                attended = self._stock.attention(queries, latents, latents, options)
                made.append(attended.swapaxes(1, 2))
        return self._row_by_row(self._unpack_values, join_tiles(made).transpose(2, 1, 0, 3))

    def _selected_keys(
        self, selection: Selection, row: int, bits: CacheBits
    ) -> KeyExtent | KeyBlockSpan:
        """Gathered latents that a row attends to: the first ones, as many as were selected."""
        count = selection.tokens.shape[1]
        if selection.counts is None or selection.known:
            return KeyExtent(selection.known[row] if selection.known else count)
        assert self._spec.indexer is not None
        extent = KeyExtent(count, spare=self._spec.indexer.pool - 1)
        span = key_block_span(extent, 1, self._key_blocks(bits))
        return span.with_lazy_end(selection.counts[row].astype(mx.int32))

    def _stock_attention(
        self,
        unrotated: mx.array,
        rotated: mx.array,
        cache: AttentionCache,
        selected: mx.array | None,
    ) -> mx.array:
        """Attend by MLX with queries [1, heads, T, ...] to all latents or those selected [T, L]."""
        rotated, (latents, keys) = rotated * self._spec.scale, cache.keys_and_values()
        others = keys, cache.next_row_index(), selected
        if rotated.shape[2] <= ABSORBED_ROWS:
            absorbed = self._unpack_keys.multiply_transposed(unrotated)
            block = _LatentBlock(absorbed, rotated, latents, latents, *others)
            return self._unpack_values(self._attend_in_tiles(block))
        unpacked, values = self._unpack_keys(latents), self._unpack_values(latents)
        return self._attend_in_tiles(_LatentBlock(unrotated, rotated, unpacked, values, *others))

    def _row_by_row(self, product: Callable[[mx.array], mx.array], x: mx.array) -> mx.array:
        """Apply a per-head product to x [1, heads, T, K]; with exact numerics each row alone.

        MLX's kernels for one row and for several rows round differently.
        """
        if not self._kernels.exact:
            return product(x)
        return product(x.swapaxes(0, 2)).swapaxes(0, 2)

    def _attend_in_tiles(self, block: _LatentBlock) -> mx.array:
        _, heads, rows, _ = block.rotated.shape
        a_row = heads * block.rotated_keys.shape[2] * block.rotated.dtype.size
        parts = [self._attend_rows(block, part) for part in row_tiles(rows, a_row)]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)

    def _attend_rows(self, block: _LatentBlock, part: slice) -> mx.array:
        """Latent attention of a slice of rows; scores sum unrotated and rotated products."""
        rows, before = block.rotated.shape[2], block.rotated_keys.shape[2] - block.rotated.shape[2]
        end = before + part.stop
        unrotated, rotated = block.unrotated[:, :, part], block.rotated[:, :, part]
        added = rotated @ block.rotated_keys[:, :, :end].swapaxes(-1, -2)
        if rows > 1 or isinstance(block.position, mx.array):
            queries = row_positions(block.position, range(part.start, part.stop))
            seen = mx.arange(end)[None] <= queries[:, None]
            if block.selected is not None:
                seen = seen & block.selected[part, :end]
            added = mx.where(seen, added, mx.finfo(added.dtype).min)
        keys, values = block.keys[:, :, :end], block.values[:, :, :end]
        sinks = None if self._sinks is None else self._sinks.astype(added.dtype)
        options = AttentionOptions(self._spec.scale, added, sinks)
        return self._stock.attention(unrotated, keys, values, options)


@lru_cache(maxsize=32)
def _zero_rows(heads: int, rows: int, width: int, dtype: mx.Dtype) -> mx.array:
    """Zeros [1, heads, rows, width]; cached, as every layer of a pass needs the same."""
    return mx.zeros((1, heads, rows, width), dtype)
