"""What each element type of GGUF becomes in MLX, and whether it stays the same bit for bit.

MLX packs affine weights in groups of 32 at least, with a code of 2 to 6 or 8 bits. Types with an
affine rule for each run of 32 keep their codes; IQ4's codebook of 16 integers fits eight bits
exactly. Types whose scales hold for 16 elements, and those of lattice codebooks, are computed and
rounded to 8 bits anew.
"""

from typing import Literal, NamedTuple

from mlx_engine.loading.gguf_types import BlockType
from mlx_engine.values.errors import UnsupportedModel

Becomes = Literal["dense", "affine", "mxfp4", "nvfp4"]


class BlockPlan(NamedTuple):
    """exact: the same values, given float32 scales; else within half a step of 8 bits a group.

    bits: of a code, or of an element when dense. group_size: 0 when dense.
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

PLANS = {
    "F64": BlockPlan("dense", 32, 0, exact=False),
    "F32": BlockPlan("dense", 32, 0, exact=True),
    "F16": BlockPlan("dense", 16, 0, exact=True),
    "BF16": BlockPlan("dense", 16, 0, exact=True),
    **dict.fromkeys(("Q4_0", "Q4_1", "Q4_K"), BlockPlan("affine", 4, 32, exact=True)),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q5_K"), BlockPlan("affine", 5, 32, exact=True)),
    **dict.fromkeys(("Q8_0", "IQ4_NL", "IQ4_XS"), BlockPlan("affine", 8, 32, exact=True)),
    "Q8_K": ROUNDED,
    "MXFP4": BlockPlan("mxfp4", 4, 32, exact=True),
    "NVFP4": BlockPlan("nvfp4", 4, 16, exact=True),
    **dict.fromkeys(("Q2_K", "Q3_K", "Q6_K"), ROUNDED),
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), ROUNDED),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0"), ROUNDED),
}


def plan_of(kind: BlockType, tensor: str, file: object) -> BlockPlan:
    """What becomes of a tensor of this type; UnsupportedModel for types that hold no weights."""
    plan = PLANS.get(kind.name)
    if plan is None:
        raise UnsupportedModel(
            f"{file}: {tensor} is stored as {kind.name}, which this version does not run. Take "
            "another quantisation of the model."
        )
    return plan
