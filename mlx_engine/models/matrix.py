"""A weight matrix in any stored format, and its dequantised values."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.stock import Stock
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, BlockName, block_values

TILE_VALUES = 2**24
"""Of blocks that are unpacked for a product: 32 MB in 16 bits, so that even an output head of a
billion weights is never unpacked as a whole.
"""

Packing = Literal["dense", "affine", "mxfp4", "mxfp8", "nvfp4"] | BlockName


class Matrix(NamedTuple):
    """A weight of N outputs by K inputs: dense, in a packing of MLX, or in a GGUF's own blocks.

    dense: `weight` is floating [N, K], no scales and biases, group_size 0, bits of an element.
    blocks: `weight` is uint8 [N, bytes of a row], the rest as for dense, bits 0.
    else: `weight` is uint32 [N, K * bits / 32], `scales` [N, K / group_size] (floating for affine,
    uint8 for the others), `biases` like scales for affine and None for the others. A stack of E
    such matrices has one more axis in front. computed: the element type to compute in where none of
    its arrays has one.
    """

    weight: mx.array
    scales: mx.array | None
    biases: mx.array | None
    group_size: int
    bits: int
    mode: Packing
    computed: mx.Dtype = mx.float32

    @property
    def dtype(self) -> mx.Dtype:
        """Element type to compute in: its floats', or what others of its kind of file have."""
        floats = self.weight if self.scales is None else self.scales
        return floats.dtype if mx.issubdtype(floats.dtype, mx.floating) else self.computed

    @property
    def outputs(self) -> int:
        """N."""
        return self.weight.shape[-2]

    @property
    def inputs(self) -> int:
        """K."""
        width = self.weight.shape[-1]
        if self.mode in BLOCK_FORMS:
            return block_values(self.mode, width)
        return width if self.scales is None else width * 32 // self.bits

    def times(self, x: mx.array, *, transpose: bool = True) -> mx.array:
        """x W^T [..., N], or x W [..., K], of one in a packing of MLX, by stock MLX."""
        assert self.scales is not None
        return mx.quantized_matmul(
            x,
            self.weight,
            self.scales,
            self.biases,
            transpose=transpose,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )


def values_of(matrix: Matrix, dtype: mx.Dtype, stock: Stock = MLX) -> mx.array:
    """Dequantised values of a matrix, or of some of its rows."""
    stored = (matrix.weight, matrix.scales, matrix.biases)
    parts = tuple(part for part in stored if part is not None)
    return stock.dequantise(parts, matrix.group_size, matrix.bits, matrix.mode, dtype)


def tiles_of(matrix: Matrix, dtype: mx.Dtype, stock: Stock = MLX) -> Iterator[mx.array]:
    """Dequantised values in slices of rows; of a stack, for each matrix."""
    rows, each = matrix.weight.shape[-2], matrix.weight.size // matrix.weight.shape[-2]
    step = max(32, TILE_VALUES // max(1, each * matrix.inputs // matrix.weight.shape[-1]))
    for start in range(0, rows, step):
        tile = matrix._replace(weight=matrix.weight[..., start : start + step, :])
        yield values_of(tile, dtype, stock)


def rows_of(matrix: Matrix, rows: mx.array) -> Matrix:
    """A matrix of some rows, in the same format: no packing reaches across two rows."""
    return matrix._replace(
        weight=matrix.weight[rows],
        scales=None if matrix.scales is None else matrix.scales[rows],
        biases=None if matrix.biases is None else matrix.biases[rows],
    )


def one_below_the_other(parts: Sequence[Matrix]) -> Matrix:
    """Stack matrices of equal packing and row length, one below the other."""
    first, *more = parts
    if not more:
        return first

    def joined(*arrays: mx.array | None) -> mx.array | None:
        return mx.concatenate([array for array in arrays if array is not None], axis=-2)

    weight = mx.concatenate([part.weight for part in parts], axis=-2)
    if first.scales is None:
        return first._replace(weight=weight)
    scales = joined(*(part.scales for part in parts))
    biases = None if first.biases is None else joined(*(part.biases for part in parts))
    return first._replace(weight=weight, scales=scales, biases=biases)


Layout = Callable[[Matrix], Matrix]
"""How a table hands out matrices: the same numbers, laid out for what multiplies by them."""


def as_stored(matrix: Matrix) -> Matrix:
    """The layout for stock products: as stored."""
    return matrix


def by_columns(matrix: Matrix) -> Matrix:
    """The same matrix dense in float32, each column contiguous: so MLX's CPU backend multiplies by
    it fastest (0.32.4), several times faster than by a packed one, and on some processors twice as
    fast as by contiguous rows. A row's result does not depend on the rows beside it.
    """
    weight = matrix.weight if matrix.mode == "dense" else values_of(matrix, mx.float32)
    columns = mx.contiguous(weight.swapaxes(-1, -2))
    return Matrix(columns.swapaxes(-1, -2), None, None, 0, 32, "dense")
