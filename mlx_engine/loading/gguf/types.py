"""The element types of GGUF files, and what each becomes in MLX, bit for bit or rounded.

Numbers, names and sizes of types are the gguf package's; quantised types come in blocks along a
row. MLX packs affine weights in groups of 32, 64 or 128, with a code of 2 to 6 or 8 bits. Types
with an affine rule for each run of 32 keep their codes. Codebooks and lattices of whole numbers
become as many bits as their range takes; so do the products of Q3_K and IQ1_M with the scales of 16
elements, which leave one scale for a block of 256. The rest, where scales of 16 elements have no
common step that fits eight bits, is computed and rounded to 8 bits anew.
"""

from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from mlx_engine.values.errors import UnsupportedModel


class BlockType(NamedTuple):
    """`nbytes` bytes hold `elements` neighbouring elements of a row."""

    name: str
    elements: int
    nbytes: int


_GIVEN_UP = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"} | {
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""By llama.cpp; files with them have to be made anew."""


@cache
def block_types() -> dict[int, BlockType]:
    """By the number a file has for it."""
    from gguf import GGML_QUANT_SIZES

    return {kind.value: BlockType(kind.name, *size) for kind, size in GGML_QUANT_SIZES.items()}


def block_type(number: int, tensor: str, file: Path) -> BlockType:
    """The type of this number; UnsupportedModel names file and tensor."""
    found = block_types().get(number)
    if found is not None:
        return found
    old = _GIVEN_UP.get(number)
    what = (
        f"the abandoned type {old}" if old else f"type {number}, which this version does not know"
    )
    raise UnsupportedModel(
        f"{file}: {tensor} is stored as {what}. Take another quantisation of the model."
    )


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
