"""A weight matrix in any stored format, and functions that dequantise or rearrange it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX, constant_array
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, BlockName, block_values
from metal_kernels.weight_formats.mlx_formats import BITS, GROUPS
from mlx_engine.values.errors import BadModelFile

TILE_VALUES = 2**24
"""Of blocks that are unpacked for a product: 32 MB in 16 bits, so that even an output head of a
billion weights is never unpacked as a whole.
"""

CODES_TOGETHER = 32
"""Neighbouring codes that share a scale and a bias where MLX multiplies by them, at the least."""

CODE_OF_ZERO = 128
"""With codes around it sums of products stay small, and exact to more digits."""

SUMS_AT_ONCE = 2**22
"""Sums over groups that a product by columns holds at a time: 16 MB."""

Packing = Literal["dense", "affine", "columns", "mxfp4", "mxfp8", "nvfp4"] | BlockName
_MICROSCALED: dict[tuple[int, int], Packing] = {
    (32, 4): "mxfp4",
    (32, 8): "mxfp8",
    (16, 4): "nvfp4",
}
"""Group size and bits -> packing without biases."""


class Matrix(NamedTuple):
    """A weight [N outputs, K inputs]: dense, quantised as MLX packs it, or in GGUF blocks.

    dense: `weight` is floating [N, K] without scales and biases, group_size 0, bits of an element.
    GGUF blocks: `weight` is uint8 [N, bytes per row], bits 0. MLX packings: `weight` is uint32 [N,
    K * bits / 32], `scales` [N, K / group_size], `biases` like scales for affine, else None.
    columns: affine with 8-bit codes stored column by column for MLX's CPU backend: `weight` is
    uint32 [groups, group_size, C / 4], scales and biases [groups, 1, C], C being N plus `padding`
    zero columns; w = scale * (code - CODE_OF_ZERO) + bias. A stack of E matrices has an axis in
    front. computed: element type to compute in where no array is floating.
    """

    weight: mx.array
    scales: mx.array | None
    biases: mx.array | None
    group_size: int
    bits: int
    mode: Packing
    computed: mx.Dtype = mx.float32
    padding: int = 0

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The arrays of a matrix: the weight, then scales and biases where it has them."""
        return tuple(part for part in self[:3] if part is not None)

    def map_arrays(self, change_part: Callable[[mx.array], mx.array]) -> "Matrix":
        """Change each array of a matrix, keeping its format."""
        weight, scales, biases, *_ = (*map(change_part, self.arrays), None, None)
        return self._replace(weight=weight, scales=scales, biases=biases)

    @property
    def dtype(self) -> mx.Dtype:
        """Element type to compute in with a matrix: of its floating arrays, else `computed`."""
        floats = self.weight if self.scales is None else self.scales
        return floats.dtype if mx.issubdtype(floats.dtype, mx.floating) else self.computed

    @property
    def output_size(self) -> int:
        """Number of outputs N (rows) of a weight matrix."""
        if self.mode == "columns" and self.scales is not None:
            return self.scales.shape[-1] - self.padding
        return self.weight.shape[-2]

    @property
    def input_size(self) -> int:
        """Number of inputs K (columns) of a weight matrix."""
        width = self.weight.shape[-1]
        if self.mode in BLOCK_FORMS:
            return block_values(self.mode, width)
        if self.mode == "columns":
            return self.weight.shape[0] * self.group_size
        return width if self.scales is None else width * 32 // self.bits

    def multiply(self, x: mx.array, *, transpose: bool = True) -> mx.array:
        """Multiply x [..., K] by a weight matrix W in MLX: x W^T, or x W without transpose."""
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


class StoredPacking(NamedTuple):
    """Group size, bits and mode of a matrix that MLX has quantised, as `mx.quantize` takes them."""

    group_size: int
    bits: int
    mode: Packing


def infer_packing(
    name: str, arrays: Sequence[mx.array], shape: tuple[int, ...], origin: str
) -> StoredPacking:
    """Infer how a matrix is quantised from its stored arrays: weight, scales and any biases.

    shape: of the matrix [..., N, K]. Raises BadModelFile for arrays that do not go together.
    """
    weight, scales, *biases = arrays
    mode: Packing | None = None
    size = bits = 0
    if weight.shape[:-1] == scales.shape[:-1] == shape[:-1]:
        words, groups, inputs = weight.shape[-1], scales.shape[-1], shape[-1]
        if words and groups and not inputs % groups and not words * 32 % inputs:
            size, bits = inputs // groups, words * 32 // inputs
    is_floating = all(mx.issubdtype(array.dtype, mx.floating) for array in (scales, *biases))
    if biases and is_floating and biases[0].shape == scales.shape:
        mode = "affine" if bits in BITS and size in GROUPS else None
    elif not biases and scales.dtype == mx.uint8:
        mode = _MICROSCALED.get((size, bits))
    if weight.dtype != mx.uint32 or mode is None:
        raise BadModelFile(
            "{origin}: {name} is packed in a way that does not exist ({found}). The file is "
            "damaged or its config belongs to another model: get both again from the same place.",
            origin=origin,
            name=name,
            found=", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays),
        )
    return StoredPacking(size, bits, mode)


def dequantised(matrix: Matrix, dtype: mx.Dtype, stock_mlx: StockOperations = MLX) -> mx.array:
    """Dequantise a weight matrix to a dense array [N, K] of the given dtype."""
    if matrix.mode == "columns":
        return take_rows(matrix, mx.arange(matrix.output_size)).weight.astype(dtype)
    return stock_mlx.dequantise(matrix.arrays, matrix.group_size, matrix.bits, matrix.mode, dtype)


def dequantised_tiles(
    matrix: Matrix, dtype: mx.Dtype, stock_mlx: StockOperations = MLX
) -> Iterator[mx.array]:
    """Yield the dequantised values of a matrix, or of each of a stack, in slices of rows."""
    rows, each = matrix.weight.shape[-2], matrix.weight.size // matrix.weight.shape[-2]
    step = max(32, TILE_VALUES // max(1, each * matrix.input_size // matrix.weight.shape[-1]))
    for start in range(0, rows, step):
        tile = matrix._replace(weight=matrix.weight[..., start : start + step, :])
        yield dequantised(tile, dtype, stock_mlx)


def take_rows(matrix: Matrix, rows: mx.array) -> Matrix:
    """Select rows of a weight matrix, keeping its format; a matrix by columns becomes dense."""
    if matrix.mode == "columns":
        assert matrix.scales is not None
        assert matrix.biases is not None
        codes, scales, biases = (
            mx.take(mx.moveaxis(part, -1, 0), rows, axis=0)
            for part in (matrix.weight.view(mx.uint8), matrix.scales, matrix.biases)
        )
        values = (codes.astype(mx.float32) - CODE_OF_ZERO) * scales + biases
        return Matrix(values.flatten(-2), None, None, 0, 32, "dense")
    return matrix.map_arrays(lambda part: part[rows])


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """Concatenate the rows of weight matrices with the same format and number of inputs."""
    first, *more = parts
    columns = zip(*(part.arrays for part in parts), strict=True)
    joined = (mx.concatenate(list(arrays), axis=-2) for arrays in columns)
    return first.map_arrays(lambda _: next(joined)) if more else first


Layout = Callable[[Matrix], Matrix]
"""How a table hands out matrices: the same numbers, laid out for what multiplies by them."""


def unchanged_layout(matrix: Matrix) -> Matrix:
    """Return a weight matrix unchanged, the layout for GPUs, which read it as stored."""
    return matrix


def columns_for_cpu(matrix: Matrix) -> Matrix:
    """Rearrange a weight matrix for MLX's CPU backend: affine by columns, others dense float32.

    As MLX 0.32.4 wants it. Dense matrices get contiguous columns, which MLX multiplies at least as
    fast as any other layout. A row's result does not depend on the other rows of a product.
    """
    if matrix.mode == "affine" and matrix.weight.ndim == 2:
        return _affine_columns(matrix)
    weight = matrix.weight if matrix.mode == "dense" else dequantised(matrix, mx.float32)
    columns = mx.contiguous(weight.swapaxes(-1, -2))
    return Matrix(columns.swapaxes(-1, -2), None, None, 0, 32, "dense")


def _affine_columns(matrix: Matrix) -> Matrix:
    """Convert an affine matrix [N, K] of any bit width to 8-bit codes by columns."""
    assert matrix.scales is not None
    assert matrix.biases is not None
    plain = matrix._replace(scales=mx.ones_like(matrix.scales), biases=mx.zeros_like(matrix.biases))
    middle = 2 ** (matrix.bits - 1)
    codes = (dequantised(plain, mx.float32) + (CODE_OF_ZERO - middle)).astype(mx.uint8)
    padding = -matrix.output_size % CODES_TOGETHER
    codes, scales, biases = (
        mx.pad(part, [(0, padding), (0, 0)])
        for part in (codes, matrix.scales, matrix.biases + middle * matrix.scales)
    )
    by_groups = codes.reshape(len(codes), -1, matrix.group_size).transpose(1, 2, 0)
    return Matrix(
        mx.contiguous(by_groups).view(mx.uint32),
        mx.contiguous(scales.T.astype(mx.float32))[:, None],
        mx.contiguous(biases.T.astype(mx.float32))[:, None],
        matrix.group_size,
        8,
        "columns",
        padding=padding,
    )


class ColumnProduct:
    """Product with a matrix stored by columns: x [..., K] -> [..., C] in float32, padding included.

    Codes are multiplied group by group, then scaled; biases are multiplied by the sums of each
    group's inputs. MLX's loop over neighbouring codes takes half as long as the reference BLAS of
    its wheels over floats and reads a quarter of the bytes. It needs a scale and a bias for each
    run of codes: 1 and -CODE_OF_ZERO here.
    """

    def __init__(self, matrix: Matrix) -> None:
        assert matrix.scales is not None
        assert matrix.biases is not None
        self._groups, self._size, words = matrix.weight.shape
        run = next(run for run in (128, 64, CODES_TOGETHER) if 4 * words % run == 0)
        shape = (self._groups, self._size, 4 * words // run)
        ones, zeros = constant_array(shape, 1.0), constant_array(shape, -float(CODE_OF_ZERO))
        self._run = run
        self._codes, self._ones, self._zeros = matrix.weight, ones, zeros
        self._scales, self._biases = matrix.scales, matrix.biases
        self._most = max(1, SUMS_AT_ONCE // matrix.scales.size)

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., K] by the matrix stored by columns; a long prompt in chunks of rows."""
        rows = x.size // (self._groups * self._size)
        if rows > self._most:
            parts = mx.split(x, range(self._most, rows, self._most), axis=-2)
            return mx.concatenate([self(part) for part in parts], axis=-2)
        if rows == 1:
            groups = x.reshape(self._groups, 1, self._size)
        else:
            groups = x.reshape(rows, self._groups, self._size).swapaxes(0, 1)
        sums = mx.quantized_matmul(
            groups,
            self._codes,
            self._ones,
            self._zeros,
            transpose=False,
            group_size=self._run,
            bits=8,
        )
        of_inputs = mx.sum(groups, axis=-1, keepdims=True)
        whole = mx.addmm(sums * self._scales, of_inputs, self._biases)
        made = mx.sum(whole, axis=0, keepdims=True)
        return made if x.ndim == 3 else made.reshape(*x.shape[:-1], -1)
