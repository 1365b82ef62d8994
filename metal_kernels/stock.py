"""Operations of MLX that are one launch on a GPU but several graph nodes on a CPU.

Layers call StockOperations for them, so that a dry run (tests/speed/dry_run.py) can replace each by
one graph node and count on any machine what a Mac would execute. On a CPU each node costs a few
microseconds, so stock_on_cpu.py writes out fewer.
"""

from collections.abc import Callable
from math import prod, sqrt
from operator import mul
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.gated_delta_block import DeltaRows
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
    """Parameters of rotary position embedding (arXiv 2104.09864).

    The first `width` elements of a head are rotated. Pair i turns by one radian in base^(2 i /
    width) * factors[i] tokens; factors None means ones. interleaved: pairs are neighbours, else
    half a head apart. magnitude: factor of rotated elements.
    """

    width: int
    base: float
    factors: tuple[float, ...] | None
    interleaved: bool
    magnitude: float = 1.0

    @property
    def rope_periods(self) -> list[float]:
        """Rotation period of each pair of a head's elements, in tokens per radian."""
        factors = self.factors or (1.0,) * (self.width // 2)
        return [self.base ** (2 * i / self.width) * factor for i, factor in enumerate(factors)]


class AttentionOptions(NamedTuple):
    """Options of scaled dot-product attention.

    scale: factor of scores. sinks: logits [heads] that take part in the softmax without a value.
    cap: scores s become cap * tanh(s / cap); 0 for none.
    """

    scale: float
    mask: mx.array | str | None
    sinks: mx.array | None = None
    cap: float = 0.0


class StockOperations:
    """MLX's own operations that layers use, as methods; a subclass has variants for CPUs."""

    def __init__(self) -> None:
        self._compiled: dict[ElementwiseFunction, ElementwiseFunction] = {}
        self._numbers: dict[tuple[int, ...], mx.array] = {}

    def start_evaluation(self, x: mx.array, *, has_idle_gpu: bool = False) -> None:
        """Start to compute x while the rest of a pass is recorded: on a CPU, or on an idle GPU.

        has_idle_gpu: a GPU, if there is one, has nothing queued.
        """
        if has_idle_gpu:
            mx.async_eval(x)  # type: ignore[no-untyped-call]

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        """RMS norm over the last axis of x [..., H], in the wider dtype of x and weight."""
        return mx.fast.rms_norm(x, weight, eps)

    def make_rms_norm(self, weight: mx.array, eps: float, heads: int = 0) -> RowFunction:
        """Make the function that RMS-norms rows by a weight [N] or, for [1, T, R, N], [R, N].

        heads: number of heads that share a weight [N]; the norm then returns [1, T, heads * N].
        """
        if heads:
            return lambda x: self.rms_norm(x, weight, eps).reshape(*x.shape[:2], -1)
        if weight.ndim == 1:
            return lambda x: self.rms_norm(x, weight, eps)
        return self._norm_heads(lambda x: self.rms_norm(x, None, eps), weight)

    def layer_norm(
        self, x: mx.array, weight: mx.array | None, bias: mx.array | None, eps: float
    ) -> mx.array:
        """Layer norm over the last axis of x [..., H], in the widest dtype of the arguments."""
        return mx.fast.layer_norm(x, weight, bias, eps)

    def make_layer_norm(self, weight: mx.array, bias: mx.array | None, eps: float) -> RowFunction:
        """Make a layer norm of rows by weights [N] with a bias, or [R, N] without one."""
        if weight.ndim == 1:
            return lambda x: self.layer_norm(x, weight, bias, eps)
        return self._norm_heads(lambda x: self.layer_norm(x, None, None, eps), weight)

    def _norm_heads(self, norm: RowFunction, weight: mx.array) -> RowFunction:
        multiplied = self.compile_elementwise(mul)
        return lambda x: multiplied(norm(x.reshape(*x.shape[:2], *weight.shape)), weight)

    def l2_norm(self, x: mx.array, heads: int, eps: float, repeats: int = 1) -> mx.array:
        """L2-normalise heads: [1, T, heads * N] -> [1, T, heads, N], h / sqrt(sum(h^2) + eps).

        repeats: how often each head may be repeated in the result; ignored here.
        """
        del repeats
        rows = x.reshape(*x.shape[:2], heads, -1)
        size = rows.shape[-1]
        return self.rms_norm(rows, None, eps / size) / sqrt(size)

    def make_rope(self, params: RopeParams) -> RopeFunction:
        """Make the function that rotates heads [1, heads, T, size] by position (RoPE)."""
        periods = None if params.factors is None else mx.array(params.rope_periods)
        return lambda x, position: self.rope(x, params, position, periods)

    def make_convolution(self, taps: mx.array) -> RowFunction:
        """Make a depthwise convolution with taps [C, K]: [1, K - 1 + T, C] -> [1, T, C]."""
        columns = taps[..., None]
        return lambda rows: mx.conv1d(rows, columns, groups=len(taps))

    def rope(
        self, x: mx.array, params: RopeParams, position: Position, periods: mx.array | None
    ) -> mx.array:
        """Rotate heads x [1, heads, T, size] whose first row is at `position` (RoPE).

        periods: those of `params`, if it has factors.
        """
        if params.magnitude != 1 and params.width == x.shape[-1]:
            x = params.magnitude * x
        elif params.magnitude != 1:
            rotated, plain = mx.split(x, [params.width], axis=-1)
            x = mx.concatenate([params.magnitude * rotated, plain], axis=-1)
        return mx.fast.rope(
            x,
            params.width,
            traditional=params.interleaved,
            base=params.base if periods is None else None,
            scale=1.0,
            offset=position,
            freqs=periods,
        )

    def attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, options: AttentionOptions
    ) -> mx.array:
        """Attention of queries [1, heads, T, size] to keys and values [1, kv heads, L, size].

        Returns [1, heads, T, value size].
        """
        scale, mask, sinks, cap = options
        if cap:
            return self._soft_capped_attention(queries, keys, values, options)
        return mx.fast.scaled_dot_product_attention(
            queries, keys, values, scale=scale, mask=mask, sinks=sinks
        )

    def _soft_capped_attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, options: AttentionOptions
    ) -> mx.array:
        _, heads, rows, size = queries.shape
        _, kept, length, _ = keys.shape
        shared = (queries * options.scale).reshape(1, kept, heads // kept, rows, size)
        scores = shared @ keys[:, :, None].swapaxes(-1, -2)
        scores = options.cap * mx.tanh(scores.astype(mx.float32) / options.cap)
        mask = options.mask
        if isinstance(mask, str):  # "causal"
            places = self.consecutive_indices((length,))
            mask = places <= places[length - rows :, None]
        if mask is not None:
            scores = mx.where(mask, scores, -mx.inf)
        weights = mx.softmax(scores, axis=-1).astype(values.dtype)
        return (weights @ values[:, :, None]).reshape(1, heads, rows, -1)

    def delta_rule(self, rows: DeltaRows, state: mx.array) -> tuple[mx.array, mx.array]:
        """Run the gated delta rule -> outputs [1, T, value heads, Dv] and the state after them."""
        if rows.decays_by_channel:  # which MLX's operation does not promise to take
            return delta_steps(rows, state)
        outputs, after = mx.fast.gated_delta_update(*rows, state)
        return outputs, after

    def gather_product(
        self,
        rows: mx.array,
        matrices: mx.array,
        row_indices: mx.array | None,
        chosen: mx.array,
        *,
        is_sorted: bool,
    ) -> mx.array:
        """Multiply rows [R, 1, K] by chosen matrices of a dense stack [E, K, N] -> [..., 1, N].

        row_indices, chosen: indices of rows, None for all in order, and of matrices. is_sorted:
        `chosen` ascends.
        """
        return mx.gather_mm(rows, matrices, row_indices, chosen, sorted_indices=is_sorted)

    def make_contiguous(self, x: mx.array) -> mx.array:
        """Return a contiguous array: x itself, or a copy."""
        return mx.contiguous(x)

    def dequantise(
        self, parts: tuple[mx.array, ...], group_size: int, bits: int, mode: str, dtype: mx.Dtype
    ) -> mx.array:
        """Dequantise a packed matrix (weight, scales, biases), or GGUF blocks of type `mode`."""
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

    def consecutive_indices(self, shape: tuple[int, ...]) -> mx.array:
        """Array 0, 1, 2, ... of uint32 in this shape, cached to save a launch per layer."""
        if shape not in self._numbers:
            self._numbers[shape] = mx.array(np.arange(prod(shape), dtype=np.uint32).reshape(shape))
        return self._numbers[shape]

    def top_values(self, x: mx.array, count: int) -> mx.array:
        """The `count` highest values of each row [R, V], ascending.

        MLX (0.32, sort.cpp) sorts up to a block of values in one launch and more in a dozen, so
        rows are reduced block by block.
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

    def compile_elementwise(self, formula: ElementwiseFunction) -> ElementwiseFunction:
        """Compile an elementwise function to a single launch on a GPU; unchanged on a CPU."""
        if formula not in self._compiled:
            compiled = mx.compile(formula, shapeless=True) if computes_on_gpu() else formula
            self._compiled[formula] = compiled
        return self._compiled[formula]


def computes_on_gpu() -> bool:
    """Whether MLX's default device is a GPU (Metal or CUDA), which runs in parallel to the host."""
    return bool(mx.default_device().type == mx.DeviceType.gpu)


_SORTED_AT_ONCE = 2048
"""Elements of a row."""


def has_fused_attention(queries: tuple[int, ...], keys: tuple[int, ...], value_size: int) -> bool:
    """Whether MLX 0.32 (scaled_dot_product_attention.cpp) has a Metal kernel for these shapes.

    queries [1, heads, T, size], keys [1, kv heads, L, size].
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


def row_tiles(rows: int, bytes_per_row: int) -> list[slice]:
    """Cut rows into slices of 32 or more, whose scores fit in SCORES_BYTES where possible."""
    count = max(32, SCORES_BYTES // bytes_per_row // 32 * 32)
    return [slice(start, min(start + count, rows)) for start in range(0, rows, count)]


def delta_steps(rows: DeltaRows, state: mx.array) -> tuple[mx.array, mx.array]:
    """Run the gated delta rule step by step: S <- g S; S <- S + (b k)^T (v - k S); y = q S.

    Takes decays by channel, too. Returns outputs [1, T, value heads, Dv] and the state after them.
    """
    queries, keys, values, decay, beta = rows
    _, count, shared, size = keys.shape
    heads, width = values.shape[2:]
    if shared < heads:
        queries, keys = (mx.repeat(part, heads // shared, axis=2) for part in (queries, keys))
    lead = (count, heads, 1)
    each = keys.reshape(*lead, size)
    steps = (
        mx.broadcast_to(decay.reshape(count, heads, -1, 1), (count, heads, size, width)),
        (beta.reshape(*lead, 1) @ each).swapaxes(-1, -2),
        each,
        values.reshape(*lead, width),
        queries.reshape(*lead, size),
    )
    now = state.swapaxes(-1, -2)
    made = []
    for fade, column, key, value, query in zip(
        *(mx.split(part, count) if count > 1 else (part,) for part in steps), strict=True
    ):
        now = now * fade
        now = mx.addmm(now, column, value - key @ now)
        made.append(query @ now)
    outputs = mx.concatenate(made) if count > 1 else made[0]
    return outputs.reshape(1, count, heads, width), now.swapaxes(-1, -2)
