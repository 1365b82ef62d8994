"""MLX's own operations that are one launch on a GPU, and several written out on a CPU.

Layers call them through here, so that a dry run (tests/speed/dry_run.py) can put one graph node in
the place of each and count on any machine what a Mac would be asked for. A CPU takes a few
microseconds for each node of a graph, however little there is to compute, so it has fewer of them
written out (stock_on_cpu.py).
"""

from collections.abc import Callable
from math import prod, sqrt
from operator import mul
from typing import NamedTuple, cast

import mlx.core as mx
import numpy as np

from metal_kernels.gated_delta_block import Rows
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

ElementwiseFunction = Callable[..., mx.array]
"""Of arrays of one shape, or that are broadcast to one; each element follows from its own."""

RowFunction = Callable[[mx.array], mx.array]
"""Of [1, T, ...], each row by itself."""

Position = int | mx.array
"""A row's index in its text, int32 [1] where only the device knows it."""

RopeFunction = Callable[[mx.array, Position], mx.array]
"""[1, heads, T, size], whose first row stands at this position -> the same, rotated."""


class RopeParams(NamedTuple):
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
        """Period of each pair of elements: tokens per radian."""
        factors = self.factors or (1.0,) * (self.width // 2)
        return [self.base ** (2 * i / self.width) * factor for i, factor in enumerate(factors)]


class AttentionOptions(NamedTuple):
    """scale: of scores. sinks: logits [heads] that take a share of the softmax and give nothing.

    cap: scores s become cap * tanh(s / cap); 0 for none.
    """

    scale: float
    mask: mx.array | str | None
    sinks: mx.array | None = None
    cap: float = 0.0


class Stock:
    """Operations of mlx.core and mlx.core.fast, with their arguments."""

    def __init__(self) -> None:
        self._compiled: dict[ElementwiseFunction, ElementwiseFunction] = {}
        self._numbers: dict[tuple[int, ...], mx.array] = {}

    def begin(self, x: mx.array) -> None:
        """Have x computed while the rest of a pass is written down, on a CPU; a GPU is asked for
        the whole pass.
        """

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        """[..., H] -> the same, of the wider type of both."""
        return mx.fast.rms_norm(x, weight, eps)

    def norm(self, weight: mx.array, eps: float, heads: int = 0) -> RowFunction:
        """RMS norm by a weight [N] over the last axis. Rows [1, T, R, N], in any shape, have a
        weight each of [R, N]; or they are so many heads that share one -> [1, T, heads * N].
        """
        if heads:
            return lambda x: self.rms_norm(x, weight, eps).reshape(*x.shape[:2], -1)
        if weight.ndim == 1:
            return lambda x: self.rms_norm(x, weight, eps)
        multiplied = self.elementwise(mul)
        return lambda x: multiplied(
            self.rms_norm(x.reshape(*x.shape[:2], *weight.shape), None, eps), weight
        )

    def layer_norm(
        self, x: mx.array, weight: mx.array | None, bias: mx.array | None, eps: float
    ) -> mx.array:
        """[..., H] -> the same, of the widest type."""
        return mx.fast.layer_norm(x, weight, bias, eps)

    def centred_norm(self, weight: mx.array, bias: mx.array | None, eps: float) -> RowFunction:
        """Layer norm (arXiv 1607.06450) by a weight [N], or [R, N] as of `norm` without a bias."""
        if weight.ndim == 1:
            return lambda x: self.layer_norm(x, weight, bias, eps)
        multiplied = self.elementwise(mul)
        return lambda x: multiplied(
            self.layer_norm(x.reshape(*x.shape[:2], *weight.shape), None, None, eps), weight
        )

    def units(self, x: mx.array, heads: int, eps: float, times: int = 1) -> mx.array:
        """[1, T, heads * N] -> [1, T, heads, N], each head h / sqrt(sum(h^2) + eps).

        times: [1, T, heads * times, N], each so often, where that is cheaper than to do so later.
        """
        del times
        rows = x.reshape(*x.shape[:2], heads, -1)
        size = rows.shape[-1]
        return self.rms_norm(rows, None, eps / size) / sqrt(size)

    def rotation(self, turning: RopeParams) -> RopeFunction:
        """`rope` by one description."""
        periods = None if turning.factors is None else mx.array(turning.periods)
        return lambda x, position: self.rope(x, turning, position, periods)

    def convolution(self, taps: mx.array) -> RowFunction:
        """By taps [C, K], every channel by its own: [1, K - 1 + T, C] -> [1, T, C]."""
        columns = taps[..., None]
        return lambda rows: mx.conv1d(rows, columns, groups=len(taps))

    def rope(
        self, x: mx.array, turning: RopeParams, position: Position, periods: mx.array | None
    ) -> mx.array:
        """[1, heads, T, size] -> the same, rotated; periods: those of `turning` with factors."""
        return mx.fast.rope(
            x,
            turning.width,
            traditional=turning.interleaved,
            base=turning.base if periods is None else None,
            scale=1.0,
            offset=position,
            freqs=periods,
        )

    def attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, how: AttentionOptions
    ) -> mx.array:
        """[1, heads, T, size] and [1, kv heads, L, size] -> [1, heads, T, size of values]."""
        scale, mask, sinks, cap = how
        if cap:
            return self._capped(queries, keys, values, how)
        return mx.fast.scaled_dot_product_attention(
            queries, keys, values, scale=scale, mask=mask, sinks=sinks
        )

    def _capped(
        self, queries: mx.array, keys: mx.array, values: mx.array, how: AttentionOptions
    ) -> mx.array:
        """Attention with capped scores by single operations (Gemma 2, arXiv 2408.00118)."""
        _, heads, rows, size = queries.shape
        _, kept, length, _ = keys.shape
        shared = (queries * how.scale).reshape(1, kept, heads // kept, rows, size)
        scores = shared @ keys[:, :, None].swapaxes(-1, -2)
        scores = how.cap * mx.tanh(scores.astype(mx.float32) / how.cap)
        mask = how.mask
        if isinstance(mask, str):  # "causal"
            places = self.numbers((length,))
            mask = places <= places[length - rows :, None]
        if mask is not None:
            scores = mx.where(mask, scores, -mx.inf)
        weights = mx.softmax(scores, axis=-1).astype(values.dtype)
        return (weights @ values[:, :, None]).reshape(1, heads, rows, -1)

    def delta_rule(self, rows: Rows, state: mx.array) -> tuple[mx.array, mx.array]:
        """Outputs [1, T, value heads, Dv] and the state after them."""
        outputs, after = mx.fast.gated_delta_update(*rows, state)
        return outputs, after

    def contiguous(self, x: mx.array) -> mx.array:
        """A contiguous array: a copy unless it is one."""
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

    def elementwise(self, formula: ElementwiseFunction) -> ElementwiseFunction:
        """The same in one launch, for any number of rows.

        Compiled for a GPU, once for all layers; a CPU takes seconds to compile one.
        """
        if not computes_on_gpu():
            return formula
        if formula not in self._compiled:
            self._compiled[formula] = cast(ElementwiseFunction, mx.compile(formula, shapeless=True))
        return self._compiled[formula]


def computes_on_gpu() -> bool:
    """Whether MLX's default device is a GPU (Metal or CUDA), which computes beside the host."""
    return bool(mx.default_device().type == mx.DeviceType.gpu)


_SORTED_AT_ONCE = 2048
"""Elements of a row."""


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
    """Slices of 32 or more rows whose scores fit in SCORES_BYTES, if possible."""
    count = max(32, SCORES_BYTES // bytes_a_row // 32 * 32)
    return [slice(start, min(start + count, rows)) for start in range(0, rows, count)]
