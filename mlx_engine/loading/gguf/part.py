"""A tensor of a GGUF file as one of the arrays it becomes: by what plan, in what order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple

from mlx_engine.loading.gguf.header import BlockType, GgufTensor
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.models.stored_forms import Run
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

Becomes = Literal["dense", "affine", "mxfp4", "nvfp4", "blocks"]


class BlockPlan(NamedTuple):
    """exact: the same values, given float32 scales; else rounded to 255 steps a group of 32.

    bits: of a code, or of an element when dense. group_size: 0 when dense. blocks: the bytes of the
    file, for our kernels, with no bits or groups to tell.
    """

    becomes: Becomes
    bits: int
    group_size: int
    exact: bool

    @property
    def words(self) -> str:
        """In words for the user."""
        if self.becomes == "dense":
            return f"{self.bits}-bit floats"
        if self.becomes == "affine":
            kept = "" if self.exact else ", rounded"
            return f"{self.bits}-bit affine, groups of {self.group_size}{kept}"
        return f"{self.becomes}, groups of {self.group_size}"


# MLX packs affine weights in groups of 32, 64 or 128, with a code of 2 to 6 or 8 bits. Types with
# an affine rule for each run of 32 keep their codes. Codebooks and lattices of whole numbers become
# as many bits as their range takes; so do the products of Q3_K and IQ1_M with the scales of 16
# elements, which leave one scale for a block of 256. The rest, where scales of 16 elements have no
# common step that fits eight bits, is computed and rounded to 8 bits anew.
ROUNDED = BlockPlan("affine", 8, 32, exact=False)
"""For what has no exact form in MLX."""

KEPT = BlockPlan("blocks", 0, 0, exact=True)
"""For what our kernels read as it is in the file."""

KEPT_SCALES = {"Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82), "IQ4_NL": (0,), "IQ4_XS": (0,)}
"""Types kept so -> bytes of a block at which float16 numbers begin; all other content is finite."""

PLANS = {
    "F64": BlockPlan("dense", 32, 0, exact=False),
    "F32": BlockPlan("dense", 32, 0, exact=True),
    "F16": BlockPlan("dense", 16, 0, exact=True),
    "BF16": BlockPlan("dense", 16, 0, exact=True),
    **dict.fromkeys(("TQ1_0", "TQ2_0"), BlockPlan("affine", 2, 128, exact=True)),
    "IQ1_S": BlockPlan("affine", 2, 32, exact=True),
    **dict.fromkeys(("Q4_0", "Q4_1", "Q4_K", "IQ3_S"), BlockPlan("affine", 4, 32, exact=True)),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q5_K"), BlockPlan("affine", 5, 32, exact=True)),
    "IQ3_XXS": BlockPlan("affine", 6, 32, exact=True),
    **dict.fromkeys(
        ("Q8_0", "IQ4_NL", "IQ4_XS", "IQ2_XXS"), BlockPlan("affine", 8, 32, exact=True)
    ),
    **dict.fromkeys(("Q3_K", "IQ1_M"), BlockPlan("affine", 8, 128, exact=True)),
    "MXFP4": BlockPlan("mxfp4", 4, 32, exact=True),
    "NVFP4": BlockPlan("nvfp4", 4, 16, exact=True),
    **dict.fromkeys(("Q2_K", "Q6_K", "Q8_K", "IQ2_XS", "IQ2_S"), ROUNDED),
}


def plan_of(kind: BlockType, tensor: str, file: Path) -> BlockPlan:
    """What becomes of a tensor of this type; UnsupportedModel for types that hold no weights."""
    plan = PLANS.get(kind.name)
    if plan is None:
        raise UnsupportedModel(
            f"{file}: {tensor} is stored as {kind.name}, which this version does not run. Take "
            "another quantisation of the model."
        )
    return plan


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
