"""Multi-head latent attention (arXiv 2405.04434), bit-equal for one row and for several.

A block of up to ABSORBED_ROWS rows multiplies its queries by the matrix that unpacks keys and
attends to the latents themselves ("absorbed"), by our kernel for few rows. Longer blocks, of
prompts, unpack keys and values first, which is cheaper there. Verify passes are short, so drafted
rows get the same bits as others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import KernelWork
from metal_kernels.few_query_attention import few_query_attention, key_blocks
from metal_kernels.key_value_formats import cache_form, form_name
from metal_kernels.stock import AttentionOptions, Position, StockOperations, row_tiles
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.attention import AttentionCache, positions
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, each
from mlx_engine.models import layer_specs
from mlx_engine.models.attention import KernelByCacheBits, Masks
from mlx_engine.models.layers import Linear, Norm, ResidualLinear, RotaryEmbedding
from mlx_engine.models.matrix import Matrix, dequantised
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

ABSORBED_ROWS = 128
"""Of DeepSeek-V3's sizes absorbing is cheaper up to 170 rows, whatever the length before them."""


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
    L, rotated size]. position: of the first row.
    """

    unrotated: mx.array
    rotated: mx.array
    keys: mx.array
    values: mx.array
    rotated_keys: mx.array
    position: Position


class LatentAttention:
    """Multi-head latent attention of a decoder block, with its projections and cache.

    The KV cache stores latents as keys and rotated keys as values.
    """

    def __init__(self, spec: layer_specs.LatentAttentionSpec, part: Part, eps: float) -> None:
        del eps  # the norms of latents have their own
        self._spec, self._stock, self._kernels = spec, part.kernels.stock, part.kernels
        work = KernelWork("", spec.kv_rank, spec.rope.width, spec.heads)
        self._served = KernelByCacheBits(part.kernels, work, is_latent=True)
        self._served.of(16)
        self._rotate = RotaryEmbedding(spec.rope, part.kernels.stock)
        self._to_latent = Linear.read(part, "kv_a_proj_with_mqa")
        self.dtype = self._to_latent.matrix.dtype
        self._latent_norm = Norm.read(part, "kv_a_layernorm", spec.eps)
        self.out_proj = ResidualLinear.read(part, "o_proj")
        is_direct = spec.q_rank is None
        self._to_query_latent = None if is_direct else Linear.read(part, "q_a_proj")
        self._query_norm = None if is_direct else Norm.read(part, "q_a_layernorm", spec.eps)
        self._queries = Linear.read(part, "q_proj" if is_direct else "q_b_proj")
        if "kv_b_proj.weight" in part:
            keys, values = part.per_head("kv_b_proj", spec.heads, (spec.nope, spec.value_dim))
            self._unpack_keys = PerHeadMatrices(keys, stock=self._stock)
        else:
            self._unpack_keys = PerHeadMatrices(
                part.matrix("embed_q"), is_transposed=True, stock=self._stock
            )
            values = part.matrix("unembed_out")
        self._unpack_values = PerHeadMatrices(values, stock=self._stock)

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create latent attention's empty cache; bits: of latents and rotated keys."""
        return AttentionCache(bits)

    def mix(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run latent attention on normed hidden states [1, T, H] -> [1, T, N] for o_proj."""
        latent, key = mx.split(self._to_latent(x), [self._spec.kv_rank], axis=-1)
        queries, latent = self._project_queries(x), self._latent_norm(latent)
        return each(cache, partial(self._run_sequence, masks), queries, latent, key)

    def _run_sequence(
        self, masks: Masks, cache: LayerCache, queries: mx.array, latent: mx.array, key: mx.array
    ) -> mx.array:
        """Latent attention within one sequence; queries, latents and unrotated keys [1, T, ...]."""
        assert isinstance(cache, AttentionCache)
        spec, position, rows = self._spec, cache.start(), queries.shape[1]
        queries = queries.reshape(1, rows, spec.heads, -1).swapaxes(1, 2)
        unrotated, rotated = mx.split(queries, [spec.nope], axis=-1)
        is_long = masks.is_long
        latent, key = latent[:, None], self._rotate(key[:, None], position, is_long=is_long)
        rotated = self._rotate(rotated, position, is_long=is_long)
        served = self._served.of(cache.row_bits)
        if served is not None and rows in served:
            absorbed = self._row_by_row(self._unpack_keys.multiply_transposed, unrotated)
            buffers = cache.append(latent, key)
            half, name = len(buffers) // 2, form_name(cache.row_bits, is_latent=True)
            form = cache_form(name, spec.rope.width, spec.kv_rank)
            cut = key_blocks(form, spec.rope.width, spec.kv_rank, spec.heads)
            attended = few_query_attention(
                self._stock.contiguous(rotated),
                (*buffers[half:], *buffers[:half]),
                form,
                masks.key_span(cache, rows, cut),
                spec.scale,
                served.launcher,
                q_latent=self._stock.contiguous(absorbed),
            )
            heads = self._row_by_row(self._unpack_values, attended)
        else:
            seen = cache.write(latent, key)
            heads = self._stock_attention(unrotated, rotated * spec.scale, *seen, position)
        return heads.swapaxes(1, 2).reshape(1, rows, spec.heads * spec.value_dim)

    def _stock_attention(
        self,
        unrotated: mx.array,
        rotated: mx.array,
        latents: mx.array,
        keys: mx.array,
        position: Position,
    ) -> mx.array:
        """Attend by MLX with queries [1, heads, T, ...] to a cache of latents [1, 1, L, ...]."""
        if rotated.shape[2] <= ABSORBED_ROWS:
            absorbed = self._unpack_keys.multiply_transposed(unrotated)
            block = _LatentBlock(absorbed, rotated, latents, latents, keys, position)
            return self._unpack_values(self._attend_in_tiles(block))
        unpacked, values = self._unpack_keys(latents), self._unpack_values(latents)
        return self._attend_in_tiles(
            _LatentBlock(unrotated, rotated, unpacked, values, keys, position)
        )

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

    def _project_queries(self, x: mx.array) -> mx.array:
        if self._to_query_latent is not None and self._query_norm is not None:
            x = self._query_norm(self._to_query_latent(x))
        return self._queries(x)

    def _attend_rows(self, block: _LatentBlock, part: slice) -> mx.array:
        """Latent attention of a slice of rows; scores sum unrotated and rotated products."""
        rows, before = block.rotated.shape[2], block.rotated_keys.shape[2] - block.rotated.shape[2]
        end = before + part.stop
        unrotated, rotated = block.unrotated[:, :, part], block.rotated[:, :, part]
        added = rotated @ block.rotated_keys[:, :, :end].swapaxes(-1, -2)
        if rows > 1 or isinstance(block.position, mx.array):
            queries = positions(block.position, range(part.start, part.stop))
            seen = mx.arange(end)[None] <= queries[:, None]
            added = mx.where(seen, added, mx.finfo(added.dtype).min)
        keys, values = block.keys[:, :, :end], block.values[:, :, :end]
        return self._stock.attention(
            unrotated, keys, values, AttentionOptions(self._spec.scale, added)
        )
