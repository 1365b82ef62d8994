"""Where the blocks our kernels read keep their scales, and whether these are numbers."""

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.types import BlockType

SCALES = {"Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82), "IQ4_NL": (0,), "IQ4_XS": (0,)}
"""Type -> the bytes of a block at which float16 numbers begin; all other content is finite."""


def has_only_numbers(rows: NDArray[np.uint8], kind: BlockType) -> bool:
    """Whether all scales of these blocks [rows, bytes of a row] are finite."""
    blocks = rows.reshape(-1, kind.nbytes)
    return all(
        bool(np.isfinite(np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")).all())
        for at in SCALES[kind.name]
    )
