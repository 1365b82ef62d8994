"""A Markdown table of GGUF types: what each becomes, how exactly, and how fast.

PYTHONPATH=.:tests/helpers python tests/speed/gguf_repack_figures.py [--wall] [type ...]

GB of blocks in a second of CPU time (all threads together), or with --wall of time: memcpy,
`gguf.dequantize` and our repacking of the same tensor, by turns, medians. Errors against
the package, relative to the RMS and to the greatest of the values, on random blocks and on edge
blocks (every byte the same; scales of zero, tiny, large and negative).
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
from gguf_blocks import edge_blocks, random_blocks, values_of
from numpy.typing import NDArray

from mlx_engine.loading.gguf.header import BlockType, block_types
from mlx_engine.loading.gguf.part import PLANS
from mlx_engine.loading.gguf.weights import repack

KINDS = {kind.name: kind for kind in block_types().values()}
NO_FORMULA = ("Q8_K", "Q1_0", "Q2_0")  # in the package
PACKED = [n for n, plan in PLANS.items() if plan.group_size and n not in NO_FORMULA]
FEWEST_MEGABYTES, MEGABYTES, ROUNDS = 4, 12, 5
WAYS = ("memcpy", "dequantize", "ours")
Clock = Callable[[], float]


class Lost(NamedTuple):
    """Relative errors, of the RMS and of the greatest value."""

    rms: float
    most: float

    def words(self) -> str:
        """In a cell of the table."""
        return "lossless" if self.most == 0 else f"{self.rms:.2e} / {self.most:.2e}"


def rows_of(kind: BlockType, nbytes: int, highest: int = 256) -> NDArray[np.uint8]:
    """Rows of 4096 elements."""
    per_row = 4096 // kind.elements
    rows = max(1, nbytes // (per_row * kind.nbytes))
    return random_blocks(kind.name, rows, per_row, 0, highest)


def lost(kind: BlockType, blocks: NDArray[np.uint8]) -> Lost:
    """What MLX makes of our form, against the package's formula."""
    plan = PLANS[kind.name]
    made = repack(blocks, kind, plan)
    found = mx.dequantize(
        mx.array(made.weight),
        mx.array(made.scales),
        None if made.biases is None else mx.array(made.biases),
        group_size=plan.group_size,
        bits=plan.bits,
        mode=plan.becomes,
        dtype=mx.float32,
    )
    wanted = values_of(blocks, kind.name).astype(np.float64)
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
    work = {
        "memcpy": partial(np.copyto, target, blocks),
        "dequantize": partial(dequantize, blocks, GGMLQuantizationType[kind.name]),
        "ours": partial(repack, blocks, kind, PLANS[kind.name]),
    }
    return {way: rate(work[way], blocks.nbytes, clock) for way in WAYS}


def row(kind: BlockType, clock: Clock) -> str:
    """A line of the table; lattice types get a smaller tensor, they are slow both ways."""
    slow = kind.name.startswith(("IQ1", "IQ2", "IQ3", "TQ"))
    blocks = rows_of(kind, (FEWEST_MEGABYTES if slow else MEGABYTES) * 10**6, 60)
    rounds = [measure(kind, blocks, clock) for _ in range(ROUNDS)]
    middle = {way: statistics.median(one[way] for one in rounds) for way in WAYS}
    errors = [lost(kind, rows_of(kind, 3 * 10**5)), lost(kind, edge_blocks(kind.name))]
    cells = [
        kind.name,
        PLANS[kind.name].words,
        *(error.words() for error in errors),
        *(f"{middle[way]:.3g}" for way in WAYS),
        f"{middle['ours'] / middle['dequantize']:.1f}x",
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    """Prints the table, a line at a time."""
    clock = time.perf_counter if "--wall" in arguments else time.process_time
    names = [name for name in arguments if name != "--wall"] or PACKED
    print("| type | becomes | random: RMS / max error | edges | memcpy GB/s | dequantize |", end="")
    print(" ours | times dequantize |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        print(row(KINDS[name], clock), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
