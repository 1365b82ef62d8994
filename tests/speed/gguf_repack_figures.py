"""A Markdown table of GGUF types: what each becomes, how exactly, and how fast.

PYTHONPATH=. python tests/speed/gguf_repack_figures.py [--wall] [type ...]

GB of blocks in a second of CPU time (all threads together), or with --wall of time: memcpy,
`gguf.dequantize` and our repacking of the same tensor, by turns, medians; float32 scales, as
without Metal, then float16 ones, as with it. Errors with float32 scales against the package,
relative to the RMS and to the greatest of the values, on random blocks and on edge blocks (every
byte the same; scales of zero, tiny, large and negative).
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from mlx_engine.loading.gguf.repack import repack
from mlx_engine.loading.gguf.types import PLANS, BlockType, block_types

KINDS = {kind.name: kind for kind in block_types().values()}
PACKED = [n for n, plan in PLANS.items() if plan.becomes != "dense" and n != "Q8_K"]
FEWEST_MEGABYTES, MEGABYTES, ROUNDS = 4, 12, 5
WAYS = ("memcpy", "dequantize", "float32", "float16")
HALVES = dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)) | {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "MXFP4": (),
    "NVFP4": (),
    "IQ1_M": (),
}
"""Byte places of float16 numbers in a block, where they are not (0,)."""
Clock = Callable[[], float]


class Lost(NamedTuple):
    """Relative errors, of the RMS and of the greatest value."""

    rms: float
    most: float

    def words(self) -> str:
        """In a cell of the table."""
        return "lossless" if self.most == 0 else f"{self.rms:.2e} / {self.most:.2e}"


def random_blocks(kind: BlockType, nbytes: int, highest: int = 256) -> NDArray[np.uint8]:
    """Rows of 4096 elements; scales are normally distributed where they are float16 numbers."""
    draw = np.random.default_rng(0)
    per_row = 4096 // kind.elements
    rows = max(1, nbytes // (per_row * kind.nbytes))
    blocks = draw.integers(0, highest, (rows * per_row, kind.nbytes), dtype=np.uint8)
    for place in HALVES.get(kind.name, (0,)):
        scales = draw.normal(0, 1, (len(blocks), 1)).astype("<f2")
        blocks[:, place : place + 2] = scales.view(np.uint8)
    if kind.name == "MXFP4":
        blocks[:, 0] = draw.integers(100, 140, len(blocks))
    elif kind.name == "NVFP4":
        blocks[:, :4] &= 0x7F
    elif kind.name == "IQ1_M":
        blocks[:, 55] &= 0x3F  # the highest bits of the scale: below 2
    return blocks.reshape(rows, -1)


def edge_blocks(kind: BlockType) -> NDArray[np.uint8]:
    """One block a row."""
    rows = []
    for fill in (0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F):
        for half in (0.0, -0.0, 6e-8, -6e-8, 6.1e-5, 1.0, -1.0, 500.0, -500.0):
            block = np.full((1, kind.nbytes), fill, np.uint8)
            for place in HALVES.get(kind.name, (0,)):
                block[0, place : place + 2] = np.array([half], "<f2").view(np.uint8)
            if kind.name == "MXFP4":
                block[0, 0] = {0x00: 1, 0xFF: 253}.get(fill, fill)
            elif kind.name == "NVFP4":
                block[0, :4] &= 0x7F
            elif kind.name == "IQ1_M":
                fours = np.array(half, "<f2").view("<u2") >> np.arange(0, 16, 4, dtype="<u2") & 15
                block[:, 49::2] = block[:, 49::2] & 15 | (fours << 4).astype(np.uint8)
            rows.append(block)
    return np.concatenate(rows)


def lost(kind: BlockType, blocks: NDArray[np.uint8]) -> Lost:
    """What MLX makes of our form, against the package's formula."""
    plan = PLANS[kind.name]
    made = repack(blocks, kind, plan, np.float32)
    found = mx.dequantize(
        mx.array(made.weight),
        mx.array(made.scales),
        None if made.biases is None else mx.array(made.biases),
        group_size=plan.group_size,
        bits=plan.bits,
        mode=plan.becomes,
        dtype=mx.float32,
    )
    with np.errstate(all="ignore"):
        wanted = dequantize(blocks, GGMLQuantizationType[kind.name]).astype(np.float64)
    same = np.array(found) == wanted  # where both are infinite too
    apart = np.where(same, 0, np.array(found).astype(np.float64)) - np.where(same, 0, wanted)
    size = wanted[np.isfinite(wanted)]
    rms = float(np.sqrt(np.square(apart).mean() / np.square(size).mean()))
    return Lost(rms, float(np.abs(apart).max() / np.abs(size).max()))


def rate(work: Callable[[], object], nbytes: int, clock: Clock) -> float:
    """GB a second of one run; what takes no time that can be measured is run more often."""
    start, runs, took = clock(), 0, 0.0
    while took < 1e-3:
        work()
        runs, took = runs + 1, clock() - start
    return runs * nbytes / 1e9 / took


def measure(kind: BlockType, blocks: NDArray[np.uint8], clock: Clock) -> dict[str, float]:
    """One round."""
    target = np.ones_like(blocks)
    ours = {
        kept.__name__: partial(repack, blocks, kind, PLANS[kind.name], kept)
        for kept in (np.float32, np.float16)
    }
    work = {
        "memcpy": partial(np.copyto, target, blocks),
        "dequantize": partial(dequantize, blocks, GGMLQuantizationType[kind.name]),
    } | ours
    return {way: rate(work[way], blocks.nbytes, clock) for way in WAYS}


def row(kind: BlockType, clock: Clock) -> str:
    """A line of the table; lattice types get a smaller tensor, they are slow both ways."""
    slow = kind.name.startswith(("IQ1", "IQ2", "IQ3", "TQ"))
    blocks = random_blocks(kind, (FEWEST_MEGABYTES if slow else MEGABYTES) * 10**6, 60)
    rounds = [measure(kind, blocks, clock) for _ in range(ROUNDS)]
    middle = {way: statistics.median(one[way] for one in rounds) for way in WAYS}
    times = [f"{middle[way] / middle['dequantize']:.1f}x" for way in WAYS[2:]]
    errors = [lost(kind, random_blocks(kind, 3 * 10**5)), lost(kind, edge_blocks(kind))]
    cells = [
        kind.name,
        PLANS[kind.name].words,
        *(error.words() for error in errors),
        *(f"{middle[way]:.3g}" for way in WAYS),
        *times,
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    """Prints the table, a line at a time."""
    clock = time.perf_counter if "--wall" in arguments else time.process_time
    names = [name for name in arguments if name != "--wall"] or PACKED
    print("| type | becomes | random: RMS / max error | edges | memcpy GB/s | dequantize |", end="")
    print(" ours, float32 scales | float16 | times dequantize | float16 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        print(row(KINDS[name], clock), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
