"""StockOperations with fewer graph nodes for CPUs; `MLX` is the instance for this machine.

Sums of squares and scales of rows are matrix products [1, N] by [N, 1] and [1, 1] by [1, N]: one
node and one BLAS call, which adds each row's numbers in the same order however many rows there are.
Operands of sums have the same number of axes, so that nothing is broadcast.
"""

from collections import deque
from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import (
    AttentionOptions,
    Position,
    RopeFunction,
    RopeParams,
    RowFunction,
    StockOperations,
    computes_on_gpu,
    delta_steps,
)

MOST_BEGUN = 32
"""Rows of a pass that begins while it is written down: those of drafts, and of several chats."""


SINE_ROWS = 2048
"""Rows of a table of sines; with two of them RoPE reaches 4,194,304 positions."""


class CpuStockOperations(StockOperations):
    """StockOperations for CPUs; results differ from the base class in the last bits only."""

    def __init__(self) -> None:
        super().__init__()
        self._rotations: dict[RopeParams, RopeFunction] = {}

    def start_evaluation(self, x: mx.array, *, has_idle_gpu: bool = False) -> None:
        """Let MLX start to compute x [1, T, H], if T is small, while more is recorded."""
        del has_idle_gpu
        if x.shape[1] <= MOST_BEGUN:
            mx.async_eval(x)  # type: ignore[no-untyped-call]

    def make_rms_norm(self, weight: mx.array, eps: float, heads: int = 0) -> RowFunction:
        """Make the function that RMS-norms rows by a weight.

        The division by N is folded into weight and eps.
        """
        size, least = weight.shape[-1], eps * weight.shape[-1]
        gain = weight.astype(mx.float32) * sqrt(size)
        if not heads and weight.ndim == 1:
            gain, added = gain[None, None], mx.array([[[least]]])

            def normalise(x: mx.array) -> mx.array:
                wide, count = x.astype(mx.float32), x.size // size
                if count == 1 and x.ndim == 3:
                    squares = mx.addmm(added, wide, wide.reshape(1, size, 1))
                    return wide * (mx.rsqrt(squares) @ gain)
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
        row_indices: mx.array | None,
        chosen: mx.array,
        *,
        is_sorted: bool,
    ) -> mx.array:
        """Multiply rows by chosen matrices in float32, the only type of MLX's CPU backend here."""
        wide, stack = rows.astype(mx.float32), matrices.astype(mx.float32)
        return super().gather_product(wide, stack, row_indices, chosen, is_sorted=is_sorted)

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

        Sines are those of float64 angles; all layers of a pass share them.
        """
        if params not in self._rotations:
            self._rotations[params] = _Rope(params)
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

        Queries that share a key then form one matrix product. A mask that is not bool is added to
        the scores, [1, heads, 1, L]. A single row is bit-equal to its result among several rows.
        """
        *lead, size = queries.shape
        scale, mask, sinks, cap = options
        if lead[2] > 1 or cap:
            return super().attention(queries, keys, values, options)
        shared = queries.reshape(lead[0], keys.shape[1], -1, size)
        scaled = shared * constant_array(shared.shape, scale).astype(shared.dtype)
        scores = scaled @ keys.swapaxes(-1, -2)
        if isinstance(mask, mx.array):
            is_bool = mask.dtype == mx.bool_
            scores = (
                mx.where(mask, scores, -mx.inf) if is_bool else scores + mask.reshape(scores.shape)
            )
        if sinks is not None:
            scores = mx.concatenate([sinks.reshape(*shared.shape[:3], 1), scores], axis=-1)
        weights = mx.softmax(scores, axis=-1, precise=True)
        if sinks is not None:
            weights = weights[..., 1:]
        return (weights @ values).reshape(*lead, -1)

    def delta_rule(self, rows: DeltaRows, state: mx.array) -> tuple[mx.array, mx.array]:
        """Run the gated delta rule step by step."""
        return delta_steps(rows, state)


def _inverse_lengths(
    x: mx.array, leading_shape: tuple[int, ...], size: int, smallest_square: float
) -> mx.array:
    rows, columns = x.reshape(*leading_shape, 1, size), x.reshape(*leading_shape, size, 1)
    return mx.rsqrt(
        mx.addmm(constant_array((*leading_shape, 1, 1), smallest_square), rows, columns)
    )


@lru_cache(maxsize=256)  # prompts have rows in any number
def constant_array(shape: tuple[int, ...], value: float) -> mx.array:
    """Array of a float32 constant, cached by shape and value."""
    return mx.array(np.full(shape, value, np.float32))


class _Rope:
    """Rotary position embedding with the sines of float64 angles, which layers of a pass share.

    They have the same bits whether the host knows a position or only the device does: both add
    angle p % SINE_ROWS to angle p // SINE_ROWS * SINE_ROWS, whose sines stand in tables.
    """

    def __init__(self, params: RopeParams) -> None:
        self._width, self._interleaved = params.width, params.interleaved
        self._magnitude = params.magnitude
        rates = 1 / np.array(params.rope_periods)
        fine = np.outer(np.arange(SINE_ROWS), rates)
        coarse = np.outer(SINE_ROWS * np.arange(SINE_ROWS), rates)
        self._sines = [f(angles) for angles in (coarse, fine) for f in (np.cos, np.sin)]
        self._run = lru_cache(maxsize=2)(self._run_factors)
        self._known = lru_cache(maxsize=8)(self._known_factors)
        self._recent: deque[_DeviceFactors] = deque(maxlen=8)

    @cached_property
    def _device_sines(self) -> list[mx.array]:
        return [mx.array(table, dtype=mx.float64) for table in self._sines]

    def __call__(self, x: mx.array, position: Position) -> mx.array:
        """Rotate heads x [1, heads, T, size] whose first row is at `position`."""
        rows, size = x.shape[2:]
        if isinstance(position, int):
            factors = self._known(position, x.shape)
        else:
            factors = self._device_factors(position, rows, size)
        if self._interleaved:
            pairs = x.astype(mx.float32).view(mx.complex64)
            return (pairs * factors[0]).view(mx.float32).astype(x.dtype)
        ends = [self._width // 2, self._width][: 1 + (self._width < size)]
        first, second, *plain = mx.split(x, ends, axis=-1)
        partners = mx.concatenate([second, first, *plain], axis=-1)
        cosines, sines = factors
        return (x * cosines + partners * sines).astype(x.dtype)

    def _known_factors(self, position: int, shape: tuple[int, ...]) -> list[mx.array]:
        _, heads, rows, size = shape
        number, start = divmod(position, SINE_ROWS)
        if start + rows <= SINE_ROWS:
            factors = [run[start : start + rows] for run in self._run(number, size)]
        else:
            factors = self._factors(np, self._sines, np.arange(position, position + rows), size)
        if rows == 1:  # for each head, so that nothing is broadcast
            factors = [np.repeat(factor[None, None], heads, axis=1) for factor in factors]
        return [mx.array(factor) for factor in factors]

    def _run_factors(self, number: int, size: int) -> list[np.ndarray]:
        steps = np.arange(number * SINE_ROWS, (number + 1) * SINE_ROWS)
        return self._factors(np, self._sines, steps, size)

    def _device_factors(self, position: mx.array, rows: int, size: int) -> list[mx.array]:
        for recent in self._recent:
            if recent.position is position and recent.shape == (rows, size):
                return recent.factors
        steps = position + mx.arange(rows)
        factors = self._factors(mx, self._device_sines, steps, size)
        self._recent.append(_DeviceFactors(position, (rows, size), factors))
        return factors

    def _factors(self, arrays: Any, tables: Sequence[Any], positions: Any, size: int) -> list[Any]:
        """Factors that rotate heads at int positions [T]; arrays: numpy or mlx.core.

        interleaved: complex64 factors of pairs [T, size / 2]. Else float32 cosines and sines [T,
        size], for an element and for its partner half the rotated width apart.
        """
        places = [positions // SINE_ROWS] * 2 + [positions % SINE_ROWS] * 2
        cos, sin, more_cos, more_sin = (
            table[place] for table, place in zip(tables, places, strict=True)
        )
        cosines, sines = (
            (self._magnitude * part).astype(arrays.float32)
            for part in (cos * more_cos - sin * more_sin, sin * more_cos + cos * more_sin)
        )
        width = size // 2
        if not self._interleaved:
            cosines = arrays.concatenate([cosines, cosines], axis=-1)
            sines = arrays.concatenate([-sines, sines], axis=-1)
            width = size
        plain = [(0, 0), (0, width - cosines.shape[1])]
        factors = [arrays.pad(cosines, plain, constant_values=1.0), arrays.pad(sines, plain)]
        if not self._interleaved:
            return factors
        return [arrays.stack(factors, axis=-1).reshape(-1, size).view(arrays.complex64)]


class _DeviceFactors(NamedTuple):
    position: mx.array
    shape: tuple[int, int]
    factors: list[mx.array]


MLX = StockOperations() if computes_on_gpu() else CpuStockOperations()
"""The default StockOperations on this machine."""
