"""Named weights of a trunk or of MTP heads; building the model takes each exactly once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.choice import NO_KERNELS, Kernels
from metal_kernels.stock import computes_on_gpu
from metal_kernels.weight_formats.gguf_blocks import block_name_for
from mlx_engine.models.layer_specs import Shape, shapes_under
from mlx_engine.models.matrix import (
    Layout,
    Matrix,
    infer_packing,
    stack_rows,
    take_rows,
    unchanged_layout,
)
from mlx_engine.values.errors import (
    BadModelFile,
    tensor_misshapen,
    tensor_missing,
    tensor_not_floating,
)

_NAMES_IN_A_MESSAGE = 6


class RowTable(Protocol):
    """Protocol of an embedding table outside memory, of which single rows are read from disk."""

    def check_shape(self, rows: int, width: int) -> None:
        """Raise BadModelFile if the table has other numbers of rows or of elements in a row."""

    def gather_rows(self, row_numbers: Callable[[], NDArray[np.int64]], count: int) -> mx.array:
        """Read rows of the table by number -> [count, width], floating.

        row_numbers: returns the numbers of the rows; it may wait for the device.
        """


class WeightTable:
    """Named weight arrays of a model's trunk or MTP heads; each must be taken exactly once.

    origin: file or folder the arrays come from, for messages. layout: rearranges the matrices that
    are handed out. kernels: kernels that layers may use. compute_dtype: used where stored
    weights have no float dtype; None for bfloat16 on a GPU, else float32. row_tables: embedding
    tables that stay on disk. Taking a name twice raises KeyError.
    """

    def __init__(
        self,
        arrays: Mapping[str, mx.array],
        origin: str,
        *,
        layout: Layout = unchanged_layout,
        kernels: Kernels = NO_KERNELS,
        compute_dtype: mx.Dtype | None = None,
        row_tables: Mapping[str, RowTable] | None = None,
        find_token_classes: Callable[[], list[int]] = list,
    ) -> None:
        self.kernels = kernels
        self._row_tables = row_tables or {}
        self._find_token_classes = find_token_classes
        self._left = dict(arrays)
        self._taken: set[str] = set()
        self.origin = origin
        self._lay_out = layout
        self.computed = compute_dtype or (mx.bfloat16 if computes_on_gpu() else mx.float32)
        self._handed_out: list[mx.array] = []

    def __contains__(self, name: str) -> bool:
        """Whether the weight array `name` exists and no layer has taken it yet."""
        return name in self._left

    @property
    def untaken_names(self) -> Collection[str]:
        """Names of the weight arrays that no layer has taken yet."""
        return self._left.keys()

    @property
    def taken_arrays(self) -> tuple[mx.array, ...]:
        """All weight arrays taken so far, in the layout they were handed out in; kept in memory."""
        return tuple(self._handed_out)

    def row_table(self, name: str, rows: int, width: int) -> RowTable:
        """Look up an embedding table on disk; BadModelFile if it is missing or misshapen."""
        table = self._row_tables.get(name)
        if table is None:
            raise tensor_missing(self.origin, name)
        table.check_shape(rows, width)
        return table

    def token_classes(self, count: int) -> NDArray[np.int64]:
        """Classes of the tokenizer's tokens, int64 [tokens]; BadModelFile if not so many."""
        classes = np.array(self._find_token_classes(), np.int64)
        found = int(classes.max(initial=-1)) + 1
        if found != count:
            raise BadModelFile(
                "{origin}: the tokenizer has {found} classes of tokens, and the model's n-gram "
                "tables were made for {count}. Get the tokenizer again from where the weights come "
                "from.",
                origin=self.origin,
                found=found,
                count=count,
            )
        return classes

    def take_all(self) -> dict[str, mx.array]:
        """Take all remaining weight arrays unchanged, for an mlx-lm class that sorts them."""
        taken, self._left = self._left, {}
        self._taken.update(taken)
        return taken

    def add_taken_arrays(self, arrays: Iterable[mx.array]) -> None:
        """Count arrays that an mlx-lm class made from `take_all` among the taken weight arrays."""
        self._handed_out.extend(arrays)

    def take_array(self, name: str, shape: Shape, dtype: mx.Dtype | None = None) -> mx.array:
        """Take a floating array, cast to dtype if given; BadModelFile if missing or misshapen."""
        array = self.take_stored_floats(name, shape)
        array = array if dtype is None else array.astype(dtype)
        self.add_taken_arrays([array])
        return array

    def take_integers(self, name: str, shape: Shape) -> mx.array:
        """Take an array of integers, as int32; BadModelFile if missing or misshapen."""
        array = self._remove(name)
        if array.shape != shape:
            raise tensor_misshapen(self.origin, name, array.shape, shape)
        array = array.astype(mx.int32)
        self.add_taken_arrays([array])
        return array

    def take_matrix(self, name: str, *shape: int, dtype: mx.Dtype | None = None) -> Matrix:
        """Take `name`.weight with its scales and biases, if any; BadModelFile when they do not fit.

        shape: [N, K], or [E, N, K] for a stack. Bits and group size follow from the arrays, so
        layers may differ. dtype: cast of a dense matrix.
        """
        matrix = self.take_stored(name, shape)
        if dtype is not None and matrix.mode == "dense":
            matrix = matrix._replace(weight=matrix.weight.astype(dtype))
        return self.lay_out_matrix(matrix)

    def lay_out_matrix(self, matrix: Matrix) -> Matrix:
        """Rearrange a matrix as this table lays matrices out; its arrays count as taken."""
        matrix = self._lay_out(matrix)
        self.add_taken_arrays(matrix.arrays)
        return matrix

    def take_stored(self, name: str, shape: Shape) -> Matrix:
        """Take a matrix or stack as it is stored; the caller hands out what is made of it."""
        weight = self._remove(f"{name}.weight")
        packed = [f"{name}.{part}" for part in ("scales", "biases") if f"{name}.{part}" in self]
        if f"{name}.scales" in packed:
            scales, *biases = map(self._remove, packed)
            packing = infer_packing(name, [weight, scales, *biases], shape, self.origin)
            return Matrix(weight, scales, biases[0] if biases else None, *packing, self.computed)
        if weight.dtype == mx.uint8 and weight.shape[:-1] == shape[:-1]:
            blocks = block_name_for(weight.shape[-1], shape[-1])
            if blocks is not None:
                return Matrix(weight, None, None, 0, 0, blocks, self.computed)
        self._check_array(f"{name}.weight", weight, shape)
        return Matrix(weight, None, None, 0, weight.dtype.size * 8, "dense")

    def take_stored_floats(self, name: str, shape: Shape) -> mx.array:
        """Take a floating array as it is stored; the caller keeps alive what is made of it."""
        return self._check_array(name, self._remove(name), shape)

    def format_key(self, name: str) -> tuple[object, ...]:
        """Key that is equal for matrices whose rows can be stacked: sizes and types of arrays."""
        arrays = (self._left.get(f"{name}.{part}") for part in ("weight", "scales", "biases"))
        return tuple(None if array is None else (array.shape[1:], array.dtype) for array in arrays)

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

    def _check_array(self, name: str, array: mx.array, shape: Shape) -> mx.array:
        if array.shape != shape:
            raise tensor_misshapen(self.origin, name, array.shape, shape)
        if not mx.issubdtype(array.dtype, mx.floating):
            raise tensor_not_floating(self.origin, name, str(array.dtype))
        return array


class JoinedMatrix(NamedTuple):
    """Weight matrices stacked by rows into one, and their concatenated biases."""

    matrix: Matrix
    bias: mx.array | None


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
        return Part(self.table, f"{self.prefix}{name}.", shapes_under(self.shapes, f"{name}."))

    def vector(self, name: str, dtype: mx.Dtype | None = None) -> mx.array:
        """Take a floating weight array by name, cast to dtype if given."""
        return self.table.take_array(f"{self.prefix}{name}", self.shapes[name], dtype)

    def integers(self, name: str) -> mx.array:
        """Take an array of integers by name, as int32."""
        return self.table.take_integers(f"{self.prefix}{name}", self.shapes[name])

    def matrix(self, name: str, dtype: mx.Dtype | None = None) -> Matrix:
        """Take the weight `name`.weight as a matrix or, if its shape has three axes, as a stack."""
        shape = self.shapes[f"{name}.weight"]
        return self.table.take_matrix(f"{self.prefix}{name}", *shape, dtype=dtype)

    def take_per_head(self, name: str, heads: int, rows: Sequence[int]) -> list[Matrix]:
        """Take the weight `name`.weight, whose rows are grouped by head, as stacks over heads.

        rows: row counts of the parts of a head. Returns matrices [heads, rows of the part, K].
        """
        whole = self.table.take_stored(f"{self.prefix}{name}", self.shapes[f"{name}.weight"])
        made, start = [], 0
        for count in rows:
            part = slice(start, start + count)
            made.append(self.table.lay_out_matrix(_rows_of_heads(whole, heads, part)))
            start += count
        return made

    def take_stacked_matrices(
        self, names: Sequence[str], row_order: Mapping[str, Sequence[int]] | None = None
    ) -> list[JoinedMatrix]:
        """Take matrices and biases, neighbours with one format stacked in row_order."""
        runs = groupby(names, lambda name: (f"{name}.bias" in self, self._format_key(name)))
        return [self._take_stacked_matrix(list(run), row_order or {}) for _, run in runs]

    def _format_key(self, name: str) -> tuple[object, ...]:
        return self.table.format_key(f"{self.prefix}{name}")

    def _take_stacked_matrix(
        self, names: Sequence[str], row_order: Mapping[str, Sequence[int]]
    ) -> JoinedMatrix:
        matrices, biases = [], []
        for name in names:
            shape, stored = self.shapes[f"{name}.weight"], f"{self.prefix}{name}"
            rows = mx.array(list(row_order[name])) if name in row_order else None
            matrix = self.table.take_stored(stored, shape)
            matrices.append(matrix if rows is None else take_rows(matrix, rows))
            if f"{name}.bias" in self:
                bias = self.table.take_stored_floats(f"{stored}.bias", shape[:-1])
                bias = bias.astype(matrix.dtype)
                biases.append(bias if rows is None else bias[rows])
        joined = mx.concatenate(biases, axis=-1) if biases else None
        self.table.add_taken_arrays([] if joined is None else [joined])
        return JoinedMatrix(self.table.lay_out_matrix(stack_rows(matrices)), joined)


def _rows_of_heads(matrix: Matrix, heads: int, rows: slice) -> Matrix:
    """Take the same rows of each head of a matrix grouped by head -> [heads, rows, K]."""

    def take_head_rows(array: mx.array) -> mx.array:
        split = array.reshape(heads, -1, array.shape[-1])
        return split if rows == slice(0, split.shape[1]) else mx.contiguous(split[:, rows])

    return matrix.map_arrays(take_head_rows)
