"""StockOperations with fewer graph nodes for CPUs; `MLX` is the instance for this machine.

Sums of squares and scales of rows are matrix products [1, N] by [N, 1] and [1, 1] by [1, N]: one
node and one BLAS call, which adds each row's numbers in the same order however many rows there are.
Operands of sums have the same number of axes, so that nothing is broadcast.
"""

from collections.abc import Callable
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import (
    AttentionOptions,
    RopeFunction,
    RopeParams,
    RowFunction,
    StockOperations,
    computes_on_gpu,
    delta_steps,
)

MOST_BEGUN = 32
"""Rows of a pass that begins while it is written down: those of drafts, and of several chats."""


class CpuStockOperations(StockOperations):
    """StockOperations for CPUs; results differ from the base class in the last bits only."""

    def __init__(self) -> None:
        super().__init__()
        self._rotations: dict[RopeParams, RopeFunction] = {}

    def start_evaluation(self, x: mx.array) -> None:
        """Let MLX start to compute x [1, T, H], if T is small, while more is recorded."""
        if x.shape[1] <= MOST_BEGUN:
            mx.async_eval(x)  # type: ignore[no-untyped-call]

    def make_rms_norm(self, weight: mx.array, eps: float, heads: int = 0) -> RowFunction:
        """Make the function that RMS-norms rows by a weight.

        The division by N is folded into weight and eps.
        """
        size, least = weight.shape[-1], eps * weight.shape[-1]
        gain = weight.astype(mx.float32) * sqrt(size)
        if not heads and weight.ndim == 1:
            gain = gain[None, None]

            def normalise(x: mx.array) -> mx.array:
                wide, count = x.astype(mx.float32), x.size // size
                scales = _inverse_lengths(wide, (count,), size, least)
                return wide * (scales.reshape(*x.shape[:-1], 1) @ gain)

            return normalise
        count = heads or len(weight)
        width = count * size
        gain = mx.contiguous(mx.broadcast_to(gain, (count, size)))[None, :, None]

        def normalise_heads(x: mx.array) -> mx.array:
            shape = (x.shape[1], count)
            rows = x.astype(mx.float32).reshape(*shape, 1, size)
            normed = rows * (_inverse_lengths(rows, shape, size, least) @ gain)
            return normed.reshape(1, -1, width) if heads else normed.reshape(1, *shape, size)

        return normalise_heads

    def gather_product(
        self,
        rows: mx.array,
        matrices: mx.array,
        its_row: mx.array | None,
        chosen: mx.array,
        *,
        is_sorted: bool,
    ) -> mx.array:
        """Multiply rows by chosen matrices in float32, the only type of MLX's CPU backend here."""
        wide, stack = rows.astype(mx.float32), matrices.astype(mx.float32)
        return super().gather_product(wide, stack, its_row, chosen, is_sorted=is_sorted)

    def l2_norm(self, x: mx.array, heads: int, eps: float, repeats: int = 1) -> mx.array:
        """L2-normalise heads, repeating each head in the same matrix product."""
        _, count, width = x.shape
        size, every = width // heads, count * heads
        rows = x.reshape(every, 1, size)
        scales = _inverse_lengths(rows, (every,), size, eps)
        if repeats > 1:
            scales = mx.broadcast_to(scales, (every, repeats, 1))
        return (scales @ rows).reshape(1, count, heads * repeats, size)

    def make_rope(self, params: RopeParams) -> RopeFunction:
        """Make the function that rotates heads by position (RoPE).

        It looks sines up in a table that all layers of a pass share.
        """
        if params not in self._rotations:
            by_table, by_device = _rope_by_table(params), super().make_rope(params)
            self._rotations[params] = lambda x, position: (
                by_table(x, position) if isinstance(position, int) else by_device(x, position)
            )
        return self._rotations[params]

    def top_values(self, x: mx.array, count: int) -> mx.array:
        """The `count` highest values of each row [R, V], ascending, by a partition."""
        return mx.sort(mx.topk(x, count), axis=-1) if count < x.shape[-1] else mx.sort(x, axis=-1)

    def make_convolution(self, taps: mx.array) -> RowFunction:
        """Make the function of a depthwise convolution, as a sum over shifted rows."""
        count, channels = taps.shape[1], taps.shape[0]
        one = mx.contiguous(taps.T)[None]
        rows_of_taps = one[None]

        def run(rows: mx.array) -> mx.array:
            if rows.shape[1] == count:
                return mx.sum(rows * one, axis=1, keepdims=True)
            shape = (1, rows.shape[1] - count + 1, count, channels)
            windows = mx.as_strided(rows, shape, (0, channels, channels, 1))
            return mx.sum(windows * rows_of_taps, axis=2)

        return run

    def attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, options: AttentionOptions
    ) -> mx.array:
        """Attention of queries to keys and values, with fewer graph nodes for a single row.

        Without a mask, queries that share a key then form one matrix product.
        """
        shape = queries.shape
        if shape[2] > 1 or options.mask is not None or options.sinks is not None or options.cap:
            return super().attention(queries, keys, values, options)
        shared = queries.reshape(1, keys.shape[1], -1, shape[-1])
        scaled = shared * constant(shared.shape, options.scale).astype(shared.dtype)
        weights = mx.softmax(scaled @ keys.swapaxes(-1, -2), axis=-1, precise=True)
        return (weights @ values).reshape(*shape[:-1], -1)

    def delta_rule(self, rows: DeltaRows, state: mx.array) -> tuple[mx.array, mx.array]:
        """Run the gated delta rule step by step."""
        return delta_steps(rows, state)


def _inverse_lengths(x: mx.array, lead: tuple[int, ...], size: int, least: float) -> mx.array:
    rows, columns = x.reshape(*lead, 1, size), x.reshape(*lead, size, 1)
    return mx.rsqrt(mx.addmm(constant((*lead, 1, 1), least), rows, columns))


@lru_cache(maxsize=256)  # prompts have rows in any number
def constant(shape: tuple[int, ...], value: float) -> mx.array:
    """Array of a float32 constant, cached by shape and value."""
    return mx.array(np.full(shape, value, np.float32))


class _SineTable(NamedTuple):
    cosines: mx.array
    sines: mx.array


def _rope_by_table(params: RopeParams) -> Callable[[mx.array, int], mx.array]:
    width = params.width
    rates = 1 / np.array(params.periods)

    @lru_cache(maxsize=8)  # of trunk and heads, behind each other
    def table(position: int, shape: tuple[int, ...]) -> _SineTable:
        *_, rows, size = shape
        angles = np.outer(np.arange(position, position + rows), rates)
        axis = 2 if params.interleaved else 1
        cosines, sines = np.ones((rows, size)), np.zeros((rows, size))
        cosines[:, :width] = np.stack([np.cos(angles)] * 2, axis).reshape(rows, width)
        sines[:, :width] = np.stack([-np.sin(angles), np.sin(angles)], axis).reshape(rows, width)
        both = (part.astype(np.float32) for part in (cosines, sines))
        if rows == 1:
            both = (np.ascontiguousarray(np.broadcast_to(part, shape)) for part in both)
        return _SineTable(*map(mx.array, both))

    def partners(x: mx.array) -> mx.array:
        if not params.interleaved:
            first, second, *plain = mx.split(
                x, [width // 2, width][: 1 + (width < x.shape[-1])], -1
            )
            return mx.concatenate([second, first, *plain], axis=-1)
        pairs = x[..., :width].reshape(*x.shape[:-1], width // 2, 2)
        turned = mx.concatenate([pairs[..., 1:], pairs[..., :1]], axis=-1)
        return mx.concatenate([turned.flatten(-2), x[..., width:]], axis=-1)

    def rotate(x: mx.array, position: int) -> mx.array:
        cosines, sines = table(position, x.shape)
        return (x * cosines + partners(x) * sines).astype(x.dtype)

    return rotate


MLX = StockOperations() if computes_on_gpu() else CpuStockOperations()
"""The default StockOperations on this machine."""
