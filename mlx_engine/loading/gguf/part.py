"""Headers of the arrays that a GGUF tensor becomes: storage form, row order, value changes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mlx_engine.loading.gguf.file import Half
from mlx_engine.loading.gguf.header import BlockType, GgufTensor
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.models.tensor_recipes import RowChunk
from mlx_engine.values.errors import BadModelFile, Reason, UnsupportedModel
from mlx_engine.values.words import Words, size_words

Storage = Literal["dense", "affine", "mxfp4", "nvfp4", "blocks", "unpacked"]


class BlockPlan(NamedTuple):
    """Form in which a GGUF tensor is kept in memory: packed, in the file's blocks, or as floats.

    storage: "blocks" for the file's bytes, read by Metal kernels; "unpacked" for dense values of
    quantised blocks; else a form of MLX. bits: of a code, or of a dense element. group_size: of
    MLX's quantised forms, else 0.
    """

    storage: Storage
    bits: int = 0
    group_size: int = 0


# MLX packs affine weights in groups of 32, 64 or 128, with codes of 2 to 6 or 8 bits. Types with a
# scale for 32 values keep their codes; codebooks and lattices of whole numbers take the bits their
# range needs, as do products of Q3_K and IQ1_M with the scales of 16 values, which leave one scale
# for 256. MLX has no packed form for the other types.
UNPACKED = BlockPlan("unpacked", 16)
"""Plan of types without a quantised form in MLX that are not kept in blocks."""

KEPT = BlockPlan("blocks")
"""Plan of types that our kernels read in the file's blocks."""

KEPT_SCALES = {"Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82)} | dict.fromkeys(
    ("IQ4_NL", "IQ4_XS", "IQ2_XXS", "IQ2_XS", "IQ2_S"), (0,)
)
"""Types kept in blocks -> byte offsets of float16 scales in a block, which must be finite."""

PLANS = {
    **dict.fromkeys(("F64", "F32", "I32"), BlockPlan("dense", 32)),
    **dict.fromkeys(("F16", "BF16"), BlockPlan("dense", 16)),
    **dict.fromkeys(("TQ1_0", "TQ2_0", "Q1_0"), BlockPlan("affine", 2, 128)),
    "Q2_0": BlockPlan("affine", 2, 64),
    "IQ1_S": BlockPlan("affine", 2, 32),
    **dict.fromkeys(("Q4_0", "Q4_1", "Q4_K", "IQ3_S"), BlockPlan("affine", 4, 32)),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q5_K"), BlockPlan("affine", 5, 32)),
    "IQ3_XXS": BlockPlan("affine", 6, 32),
    **dict.fromkeys(("Q8_0", "IQ4_NL", "IQ4_XS", "IQ2_XXS"), BlockPlan("affine", 8, 32)),
    **dict.fromkeys(("Q3_K", "Q8_K", "IQ1_M"), BlockPlan("affine", 8, 128)),
    "MXFP4": BlockPlan("mxfp4", 4, 32),
    "NVFP4": BlockPlan("nvfp4", 4, 16),
    **dict.fromkeys(("Q2_K", "Q6_K", "IQ2_XS", "IQ2_S"), UNPACKED),
}


def block_plan(kind: BlockType, tensor: str, file: Path) -> BlockPlan:
    """Choose a GGUF element type's form in memory. Raises UnsupportedModel for unknown types."""
    plan = PLANS.get(kind.name)
    if plan is None:
        raise UnsupportedModel(
            "{file}: {tensor} is stored as {name}, which this version does not run. Take "
            "another quantisation of the model.",
            file=file,
            tensor=tensor,
            name=kind.name,
        )
    return plan


Change = Literal[
    "none", "log", "log of negated", "subtract one", "add last axis", "add first axis", "flatten"
]


@dataclass(frozen=True, slots=True)
class HfTensor:
    """Hugging Face name of a GGUF tensor or some of its rows, and how to restore order and values.

    rows: row i of the published tensor is row rows[i] of the file's. file_rows: number of rows in
    the file, None for len(rows). run: the rows to take of each matrix of a stack. matrix: the
    matrix to take of a stack. change: undoes llama.cpp's change of values.
    """

    name: str
    rows: tuple[int, ...] | None = None
    file_rows: int | None = None
    run: RowChunk | None = None
    matrix: int | None = None
    change: Change = "none"


@lru_cache(maxsize=8)
def swapped_rows(outer_count: int, first: int, second: int, run: int = 1) -> tuple[int, ...]:
    """Numbers of stored rows [outer, first, second, run], with first and second exchanged."""
    rows = np.arange(outer_count * first * second * run).reshape(outer_count, first, second, run)
    return tuple(rows.swapaxes(1, 2).ravel().tolist())


@dataclass(frozen=True, slots=True)
class GgufPart(TensorInfo):
    """Header of an array made from a GGUF tensor; dtype, shape and nbytes as with Metal.

    factor: a tensor of the file that all values are multiplied by. half: dtype of scales and 16-bit
    floats with Metal.
    """

    stored: GgufTensor
    place: HfTensor
    plan: BlockPlan
    factor: GgufTensor | None
    half: Half

    @property
    def unpacked_shape(self) -> tuple[int, ...]:
        """Shape of the weight after unpacking, with Hugging Face's axes."""
        shape, place = self.stored.shape, self.place
        if place.matrix is not None:
            return shape[1:]
        if place.rows is not None:
            shape = (len(place.rows), *shape[1:])
        if place.run is not None:
            shape = (*shape[:-2], shape[-2] // place.run.of, shape[-1])
        if place.change == "add last axis":  # whatever ones are among the others
            return (prod(shape[:-1]), shape[-1], 1)
        if place.change in ("flatten", "log", "log of negated"):
            return (prod(shape),)
        return (1, *shape) if place.change == "add first axis" else shape

    @property
    def file_nbytes(self) -> int:
        """Bytes that the rows taken from the GGUF tensor have in the file."""
        return self.stored.nbytes * prod(self.unpacked_shape) // prod(self.stored.shape)

    @property
    def is_weight_itself(self) -> bool:
        """Whether the array is a weight, and not the scales or biases of a quantised one."""
        return not self.name.endswith((".scales", ".biases"))

    def select_rows(self, rows: RowChunk | Sequence[int]) -> "GgufPart | None":
        """Return the header of some rows of a matrix, or of a run in each matrix of a stack.

        None where the rows can be selected only after reading the values.
        """
        place, count = self.place, self.shape[-2]
        if len(self.shape) == 2:
            order = place.rows or range(count)
            first = rows.number * (count // rows.of) if isinstance(rows, RowChunk) else 0
            chosen = range(first, first + count // rows.of) if isinstance(rows, RowChunk) else rows
            stored_rows, total = tuple(order[row] for row in chosen), self.stored.shape[0]
            place, kept = replace(place, rows=stored_rows, file_rows=total), len(stored_rows)
        elif isinstance(rows, RowChunk) and place.run is None:
            place, kept = replace(place, run=rows), count // rows.of
        else:
            return None
        shape = (*self.shape[:-2], kept, self.shape[-1])
        return replace(self, place=place, shape=shape, nbytes=self.nbytes // count * kept)


KernelReads = Callable[[str, tuple[int, ...]], bool]
"""Block type and shape of a matrix or stack -> whether our kernels multiply by it."""

_BY_HEAD = (
    *("kv_b_proj.weight", "embed_q.weight", "unembed_out.weight"),
    *("wo_a.weight", "o_a_proj.weight"),
)
"""Matrices of attention that are used by heads or groups of heads, and not by kernels."""


def arrays_of_tensor(
    stored: GgufTensor, place: HfTensor, factor: GgufTensor | None, half: Half
) -> Iterator[GgufPart]:
    """Yield headers of the MLX arrays that a GGUF tensor becomes: weight, scales, biases.

    Raises UnsupportedModel, BadModelFile.
    """
    plan, inputs = block_plan(stored.type, stored.name, stored.file), stored.shape[-1]
    if factor is not None and plan.storage in ("mxfp4", "nvfp4"):
        plan = UNPACKED  # the product does not fit their 8-bit scales
    if plan.storage != "dense" and len(stored.shape) not in (2, 3):
        raise UnsupportedModel(
            "{file}: {name} {shape} is stored as {type_name}, "
            "though it is no matrix. Get the file again.",
            file=stored.file,
            name=stored.name,
            shape=list(stored.shape),
            type_name=stored.type.name,
        )
    _check_rows(stored, place)
    whole = GgufPart(place.name, "", (), 0, stored.file, stored, place, plan, factor, half)
    *lead, last = whole.unpacked_shape

    def tensor_header(name: str, dtype: str, row: int) -> GgufPart:
        shape = (*lead, row)
        nbytes = prod(shape) * BYTES_OF[dtype]
        return replace(whole, name=name, dtype=dtype, shape=shape, nbytes=nbytes)

    if plan.storage in ("dense", "unpacked"):
        wide = "I32" if stored.type.name == "I32" else "F32"
        yield tensor_header(place.name, half if plan.bits == 16 else wide, last)
        return
    base, affine = place.name.removesuffix(".weight"), plan.storage == "affine"
    yield tensor_header(place.name, "U32", inputs * plan.bits // 32)
    yield tensor_header(f"{base}.scales", half if affine else "U8", inputs // plan.group_size)
    if affine:
        yield tensor_header(f"{base}.biases", half, inputs // plan.group_size)


def _check_rows(stored: GgufTensor, place: HfTensor) -> None:
    """Raise BadModelFile when a GGUF tensor does not have all rows that are taken of it."""
    rows = stored.shape[0] if place.rows is None else place.file_rows or len(place.rows)
    if stored.shape[0] != rows:
        raise BadModelFile(
            "{file}: {name} has the shape {shape} where the metadata "
            "ask for {rows} rows. Get the file again.",
            file=stored.file,
            name=stored.name,
            shape=list(stored.shape),
            rows=rows,
        )
    if place.run is not None and (len(stored.shape) != 3 or stored.shape[-2] % place.run.of):
        raise BadModelFile(
            "{file}: the rows of {name} {shape} do not divide by {of}. Get the file again.",
            file=stored.file,
            name=stored.name,
            shape=list(stored.shape),
            of=place.run.of,
        )


def kept_in_blocks(
    tensors: Mapping[str, TensorInfo], kernel_reads: KernelReads
) -> dict[str, TensorInfo]:
    """Replace GGUF matrices that a kernel can read by headers that keep the file's blocks."""
    kept = {
        name: _keep_gguf_blocks(info)
        for name, info in tensors.items()
        if isinstance(info, GgufPart) and _can_keep_gguf_blocks(info, kernel_reads)
    }
    dropped = {
        f"{name.removesuffix('.weight')}.{part}" for name in kept for part in ("scales", "biases")
    }
    return {name: kept.get(name, info) for name, info in tensors.items() if name not in dropped}


def _can_keep_gguf_blocks(part: GgufPart, kernel_reads: KernelReads) -> bool:
    place, shape, kind = part.place, part.unpacked_shape, part.stored.type.name
    moved = place.change != "none" or part.factor is not None
    if moved or not part.is_weight_itself or kind not in KEPT_SCALES:
        return False
    return not part.name.endswith(_BY_HEAD) and kernel_reads(kind, shape)


def _keep_gguf_blocks(part: GgufPart) -> GgufPart:
    kind, (*lead, inputs) = part.stored.type, part.unpacked_shape
    shape = (*lead, inputs // kind.elements * kind.nbytes)
    return replace(part, dtype="U8", shape=shape, nbytes=prod(shape), plan=KEPT)


def unpacking_reasons(tensors: Iterable[TensorInfo]) -> tuple[Reason, ...]:
    """Tell the user which GGUF element types are unpacked, since nothing reads them quantised."""
    by_type: dict[str, list[GgufPart]] = {}
    for part in tensors:
        if isinstance(part, GgufPart) and part.plan.storage == "unpacked":
            by_type.setdefault(part.stored.type.name, []).append(part)
    return tuple(_unpacking_reason(name, parts) for name, parts in by_type.items())


def _unpacking_reason(name: str, parts: list[GgufPart]) -> Reason:
    stored, values = (
        size_words(sum(sizes))
        for sizes in ([p.file_nbytes for p in parts], [prod(p.shape) * 2 for p in parts])
    )
    words = Words(
        "{stored} of the file ({name}) has to be unpacked and will use at least {values} of "
        "memory.",
        name=name,
        stored=stored,
        values=values,
    )
    return Reason(f"unpacked-{name.lower().replace('_', '-')}", words)
