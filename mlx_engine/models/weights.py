"""Named weights of a trunk or of MTP heads; building the model takes each exactly once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import NO_KERNELS, Kernels
from metal_kernels.stock import computes_on_gpu
from metal_kernels.weight_formats.gguf_blocks import BlockName, block_name_for
from mlx_engine.models.layer_specs import Shape, shapes_below
from mlx_engine.models.matrix import (
    Layout,
    Matrix,
    Packing,
    stack_rows,
    stored_layout,
    take_rows,
)
from mlx_engine.values.errors import (
    BadModelFile,
    tensor_misshapen,
    tensor_missing,
    tensor_not_floating,
)

_AFFINE_BITS = (2, 3, 4, 5, 6, 8)
_AFFINE_GROUPS = (32, 64, 128)
_NAMES_IN_A_MESSAGE = 6


def _rows_of_heads(matrix: Matrix, heads: int, rows: slice) -> Matrix:
    def cut(array: mx.array) -> mx.array:
        return mx.contiguous(array.reshape(heads, -1, array.shape[-1])[:, rows])

    return matrix._replace(
        weight=cut(matrix.weight),
        scales=None if matrix.scales is None else cut(matrix.scales),
        biases=None if matrix.biases is None else cut(matrix.biases),
    )


def _gguf_block_name(weight: mx.array, shape: tuple[int, ...]) -> BlockName | None:
    """GGUF block type in which a uint8 array stores a matrix of this shape; None for none."""
    fits = weight.shape[:-1] == shape[:-1] and weight.dtype == mx.uint8
    return block_name_for(weight.shape[-1], shape[-1]) if fits else None


class StoredMatrix(NamedTuple):
    """Request for a stored matrix to stack with others; order: row order, None for as stored."""

    name: str
    shape: Shape
    has_bias: bool
    order: Sequence[int] | None


class JoinedMatrix(NamedTuple):
    """Weight matrices stacked by rows into one, and their concatenated biases."""

    matrix: Matrix
    bias: mx.array | None


class _Layout(NamedTuple):
    """Bits and group size of a quantised matrix, computed from the widths of weight and scales."""

    bits: int
    group_size: int


class WeightTable:
    """Named weight arrays of a model's trunk or MTP heads; each must be taken exactly once.

    origin: file or folder the arrays come from, for messages. layout: rearranges the matrices that
    are handed out. kernels: kernels that layers may use. halves: compute in 16 bits where stored
    weights have no float dtype; None: if the default device is a GPU. Taking a name twice raises
    KeyError.
    """

    def __init__(
        self,
        arrays: Mapping[str, mx.array],
        origin: str,
        *,
        layout: Layout = stored_layout,
        kernels: Kernels = NO_KERNELS,
        halves: bool | None = None,
    ) -> None:
        self.kernels = kernels
        self._left = dict(arrays)
        self._taken: set[str] = set()
        self.origin = origin
        self._lay_out = layout
        self.has_16bit_floats = computes_on_gpu() if halves is None else halves
        self._handed_out: list[mx.array] = []

    def __contains__(self, name: str) -> bool:
        """Whether the weight array `name` exists and no layer has taken it yet."""
        return name in self._left

    @property
    def names(self) -> Collection[str]:
        """Names of the weight arrays that no layer has taken yet."""
        return self._left.keys()

    @property
    def taken_arrays(self) -> tuple[mx.array, ...]:
        """All weight arrays taken so far, in the layout they were handed out in; kept in memory."""
        return tuple(self._handed_out)

    def take_all(self) -> dict[str, mx.array]:
        """Take all remaining weight arrays unchanged, for an mlx-lm class that sorts them."""
        taken, self._left = self._left, {}
        self._taken.update(taken)
        return taken

    def keep_alive(self, arrays: Iterable[mx.array]) -> None:
        """Count arrays that an mlx-lm class made from `take_all` among the taken weight arrays."""
        self._handed_out.extend(arrays)

    def take(self, name: str, shape: tuple[int, ...], dtype: mx.Dtype | None = None) -> mx.array:
        """Take a floating weight array; BadModelFile when it is missing or has another shape.

        dtype: type to cast to; None for as stored.
        """
        array = self._take_floats(name, shape)
        array = array if dtype is None else array.astype(dtype)
        self._handed_out.append(array)
        return array

    def take_matrix(
        self, name: str, outputs: int, inputs: int, dtype: mx.Dtype | None = None
    ) -> Matrix:
        """Take `name`.weight with its scales and biases, if any; BadModelFile when they do not fit.

        Bits and group size follow from the shapes, so layers may differ. dtype: cast of a dense
        matrix.
        """
        matrix = self._take_stored(name, (outputs, inputs))
        if dtype is not None and matrix.mode == "dense":
            matrix = matrix._replace(weight=matrix.weight.astype(dtype))
        return self._hand_out(matrix)

    def take_matrices(self, name: str, count: int, outputs: int, inputs: int) -> Matrix:
        """Take `count` matrices [outputs, inputs] stored as a stack, with any scales and biases."""
        return self._hand_out(self._take_stored(name, (count, outputs, inputs)))

    def take_per_head(
        self, name: str, heads: int, rows: Sequence[int], inputs: int
    ) -> list[Matrix]:
        """Take a matrix whose rows are grouped by head, as one stack over heads for each part.

        rows: row counts of the parts of a head. Returns matrices [heads, rows of the part, inputs].
        """
        whole = self._take_stored(name, (heads * sum(rows), inputs))
        made, start = [], 0
        for count in rows:
            made.append(self._hand_out(_rows_of_heads(whole, heads, slice(start, start + count))))
            start += count
        return made

    def take_joined(self, parts: Sequence[StoredMatrix]) -> list[JoinedMatrix]:
        """Take weight matrices and biases, stacking neighbours with the same format by rows."""
        runs = (list(run) for _, run in groupby(parts, self._packing))
        return [self._join_run(run) for run in runs]

    def _join_run(self, parts: Sequence[StoredMatrix]) -> JoinedMatrix:
        matrices, biases = [], []
        for name, shape, has_bias, order in parts:
            rows = None if order is None else mx.array(list(order))
            matrix = self._take_stored(name, shape)
            matrices.append(matrix if rows is None else take_rows(matrix, rows))
            if has_bias:
                stored = self._take_floats(f"{name}.bias", shape[:-1]).astype(matrix.dtype)
                biases.append(stored if rows is None else stored[rows])
        bias = mx.concatenate(biases, axis=-1) if biases else None
        self._handed_out.extend(() if bias is None else (bias,))
        return JoinedMatrix(self._hand_out(stack_rows(matrices)), bias)

    def _packing(self, part: StoredMatrix) -> list[object]:
        """Key that is equal for stored matrices with the same format, to be stacked by rows."""
        arrays = (self._left.get(f"{part.name}.{kind}") for kind in ("weight", "scales", "biases"))
        kinds = [None if array is None else (array.shape[1:], array.dtype) for array in arrays]
        return [part.has_bias, *kinds]

    def _hand_out(self, matrix: Matrix) -> Matrix:
        matrix = self._lay_out(matrix)
        parts = (matrix.weight, matrix.scales, matrix.biases)
        self._handed_out.extend(part for part in parts if part is not None)
        return matrix

    def _take_stored(self, name: str, shape: tuple[int, ...]) -> Matrix:
        weight = self._remove(f"{name}.weight")
        if f"{name}.scales" not in self._left:
            blocks = _gguf_block_name(weight, shape)
            if blocks is not None:
                return Matrix(weight, None, None, 0, 0, blocks, self._float_type)
            self._require_shape(f"{name}.weight", weight, shape)
            self._require_floating(f"{name}.weight", weight)
            return Matrix(weight, None, None, 0, weight.dtype.size * 8, "dense")
        scales = self._remove(f"{name}.scales")
        layout = self._layout(name, weight, scales, shape)
        if f"{name}.biases" in self._left:
            return self._affine(name, weight, scales, layout)
        mode = self._microscaled_mode(name, scales, layout)
        computed = self._float_type
        return Matrix(weight, scales, None, layout.group_size, layout.bits, mode, computed)

    @property
    def _float_type(self) -> mx.Dtype:
        return mx.bfloat16 if self.has_16bit_floats else mx.float32

    def _take_floats(self, name: str, shape: tuple[int, ...]) -> mx.array:
        array = self._remove(name)
        self._require_shape(name, array, shape)
        self._require_floating(name, array)
        return array

    def check_all_used(self) -> None:
        """Raise BadModelFile that names the weight arrays which no layer has taken."""
        if self._left:
            names = sorted(self._left)
            shown = ", ".join(names[:_NAMES_IN_A_MESSAGE])
            more = len(names) - _NAMES_IN_A_MESSAGE
            rest = f" and {more} more" if more > 0 else ""
            raise BadModelFile(
                "{origin}: this model has no place for {shown}{rest}. The config does not "
                "belong to these weights, or they are of a variant this version does not know.",
                origin=self.origin,
                shown=shown,
                rest=rest,
            )

    def _remove(self, name: str) -> mx.array:
        if name in self._taken:
            raise KeyError(f"{name} was taken before")
        if name not in self._left:
            raise tensor_missing(self.origin, name)
        self._taken.add(name)
        return self._left.pop(name)

    def _affine(self, name: str, weight: mx.array, scales: mx.array, layout: _Layout) -> Matrix:
        biases = self._remove(f"{name}.biases")
        self._require_shape(f"{name}.biases", biases, scales.shape)
        self._require_floating(f"{name}.biases", biases)
        self._require_floating(f"{name}.scales", scales)
        if layout.bits not in _AFFINE_BITS or layout.group_size not in _AFFINE_GROUPS:
            raise self._bad_packing(name, f"{layout.bits} bits in groups of {layout.group_size}")
        return Matrix(weight, scales, biases, layout.group_size, layout.bits, "affine")

    def _microscaled_mode(self, name: str, scales: mx.array, layout: _Layout) -> Packing:
        modes: dict[_Layout, Packing] = {
            _Layout(4, 32): "mxfp4",
            _Layout(8, 32): "mxfp8",
            _Layout(4, 16): "nvfp4",
        }
        if scales.dtype != mx.uint8 or layout not in modes:
            raise self._bad_packing(
                name,
                f"no biases, {scales.dtype} scales, {layout.bits} bits in groups of "
                f"{layout.group_size}",
            )
        return modes[layout]

    def _layout(
        self, name: str, weight: mx.array, scales: mx.array, shape: tuple[int, ...]
    ) -> _Layout:
        """Compute bits and group size of a quantised matrix from its shapes.

        weight [..., outputs, inputs * bits / 32], scales [..., outputs, groups].
        """
        rows, inputs = shape[:-1], shape[-1]
        both = (weight, scales)
        if weight.dtype != mx.uint32 or any(
            a.ndim != len(shape) or a.shape[:-1] != rows for a in both
        ):
            shapes = f"{weight.dtype} {list(weight.shape)} with scales {list(scales.shape)}"
            raise self._bad_packing(name, shapes)
        words, groups = weight.shape[-1], scales.shape[-1]
        if groups < 1 or words < 1 or inputs % groups or words * 32 % inputs:
            raise self._bad_packing(name, f"{words} words and {groups} groups a row")
        return _Layout(words * 32 // inputs, inputs // groups)

    def _bad_packing(self, name: str, found: str) -> BadModelFile:
        return BadModelFile(
            "{origin}: {name} is packed in a way that does not exist ({found}). The file is "
            "damaged or its config belongs to another model: get both again from the same place.",
            origin=self.origin,
            name=name,
            found=found,
        )

    def _require_shape(self, name: str, array: mx.array, shape: tuple[int, ...]) -> None:
        if array.shape != shape:
            raise tensor_misshapen(self.origin, name, array.shape, shape)

    def _require_floating(self, name: str, array: mx.array) -> None:
        if not mx.issubdtype(array.dtype, mx.floating):
            raise tensor_not_floating(self.origin, name, str(array.dtype))


@dataclass(frozen=True, slots=True)
class Part:
    """The weights under one name prefix of a table, with the shapes that a layer's spec asks for.

    prefix: start of the tensors' names in the table, including the dot.
    """

    table: WeightTable
    prefix: str
    shapes: Mapping[str, Shape]

    @property
    def kernels(self) -> Kernels:
        """The engine's kernels that layers built from these weights may use."""
        return self.table.kernels

    def __contains__(self, name: str) -> bool:
        """Whether the layer's spec asks for a weight of this name."""
        return name in self.shapes

    def subpart(self, name: str) -> "Part":
        """Return the weights whose names start with `name` and a dot."""
        return Part(self.table, f"{self.prefix}{name}.", shapes_below(self.shapes, f"{name}."))

    def vector(self, name: str, dtype: mx.Dtype | None = None) -> mx.array:
        """Take a floating weight array by name, cast to dtype if given."""
        return self.table.take(f"{self.prefix}{name}", self.shapes[name], dtype)

    def matrix(self, name: str, dtype: mx.Dtype | None = None) -> Matrix:
        """Take the weight `name`.weight as one matrix."""
        outputs, inputs = self.shapes[f"{name}.weight"]
        return self.table.take_matrix(f"{self.prefix}{name}", outputs, inputs, dtype)

    def matrices(self, name: str) -> Matrix:
        """Take the weight `name`.weight as a stack of matrices."""
        count, outputs, inputs = self.shapes[f"{name}.weight"]
        return self.table.take_matrices(f"{self.prefix}{name}", count, outputs, inputs)

    def per_head(self, name: str, heads: int, rows: Sequence[int]) -> list[Matrix]:
        """Take the weight `name`.weight, whose rows are grouped by head (take_per_head)."""
        inputs = self.shapes[f"{name}.weight"][-1]
        return self.table.take_per_head(f"{self.prefix}{name}", heads, rows, inputs)

    def joined(
        self, names: Sequence[str], order: Mapping[str, Sequence[int]] | None = None
    ) -> list[JoinedMatrix]:
        """Take weight matrices and biases stacked by rows; order: row orders by matrix name."""
        rows, shapes = order or {}, self.shapes
        return self.table.take_joined(
            [
                StoredMatrix(
                    f"{self.prefix}{name}",
                    shapes[f"{name}.weight"],
                    f"{name}.bias" in shapes,
                    rows.get(name),
                )
                for name in names
            ]
        )
