"""MLX's own operations that are one launch on a GPU, and several written out on a CPU.

Layers call them through here, so that a dry run (mlx_engine/bench/dry_run.py) can put one node of
a graph in the place of each and see on any machine what a Mac would be asked for. A CPU takes a few
microseconds for each node of a graph, however little there is to compute, so it has fewer of them
written out (`StockOnCpu`).
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod, sqrt
from typing import NamedTuple, cast

import mlx.core as mx
import numpy as np

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

CODES_TOGETHER = 32
"""Neighbouring codes that share a scale and a bias where MLX multiplies by them, at the least."""

CODE_OF_ZERO = 128
"""With codes around it sums of products stay small, and exact to more digits."""

Elementwise = Callable[..., mx.array]
"""Of arrays of one shape, or that are broadcast to one; each element follows from its own."""

ByRows = Callable[[mx.array], mx.array]
"""Of [1, T, ...], each row by itself."""

Position = int | mx.array
"""A row's index in its text, int32 [1] where only the device knows it."""

Rotate = Callable[[mx.array, Position], mx.array]
"""[1, heads, T, size], whose first row stands at this position -> the same, rotated."""


class Turning(NamedTuple):
    """A rotation (arXiv 2104.09864) of the first `width` elements of a head.

    Pair i turns by one radian in base^(2 i / width) * factors[i] tokens; factors None means ones.
    interleaved: pairs lie side by side, else halves apart.
    """

    width: int
    base: float
    factors: tuple[float, ...] | None
    interleaved: bool

    @property
    def periods(self) -> list[float]:
        """Tokens in which each pair turns by one radian."""
        factors = self.factors or (1.0,) * (self.width // 2)
        return [self.base ** (2 * i / self.width) * factor for i, factor in enumerate(factors)]


class Stock:
    """As of mlx.core and mlx.core.fast; the same arguments mean the same."""

    def __init__(self) -> None:
        self._compiled: dict[Elementwise, Elementwise] = {}
        self._numbers: dict[tuple[int, ...], mx.array] = {}
        self._units: dict[tuple[int, ...], tuple[mx.array, mx.array]] = {}

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        """[..., H] -> the same, of the wider type of both."""
        return mx.fast.rms_norm(x, weight, eps)

    def norm(self, weight: mx.array, eps: float, heads: int = 0) -> ByRows:
        """RMS norm by a weight [N]; or by one of [R, N] for rows [1, T, R, N]. heads: those rows
        are [1, T, heads, N], and share the weight [N].
        """
        del heads
        if weight.ndim == 1:
            return lambda x: self.rms_norm(x, weight, eps)
        multiplied = self.elementwise(_multiplied)
        return lambda x: multiplied(self.rms_norm(x, None, eps), weight)

    def unit(self, x: mx.array, eps: float) -> mx.array:
        """x / sqrt(sum(x^2) + eps) over the last axis."""
        size = x.shape[-1]
        return self.rms_norm(x, None, eps / size) / sqrt(size)

    def rotation(self, turning: Turning) -> Rotate:
        """`rope` by one description."""
        width, base, factors, interleaved = turning
        periods = None if factors is None else mx.array(turning.periods)
        return lambda x, position: self.rope(
            x,
            width,
            interleaved=interleaved,
            base=base if periods is None else None,
            offset=position,
            periods=periods,
        )

    def convolution(self, taps: mx.array) -> ByRows:
        """By taps [C, K], every channel by its own: [1, K - 1 + T, C] -> [1, T, C]."""
        columns = taps[..., None]
        return lambda rows: mx.conv1d(rows, columns, groups=len(taps))

    def rope(
        self,
        x: mx.array,
        width: int,
        *,
        interleaved: bool,
        base: float | None,
        offset: Position,
        periods: mx.array | None,
    ) -> mx.array:
        """[1, heads, T, size] -> the same, of which `width` elements are rotated."""
        return mx.fast.rope(
            x,
            width,
            traditional=interleaved,
            base=base,
            scale=1.0,
            offset=offset,
            freqs=periods,
        )

    def attention(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        *,
        scale: float,
        mask: mx.array | str | None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """[1, heads, T, size] and [1, kv heads, L, size] -> [1, heads, T, size of values]."""
        return mx.fast.scaled_dot_product_attention(
            queries, keys, values, scale=scale, mask=mask, sinks=sinks
        )

    def delta_rule(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        decay: mx.array,
        beta: mx.array,
        state: mx.array,
    ) -> tuple[mx.array, mx.array]:
        """Outputs [1, T, value heads, Dv] and the state after them."""
        outputs, after = mx.fast.gated_delta_update(queries, keys, values, decay, beta, state)
        return outputs, after

    def contiguous(self, x: mx.array) -> mx.array:
        """A copy unless its rows lie one after the other."""
        return mx.contiguous(x)

    def dequantise(
        self, parts: tuple[mx.array, ...], group_size: int, bits: int, mode: str, dtype: mx.Dtype
    ) -> mx.array:
        """The numbers of packed rows: weight, scales, biases; or of a GGUF's blocks, by mode."""
        if mode in BLOCK_FORMS:
            return BLOCK_FORMS[mode].dequantise(parts).astype(dtype)
        weight, scales, *biases = parts
        return mx.dequantize(
            weight,
            scales,
            biases[0] if biases else None,
            group_size=group_size,
            bits=bits,
            mode=mode,
            dtype=dtype,
        )

    def numbers(self, shape: tuple[int, ...]) -> mx.array:
        """0, 1, 2, ... uint32 in this shape, made once: no launch in each layer of each pass."""
        if shape not in self._numbers:
            self._numbers[shape] = mx.array(np.arange(prod(shape), dtype=np.uint32).reshape(shape))
        return self._numbers[shape]

    def times_codes(self, x: mx.array, codes: mx.array) -> mx.array:
        """x [G, T, K] by codes of 8 bits, uint32 [G, K, N / 4] -> [G, T, N], all in float32.

        N is a multiple of CODES_TOGETHER. MLX wants a scale and a bias for each run of codes, 1 and
        -CODE_OF_ZERO here, made once for each shape.
        """
        *lead, words = codes.shape
        run = next(run for run in (128, 64, CODES_TOGETHER) if 4 * words % run == 0)
        shape = (*lead, 4 * words // run)
        if shape not in self._units:
            self._units[shape] = (mx.ones(shape), mx.full(shape, -float(CODE_OF_ZERO)))
        scales, biases = self._units[shape]
        return mx.quantized_matmul(
            x, codes, scales, biases, transpose=False, group_size=run, bits=8
        )

    def highest(self, x: mx.array, count: int) -> mx.array:
        """The `count` highest of each row [R, V], the highest last.

        In shares of up to a block each, of whose highest the highest are sought in turn: MLX sorts
        so much in one launch, and more in a dozen passes over all (0.32, sort.cpp).
        """
        while x.shape[-1] > max(_SORTED_AT_ONCE, 2 * count):
            rows, size = x.shape
            share = max(n for n in range(1, _SORTED_AT_ONCE + 1) if size % n == 0)
            if share <= 2 * count or share < _SORTED_AT_ONCE // 8:
                share = max(_SORTED_AT_ONCE, 4 * count)
                x = mx.pad(x, [(0, 0), (0, -size % share)], constant_values=-mx.inf)
            shares = mx.sort(x.reshape(rows, -1, share), axis=-1)
            x = shares[..., -count:].reshape(rows, -1)
        return mx.sort(x, axis=-1)[:, -count:]

    def elementwise(self, formula: Elementwise) -> Elementwise:
        """The same in one launch, for any number of rows.

        Compiled for a GPU, once for all layers; a CPU takes seconds to compile one.
        """
        if not mx.metal.is_available():
            return formula
        if formula not in self._compiled:
            self._compiled[formula] = cast(Elementwise, mx.compile(formula, shapeless=True))
        return self._compiled[formula]


_SORTED_AT_ONCE = 2048
"""Elements of a row."""


class StockOnCpu(Stock):
    """The same values, but for their last bits, with fewer nodes than MLX writes out."""

    def __init__(self) -> None:
        super().__init__()
        self._rotations: dict[Turning, Rotate] = {}
        self._least: dict[tuple[tuple[int, ...], float], mx.array] = {}

    def norm(self, weight: mx.array, eps: float, heads: int = 0) -> ByRows:
        """The mean's division is in weight and eps; both have axes enough to be no broadcasts.

        Of rows [1, T, N] a product of one term an element, which is exact, has each row's scale
        beside the weight.
        """
        size = weight.shape[-1]
        gain = weight.astype(mx.float32) * sqrt(size)
        if heads:
            gain = mx.repeat(gain[None], heads, axis=0)
        gain = gain.reshape(1, 1, *gain.shape)
        least = mx.full((*gain.shape[:-1], 1), eps * size)

        def run(x: mx.array) -> mx.array:
            wide = x.astype(mx.float32)
            scales = mx.rsqrt(mx.sum(mx.square(wide), axis=-1, keepdims=True) + least)
            return wide * (scales @ gain if x.ndim == gain.ndim == 3 else scales * gain)

        return run

    def unit(self, x: mx.array, eps: float) -> mx.array:
        """Without a mean in between; eps has axes enough to be no broadcast beside one row."""
        least = (1, 1, *x.shape[2:-1], 1), eps
        if least not in self._least:
            self._least[least] = mx.array(np.full(*least, np.float32))
        squares = mx.sum(mx.square(x), axis=-1, keepdims=True)
        return x * mx.rsqrt(squares + self._least[least])

    def rotation(self, turning: Turning) -> Rotate:
        """One for all layers, that they share the sines of a pass."""
        if turning not in self._rotations:
            by_table, by_device = _rotation_by_table(turning), super().rotation(turning)
            self._rotations[turning] = lambda x, position: (
                by_table(x, position) if isinstance(position, int) else by_device(x, position)
            )
        return self._rotations[turning]

    def highest(self, x: mx.array, count: int) -> mx.array:
        """By a partition, which a CPU does in one walk."""
        return mx.sort(mx.topk(x, count), axis=-1) if count < x.shape[-1] else mx.sort(x, axis=-1)

    def convolution(self, taps: mx.array) -> ByRows:
        """A sum over windows."""
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

    def delta_rule(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        decay: mx.array,
        beta: mx.array,
        state: mx.array,
    ) -> tuple[mx.array, mx.array]:
        """Step by step (arXiv 2412.06464, eq. 10) with S [Dk, Dv] for each value head:

        S <- g S;  S <- S + (b k)^T (v - k S);  y = q S.

        Heads are [key heads, those of values that share one], so that no key is repeated.
        """
        _, rows, shared, size = keys.shape
        heads, width = values.shape[2:]
        lead = (rows, shared, heads // shared)

        def for_all(rows_of_keys: mx.array) -> mx.array:
            return mx.broadcast_to(rows_of_keys.reshape(rows, shared, 1, 1, size), (*lead, 1, size))

        each = for_all(keys)
        steps = (
            mx.broadcast_to(decay.reshape(*lead, 1, 1), (*lead, size, width)),
            (each * beta.reshape(*lead, 1, 1)).swapaxes(-1, -2),
            each,
            values.reshape(*lead, 1, width),
            for_all(queries),
        )
        now = state.reshape(1, *lead[1:], width, size).swapaxes(-1, -2)
        made = []
        for fade, column, key, value, query in zip(
            *(mx.split(part, rows) if rows > 1 else (part,) for part in steps), strict=True
        ):
            now = now * fade
            now = mx.addmm(now, column, value - key @ now)
            made.append(query @ now)
        outputs = mx.concatenate(made) if rows > 1 else made[0]
        after = now.swapaxes(-1, -2).reshape(state.shape)
        return outputs.reshape(1, rows, heads, width), after


class _Table(NamedTuple):
    """[rows, size] each; what is not rotated has cosine 1 and sine 0."""

    cosines: mx.array
    sines: mx.array


def _rotation_by_table(turning: Turning) -> Callable[[mx.array, int], mx.array]:
    """x cos + partner(x) sin; angles in float64, made once for all that ask for the same rows."""
    width = turning.width
    rates = 1 / np.array(turning.periods)

    @lru_cache(maxsize=8)  # of trunk and heads, behind each other
    def table(position: int, rows: int, size: int) -> _Table:
        angles = np.outer(np.arange(position, position + rows), rates)
        axis = 2 if turning.interleaved else 1
        cosines, sines = np.ones((rows, size)), np.zeros((rows, size))
        cosines[:, :width] = np.stack([np.cos(angles)] * 2, axis).reshape(rows, width)
        sines[:, :width] = np.stack([-np.sin(angles), np.sin(angles)], axis).reshape(rows, width)
        return _Table(*(mx.array(part.astype(np.float32)) for part in (cosines, sines)))

    def partners(x: mx.array) -> mx.array:
        if not turning.interleaved:
            first, second, *rest = mx.split(x, [width // 2, width][: 1 + (width < x.shape[-1])], -1)
            return mx.concatenate([second, first, *rest], axis=-1)
        pairs = x[..., :width].reshape(*x.shape[:-1], width // 2, 2)
        turned = mx.concatenate([pairs[..., 1:], pairs[..., :1]], axis=-1)
        return mx.concatenate([turned.flatten(-2), x[..., width:]], axis=-1)

    def rotate(x: mx.array, position: int) -> mx.array:
        cosines, sines = table(position, *x.shape[-2:])
        return (x * cosines + partners(x) * sines).astype(x.dtype)

    return rotate


def _multiplied(normed: mx.array, weight: mx.array) -> mx.array:
    return normed * weight


MLX = Stock() if mx.default_device() == mx.gpu else StockOnCpu()
"""Used wherever nobody asks for another."""


def attends_in_one_launch(queries: tuple[int, ...], keys: tuple[int, ...], value_size: int) -> bool:
    """Whether MLX 0.32 has a kernel for it on Metal, by its scaled_dot_product_attention.cpp.

    Else products with all scores between them, [heads, T, L]. queries [1, heads, T, size], keys
    [1, kv heads, L, size]. GPUs with neural accelerators have a few kernels more.
    """
    _, heads, rows, size = queries
    if rows > 8:
        return size == value_size and size in (64, 72, 80, 96, 128)
    is_alike = size == value_size and size in (64, 96, 128, 256)
    takes = is_alike or (size, value_size) == (192, 128)
    return takes and rows <= keys[2] and rows * (heads // keys[1]) <= 32


SCORES_BYTES = 256 * 2**20
"""Of the scores that attention makes at once where it has no kernel; several such arrays live at
a time.
"""


def tiles(rows: int, bytes_a_row: int) -> list[slice]:
    """Runs of rows, of 32 or more, whose scores stay within SCORES_BYTES where they can."""
    count = max(32, SCORES_BYTES // bytes_a_row // 32 * 32)
    return [slice(start, min(start + count, rows)) for start in range(0, rows, count)]
