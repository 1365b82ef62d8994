"""A tensor of a GGUF file as one of the arrays it becomes, its rows and columns in our order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from mlx_engine.loading.gguf.header import GgufTensor
from mlx_engine.loading.gguf.types import KEPT, KEPT_SCALES, ROUNDED, BlockPlan, plan_of
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.models.stored_forms import Run
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

Change = Literal["none", "log of minus", "less one", "a last axis", "a first axis"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a tensor belongs, by the name Hugging Face files give it, and what was done to it.

    rows: our row i is the file's row rows[i]; file_rows: how many it has, None for as many as ours.
    run: of a stack of matrices, the rows of each that are ours. column_heads: like rows, for equal
    runs of columns. change: what makes the file's values ours.
    """

    name: str
    rows: tuple[int, ...] | None = None
    file_rows: int | None = None
    run: Run | None = None
    column_heads: tuple[int, ...] | None = None
    change: Change = "none"


@dataclass(frozen=True, slots=True)
class GgufPart(TensorInfo):
    """dtype, shape and nbytes are those of the array made of it, with the scales Metal gets.

    stored: what is in the file. factor: a number in the file all values are multiplied by.
    """

    stored: GgufTensor
    place: Placement
    plan: BlockPlan
    factor: GgufTensor | None

    @property
    def unpacked_shape(self) -> tuple[int, ...]:
        """Of the weight as numbers."""
        shape, place = self.stored.shape, self.place
        if place.rows is not None:
            shape = (len(place.rows), *shape[1:])
        if place.run is not None:
            shape = (*shape[:-2], shape[-2] // place.run.of, shape[-1])
        if place.change == "a last axis":
            return (*shape, 1)
        return (1, *shape) if place.change == "a first axis" else shape

    @property
    def file_nbytes(self) -> int:
        """Its share of what is stored."""
        return self.stored.nbytes * prod(self.unpacked_shape) // prod(self.stored.shape)

    @property
    def is_weight(self) -> bool:
        """False for the scales and biases that come with a weight."""
        return not self.name.endswith((".scales", ".biases"))

    def of_rows(self, rows: Run | Sequence[int]) -> "GgufPart | None":
        """Some rows (the last axis but one) of a matrix, in another order; of a stack only runs.

        None where that cannot be had without reading it.
        """
        place, count = self.place, self.shape[-2]
        if len(self.shape) == 2:
            order = place.rows or range(count)
            first = rows.number * (count // rows.of) if isinstance(rows, Run) else 0
            chosen = range(first, first + count // rows.of) if isinstance(rows, Run) else rows
            mine, total = tuple(order[row] for row in chosen), self.stored.shape[0]
            place, kept = replace(place, rows=mine, file_rows=total), len(mine)
        elif isinstance(rows, Run) and place.run is None:
            place, kept = replace(place, run=rows), count // rows.of
        else:
            return None
        shape = (*self.shape[:-2], kept, self.shape[-1])
        return replace(self, place=place, shape=shape, nbytes=self.nbytes // count * kept)


IsRead = Callable[[str, int, int], bool]
"""Block type, outputs, inputs -> whether a kernel of ours multiplies by such a matrix."""


def parts_of(stored: GgufTensor, place: Placement, factor: GgufTensor | None) -> Iterator[GgufPart]:
    """The arrays one tensor becomes; UnsupportedModel when it has no form in MLX."""
    plan, inputs = plan_of(stored.type, stored.name, stored.file), stored.shape[-1]
    if factor is not None and plan.becomes in ("mxfp4", "nvfp4"):
        plan = ROUNDED
    if plan.becomes != "dense" and len(stored.shape) not in (2, 3):
        raise UnsupportedModel(
            f"{stored.file}: {stored.name} {list(stored.shape)} is stored as {stored.type.name}, "
            "though it is no matrix. Get the file again."
        )
    heads = place.column_heads
    if heads is not None and plan.group_size > 32 and inputs % (plan.group_size * len(heads)):
        plan = plan._replace(group_size=32)  # heads do not hold larger groups whole
    _check_order(stored, place, plan)
    whole = GgufPart(place.name, "", (), 0, stored.file, stored, place, plan, factor)
    *lead, last = whole.unpacked_shape

    def part(name: str, dtype: str, row: int) -> GgufPart:
        shape = (*lead, row)
        nbytes = prod(shape) * BYTES_OF[dtype]
        return replace(whole, name=name, dtype=dtype, shape=shape, nbytes=nbytes)

    if plan.becomes == "dense":
        yield part(place.name, "F32" if stored.type.name == "F64" else stored.type.name, last)
        return
    base, affine = place.name.removesuffix(".weight"), plan.becomes == "affine"
    yield part(place.name, "U32", inputs * plan.bits // 32)
    yield part(f"{base}.scales", "F16" if affine else "U8", inputs // plan.group_size)
    if affine:
        yield part(f"{base}.biases", "F16", inputs // plan.group_size)


def _check_order(stored: GgufTensor, place: Placement, plan: BlockPlan) -> None:
    """UnsupportedModel when rows or columns cannot be put in our order without unpacking."""
    inputs, heads, fits = stored.shape[-1], place.column_heads, True
    rows = stored.shape[0] if place.rows is None else place.file_rows or len(place.rows)
    if stored.shape[0] != rows:
        raise BadModelFile(
            f"{stored.file}: {stored.name} has the shape {list(stored.shape)} where the metadata "
            f"ask for {rows} rows. Get the file again."
        )
    if place.run is not None:
        fits = len(stored.shape) == 3 and stored.shape[-2] % place.run.of == 0
    if heads is not None:
        width, rest = divmod(inputs, len(heads))
        fits = fits and not rest and (plan.group_size == 0 or width % 32 == 0)
    if not fits:
        raise UnsupportedModel(
            f"{stored.file}: {stored.name} {list(stored.shape)} has heads whose order cannot be "
            "changed while it is packed. Take the model in 16 bits, or its folder."
        )


def kept_in_blocks(tensors: Mapping[str, TensorInfo], is_read: IsRead) -> dict[str, TensorInfo]:
    """The same, with matrices of a GGUF kept in the blocks of the file where kernels read them.

    Stacks of experts and matrices whose columns change places are made others of as ever.
    """
    kept = {
        name: _in_blocks(info)
        for name, info in tensors.items()
        if isinstance(info, GgufPart) and _can_stay(info, is_read)
    }
    gone = {
        f"{name.removesuffix('.weight')}.{part}" for name in kept for part in ("scales", "biases")
    }
    return {name: kept.get(name, info) for name, info in tensors.items() if name not in gone}


def _can_stay(part: GgufPart, is_read: IsRead) -> bool:
    place, shape, kind = part.place, part.unpacked_shape, part.stored.type.name
    moved = place.column_heads is not None or place.change != "none"
    if moved or part.factor is not None or not part.is_weight or kind not in KEPT_SCALES:
        return False
    return len(shape) == 2 and is_read(kind, shape[0], shape[1])


def _in_blocks(part: GgufPart) -> GgufPart:
    kind, (outputs, inputs) = part.stored.type, part.unpacked_shape
    shape = (outputs, inputs // kind.elements * kind.nbytes)
    return replace(part, dtype="U8", shape=shape, nbytes=prod(shape), plan=KEPT)
