"""Attention of a block's rows over a layer's cache: by stock MLX, or by our kernel for few rows."""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from metal_kernels.choice import MOST_ROWS, Kernels, Work
from metal_kernels.few_query_attention import Place, few_query_attention
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import dense_cache
from mlx_engine.cache.attention import AttentionCache


class Attend(Protocol):
    """Appends a block to a cache and attends to all of it."""

    def __call__(
        self, queries: mx.array, keys: mx.array, values: mx.array, cache: AttentionCache
    ) -> mx.array:
        """[1, heads, T, size], rotated, heads of queries a multiple of the others' -> the same."""


@dataclass(frozen=True, slots=True)
class StockAttention:
    """`mx.fast.scaled_dot_product_attention`."""

    scale: float

    def __call__(
        self, queries: mx.array, keys: mx.array, values: mx.array, cache: AttentionCache
    ) -> mx.array:
        """Causal."""
        seen = cache.write(keys, values)
        mask = "causal" if queries.shape[2] > 1 else None
        return mx.fast.scaled_dot_product_attention(
            queries, seen.keys, seen.values, scale=self.scale, mask=mask
        )


@dataclass(frozen=True, slots=True)
class FewQueryAttention:
    """Our kernel for few rows, on the cache's buffers as they lie; stock MLX for a prompt."""

    scale: float
    launcher: Launcher

    def __call__(
        self, queries: mx.array, keys: mx.array, values: mx.array, cache: AttentionCache
    ) -> mx.array:
        """Causal."""
        rows = queries.shape[2]
        if rows > MOST_ROWS:
            return StockAttention(self.scale)(queries, keys, values, cache)
        buffers = cache.append(keys, values)
        # squeezed: an index would copy the whole cache
        attended = few_query_attention(
            mx.contiguous(queries.squeeze(0)),
            (buffers.keys.squeeze(0), buffers.values.squeeze(0)),
            dense_cache(),
            Place(cache.length + rows),
            self.scale,
            self.launcher,
        )
        return attended[None]


def attention(kernels: Kernels, size: int) -> Attend:
    """For heads of `size`, scaled by its root."""
    launcher = kernels.launcher_of("attention", Work("", size, size))
    scale = size**-0.5
    return StockAttention(scale) if launcher is None else FewQueryAttention(scale, launcher)
