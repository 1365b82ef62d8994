"""A table of GGUF types: GB of blocks repacked in a second, against memcpy and gguf.dequantize.

PYTHONPATH=. python tests/speed/gguf_repack_figures.py [type ...]

Rounds go through all types and all ways to measure one after another; medians. Float32 scales, as
without Metal, and float16 ones, as with it. The package's dequantize gets a sixteenth of the rows.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from mlx_engine.loading.gguf_blocks import repack
from mlx_engine.loading.gguf_plan import PLANS
from mlx_engine.loading.gguf_types import BLOCK_TYPES, BlockType

KINDS = {kind.name: kind for kind in BLOCK_TYPES.values()}
PACKED = [n for n, plan in PLANS.items() if plan.becomes != "dense" and n != "Q8_K"]
MEGABYTES, ROUNDS = 12, 5
WAYS = ("memcpy", "dequantize", "float32", "float16")


def blocks_of(kind: BlockType) -> np.ndarray:
    """Rows of 4096 elements; bytes below 60 make no scale that is not a number."""
    row = 4096 // kind.elements * kind.nbytes
    rows = MEGABYTES * 10**6 // row
    return np.random.default_rng(0).integers(0, 60, (rows, row), dtype=np.uint8)


def rate(work: Callable[[], object], nbytes: int) -> float:
    """GB a second of one run."""
    start = time.perf_counter()
    work()
    return nbytes / 1e9 / (time.perf_counter() - start)


def measure(kind: BlockType) -> dict[str, float]:
    """One round."""
    blocks = blocks_of(kind)
    few, target = blocks[: max(1, len(blocks) // 16)], np.empty_like(blocks)
    target[:] = 1
    theirs = partial(dequantize, few, GGMLQuantizationType[kind.name])
    ours = [
        partial(repack, blocks, kind, PLANS[kind.name], kept) for kept in (np.float32, np.float16)
    ]
    return {
        "memcpy": rate(lambda: np.copyto(target, blocks), blocks.nbytes),
        "dequantize": rate(theirs, few.nbytes),
        "float32": rate(ours[0], blocks.nbytes),
        "float16": rate(ours[1], blocks.nbytes),
    }


def main(names: list[str]) -> None:
    """Prints a line for each type."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            seen[name].append(measure(KINDS[name]))
    print(f"{'type':8}" + "".join(f"{way:>12}" for way in WAYS) + "  times dequantize")
    for name, rounds in seen.items():
        middle = {way: statistics.median(one[way] for one in rounds) for way in WAYS}
        times = [middle[way] / middle["dequantize"] for way in WAYS[2:]]
        print(
            f"{name:8}"
            + "".join(f"{middle[way]:12.3f}" for way in WAYS)
            + f"{times[0]:10.1f}{times[1]:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:] or PACKED)
