"""GB of GGUF blocks repacked in a second, against memcpy and the gguf package's dequantise.

PYTHONPATH=. python tests/speed/gguf_repack_figures.py [type ...]
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from mlx_engine.loading.gguf_blocks import repack
from mlx_engine.loading.gguf_plan import PLANS
from mlx_engine.loading.gguf_types import BLOCK_TYPES

KINDS = {kind.name: kind for kind in BLOCK_TYPES.values()}
MEGABYTES = 64


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(name: str) -> None:
    kind = KINDS[name]
    per_row = max(1, 4096 // kind.elements)
    rows = MEGABYTES * 10**6 // (per_row * kind.nbytes)
    draw = np.random.default_rng(0)
    blocks = draw.integers(0, 60, (rows, per_row * kind.nbytes), dtype=np.uint8)
    gigabytes = blocks.nbytes / 1e9
    target = np.empty_like(blocks)
    copy = gigabytes / best(lambda: np.copyto(target, blocks))
    few = blocks[: max(1, rows // 16)]
    theirs = few.nbytes / 1e9 / best(lambda: dequantize(few, GGMLQuantizationType[name]), 2)
    for dtype in (np.float32, np.float16):
        ours = gigabytes / best(partial(repack, blocks, kind, PLANS[name], dtype))
        print(
            f"{name:8} {np.dtype(dtype).name}: {ours:6.2f} GB/s, memcpy {copy:5.2f}, "
            f"gguf.dequantize {theirs:6.3f}, {ours / theirs:5.1f} times it"
        )


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ("Q4_K", "Q8_0", "Q6_K", "Q5_K", "IQ4_XS", "MXFP4", "Q3_K"):
        measure(chosen)
