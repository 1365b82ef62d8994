"""Ternary blocks of GGUF, one scale for 256 values of -1, 0 and 1 -> MLX's codes of 2 bits.

A byte holds 5 (TQ1_0) or 4 (TQ2_0) values that lie a run apart; a table opens two bytes at once.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.affine import Rule, centred
from mlx_engine.loading.gguf.bits import Bytes, Scratch, column, field, halves

_NBYTES = 64  # of the codes of a block
Table = NDArray[np.uint64]
"""Of two neighbouring bytes b + 256 c: byte k holds value k of b, and that of c above it."""


def tq1_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 1), q the digits of a fraction to base 3; runs of 32, of 16, and of 4."""
    table = _base_3()
    _spread(column(blocks, 0, 32, scratch), table, 5, 0, codes, scratch)
    _spread(column(blocks, 32, 16, scratch), table, 5, 40, codes, scratch)
    _spread(column(blocks, 48, 4, scratch), table, 4, 60, codes, scratch)
    return centred(halves(blocks, 52), 1)


def tq2_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 1), q of 2 bits; runs of 32."""
    table = _base_4()
    _spread(column(blocks, 0, 32, scratch), table, 4, 0, codes, scratch)
    _spread(column(blocks, 32, 32, scratch), table, 4, 32, codes, scratch)
    return centred(halves(blocks, 64), 1)


TERNARY: dict[str, Callable[[Bytes, Bytes, Scratch], Rule]] = {"TQ1_0": tq1_0, "TQ2_0": tq2_0}


def _spread(
    data: Bytes, table: Table, runs: int, place: int, codes: Bytes, scratch: Scratch
) -> None:
    """The same bytes of each block become `runs` runs of codes, from byte `place` of its codes on.

    Byte i of data holds value i of each run.
    """
    blocks = codes.reshape(-1, _NBYTES)
    width = data.size // len(blocks) // 4
    opened = scratch.bytes("opened", 4 * data.size).view("<u8")
    np.take(table, data.view("<u2"), out=opened, mode="clip")
    fours = scratch.bytes("fours", 2 * data.size).view("<u8")
    np.left_shift(opened[1::2], np.uint64(4), out=fours)
    fours |= opened[::2]
    line = scratch.bytes("line", data.size // 4)
    for run in range(runs):
        line[:] = fours.view(np.uint8)[run::8]
        field(blocks, f"V{width}", place + width * run)[:] = line.view(f"V{width}")


@cache
def _base_3() -> Table:
    """Value k of a byte b: the whole part of 3 x, x the fraction of 3^k b / 256."""
    powers = 3 ** np.arange(5, dtype=np.uint64)
    fractions = np.arange(256, dtype=np.uint64)[:, None] * powers % np.uint64(256)
    return _table(fractions * np.uint64(3) >> np.uint64(8))


@cache
def _base_4() -> Table:
    """Value k of a byte: its bits 2 k and 2 k + 1."""
    places = np.arange(0, 8, 2, dtype=np.uint64)
    return _table(np.arange(256, dtype=np.uint64)[:, None] >> places & np.uint64(3))


def _table(values: Table) -> Table:
    """values: [256, runs], of each byte."""
    places = np.arange(0, 8 * values.shape[1], 8, dtype=np.uint64)
    single = np.bitwise_or.reduce(values << places, axis=1)
    pairs = np.arange(2**16)
    opened: Table = single[pairs & 255] | single[pairs >> 8] << np.uint64(2)
    return opened
