"""MLX's own operations that are one launch on a GPU, and several written out on a CPU.

Layers call them through here, so that a dry run (mlx_engine/bench/dry_run.py) can put one node of
a graph in the place of each and see on any machine what a Mac would be asked for.
"""

from collections.abc import Callable
from math import prod
from typing import cast

import mlx.core as mx
import numpy as np

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

Elementwise = Callable[..., mx.array]
"""Of arrays of one shape, or that are broadcast to one; each element follows from its own."""


class Stock:
    """As of mlx.core and mlx.core.fast; the same arguments mean the same."""

    def __init__(self) -> None:
        self._compiled: dict[Elementwise, Elementwise] = {}
        self._numbers: dict[tuple[int, ...], mx.array] = {}

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        """[..., H] -> the same, of the wider type of both."""
        return mx.fast.rms_norm(x, weight, eps)

    def rope(
        self,
        x: mx.array,
        width: int,
        *,
        interleaved: bool,
        base: float | None,
        offset: int,
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

    def elementwise(self, formula: Elementwise) -> Elementwise:
        """The same in one launch, for any number of rows.

        Compiled for a GPU, once for all layers; a CPU takes seconds to compile one.
        """
        if not mx.metal.is_available():
            return formula
        if formula not in self._compiled:
            self._compiled[formula] = cast(Elementwise, mx.compile(formula, shapeless=True))
        return self._compiled[formula]


MLX = Stock()
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
