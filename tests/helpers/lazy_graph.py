"""What MLX would be asked for, without asking: the operations of a lazy graph, as on a Mac.

`mx.export_function` tells every primitive of a graph with shapes and element types and computes
nothing; it refuses to evaluate while it traces. MLX merges operations that are alike there, so a
cast that is made twice of one array counts once. What is one launch on a GPU and many operations
written out on a CPU (our kernels, MLX's fused operations) stands in the graph as one node.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from math import prod
from typing import Any, NamedTuple

import mlx.core as mx
import pytest

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.kernel import Launch
from metal_kernels.stock import (
    AttentionOptions,
    ElementwiseFunction,
    Position,
    RopeParams,
    StockOperations,
    has_fused_attention,
)
from metal_kernels.stock_on_cpu import CpuStockOperations
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_values

_FREE = {
    *("AsStrided", "Broadcast", "Copy", "ExpandDims", "Flatten", "Full", "Reshape", "Slice"),
    *("Split", "Squeeze", "StopGradient", "Transpose", "Unflatten", "View"),
}
"""Views, and zeros that stand for what a stand-in makes."""

_SAME_ORDER = {"ExpandDims", "Flatten", "Reshape", "Squeeze", "Unflatten"}
"""Views of all elements in their order."""

_RUNS = {"Slice", "Split"}
"""Views whose elements lie one after the other where no row comes before the axis they cut."""

_IN_PLACE = {"SliceUpdate", "DynamicSliceUpdate"}
"""Written to a buffer that nobody else holds."""

CAST, CONTIGUOUS, COPIES = "AsType", "contiguous", ("contiguous", "copy", "Concatenate")
SORTS = ("ArgSort", "ArgPartition", "Sort", "Partition")
UNPACK = "dequantise"

Told = Sequence[tuple[str, tuple[int, ...], mx.Dtype]]
"""Arrays of a graph by name."""

_MATRIX = 2**18
"""Elements from which on unpacking is worth a word."""


@contextmanager
def nothing_begun() -> Iterator[None]:
    """A CPU begins with nothing while a pass is written down, so that its graph stays whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpuStockOperations, "start_evaluation", lambda stock, x, **_: None)
        yield


def primitives(*outputs: mx.array) -> Counter[str]:
    """Operations between what is already computed and `outputs`, by MLX's names, views included.

    On the CPU MLX writes its fast operations (norms, rope, delta rule) out as simple ones.
    """
    graph = StringIO()
    mx.export_to_dot(graph, *outputs)
    return Counter(re.findall(r'label ="([^"]+)", shape=rectangle', graph.getvalue()))


class Array(NamedTuple):
    """Shape and element type."""

    shape: tuple[int, ...]
    dtype: mx.Dtype

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return prod(self.shape) * self.dtype.size

    @property
    def is_matrix(self) -> bool:
        """Whether it is no rows of an embedding [1, T, H], and not small."""
        return self.shape[0] != 1 and prod(self.shape) >= _MATRIX

    @property
    def words(self) -> str:
        """For a table: "[4, 128] float32"."""
        return f"{list(self.shape)} {str(self.dtype).removeprefix('mlx.core.')}"


class Node(NamedTuple):
    """One operation: MLX's name of a primitive, a kernel's, or of a fused operation."""

    label: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Operations(Counter[Node]):
    """Nodes that cost a launch, and how often each occurs."""

    def labelled(self, *labels: str) -> int:
        """Those of these names."""
        return sum(count for node, count in self.items() if node.label in labels)

    @property
    def kinds(self) -> dict[str, int]:
        """By name, the most frequent first."""
        counts: Counter[str] = Counter()
        for node, count in self.items():
            counts[node.label] += count
        return dict(counts.most_common())

    @property
    def largest(self) -> tuple[Node, Array]:
        """The largest array that is made anew, and what makes it."""
        made = ((node, out) for node in self for out in node.outputs if node.label not in _IN_PLACE)
        return max(made, key=lambda pair: pair[1].nbytes)

    def less(self, before: "Operations") -> "Operations":
        """What is new since `before`."""
        return Operations(self - before)


class StandIn(StockOperations):
    """A launcher, and MLX's fused operations, whose calls are one node each.

    unpacked: matrices unpacked so far, in the order of calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unpacked: list[Array] = []
        self._labels: list[str] = []

    def start_evaluation(self, x: mx.array, *, has_idle_gpu: bool = False) -> None:
        """Begin nothing, so that the graph stays whole."""

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> tuple[mx.array, ...]:
        """A kernel's launch as one node."""
        made = [Array(*one) for one in zip(launch.shapes, launch.dtypes, strict=True)]
        return self._node(launch.pipeline.source.name, made, inputs)

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        """As MLX does: both in the wider type."""
        del eps
        if weight is None:
            return self._like("rms_norm", x, x)
        wide = mx.result_type(x, weight)
        return self._like("rms_norm", x.astype(wide), weight.astype(wide))

    def layer_norm(
        self, x: mx.array, weight: mx.array | None, bias: mx.array | None, eps: float
    ) -> mx.array:
        """The same."""
        del eps
        given = [array for array in (weight, bias) if array is not None]
        wide = mx.result_type(x, *given) if given else x.dtype
        return self._like("layer_norm", *(array.astype(wide) for array in (x, *given)))

    def rope(
        self, x: mx.array, turning: RopeParams, position: Position, periods: mx.array | None
    ) -> mx.array:
        """One launch, and a copy first where only a part of a head is rotated."""
        whole = x if turning.width == x.shape[-1] else self._like("copy", x)
        read = [position, periods]
        return self._like("rope", whole, *(one for one in read if isinstance(one, mx.array)))

    def attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, how: AttentionOptions
    ) -> mx.array:
        """One launch where Metal has a kernel it judges fast, else written out as there."""
        if how.cap or not has_fused_attention(queries.shape, keys.shape, values.shape[-1]):
            return super().attention(queries, keys, values, how)
        extra = [array for array in how if isinstance(array, mx.array)]
        made = Array((*queries.shape[:-1], values.shape[-1]), queries.dtype)
        return self._node("attention", [made], [queries, keys, values, *extra])[0]

    def delta_rule(self, rows: DeltaRows, state: mx.array) -> tuple[mx.array, mx.array]:
        """One launch."""
        made = [Array(rows.values.shape, rows.queries.dtype), Array(state.shape, state.dtype)]
        outputs, after = self._node("delta_rule", made, [*rows, state])
        return outputs, after

    def make_contiguous(self, x: mx.array) -> mx.array:
        """A copy, unless it is of what another operation has just made."""
        return self._like(CONTIGUOUS, x)

    def dequantise(
        self, parts: tuple[mx.array, ...], group_size: int, bits: int, mode: str, dtype: mx.Dtype
    ) -> mx.array:
        """One launch."""
        del group_size
        *lead, width = parts[0].shape
        inputs = block_values(mode, width) if mode in BLOCK_FORMS else width * 32 // bits
        made = Array((*lead, inputs), dtype)
        self.unpacked.append(made)
        return self._node(UNPACK, [made], parts)[0]

    def compile_elementwise(self, formula: ElementwiseFunction) -> ElementwiseFunction:
        """One launch."""

        def run(*inputs: mx.array) -> mx.array:
            made = formula(*inputs)  # of which only shape and type are used
            return self._node("elementwise", [Array(made.shape, made.dtype)], inputs)[0]

        return run

    def _like(self, label: str, *inputs: mx.array) -> mx.array:
        return self._node(label, [Array(inputs[0].shape, inputs[0].dtype)], inputs)[0]

    def _node(
        self, label: str, outputs: Sequence[Array], inputs: Sequence[mx.array]
    ) -> tuple[mx.array, ...]:
        """The label travels as a number beside the inputs."""
        if label not in self._labels:
            self._labels.append(label)
        blank = [mx.zeros(made.shape, made.dtype) for made in outputs]
        number = mx.array(self._labels.index(label), dtype=mx.int64)
        return tuple(mx.depends(blank, [*inputs, number]))

    def label_of(self, number: int) -> str:
        """What `_node` gave this number."""
        return self._labels[number]


def operations_of(
    build: Callable[..., Sequence[mx.array]], inputs: Sequence[mx.array], stand_in: StandIn
) -> Operations:
    """Of everything between the inputs, which are never computed, and what `build` makes of them.

    ValueError where `build` evaluates something.
    """
    rows: list[dict[str, Any]] = []
    mx.export_function(rows.append, lambda *given: list(build(*given)), *inputs)
    constants = {name: made for row in rows for name, made in row.get("constants", ())}
    found, made_anew = Operations(), set[str]()
    for row in rows:
        label, taken = row.get("name"), row.get("inputs", ())
        if row["type"] != "primitive":
            continue
        made = [name for name, *_ in row["outputs"]]
        if label == "Depends":  # of zeros in the outputs' place, inputs, and the label's number
            label = stand_in.label_of(int(constants[taken[-1][0]].item()))
            taken = taken[len(made) : -1]
        is_new = bool(taken) and taken[0][0] in made_anew
        if label in _FREE:
            keeps = label in _SAME_ORDER or (label in _RUNS and _are_runs(taken, row["outputs"]))
            made_anew.update(made if keeps and is_new else ())
            continue
        if label != CONTIGUOUS or not is_new:
            found[Node(str(label), _arrays(taken), _arrays(row["outputs"]))] += 1
        made_anew.update(made)
    return found


def _are_runs(taken: Told, made: Told) -> bool:
    """Whether views cut only the first axis of those that are longer than one."""
    whole = [size for size in taken[0][1] if size != 1]
    return all([size for size in shape if size != 1][1:] == whole[1:] for _, shape, _ in made)


def _arrays(told: Told) -> tuple[Array, ...]:
    return tuple(Array(shape, dtype) for _, shape, dtype in told)
