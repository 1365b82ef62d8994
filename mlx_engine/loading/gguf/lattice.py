"""Blocks of GGUF whose values are looked up in a lattice -> codes, by tables, and their scales.

Layouts as in gguf-py's quants.py. All values are whole numbers times a scale; where they fit eight
bits with one scale for 32 they keep their values, else they come as runs of 16 to be rounded.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf import lattice_tables as tables
from mlx_engine.loading.gguf.affine import Rule, centred
from mlx_engine.loading.gguf.bits import (
    Bytes,
    Floats,
    Scratch,
    bit_fields,
    column,
    halves,
    pack_6,
    sixteen_times,
)
from mlx_engine.loading.gguf.runs import Runs

_ONE, _HALF, _TWO = np.float32(1), np.float32(0.5), np.float32(2)


def iq1_s(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (2 s + 1) (g +- 1/8), g from -1 to 1, s and the sign for 32: codes g + 1 of 2 bits."""
    high = column(blocks, 34, 16, scratch).view("<u2")
    index = bit_fields(high, 3, 4, scratch)
    index <<= np.uint16(8)
    index |= column(blocks, 2, 32, scratch)
    np.take(tables.ternary_eights(), index, out=codes.view("<u2"), mode="clip")
    odd = (high >> np.uint16(12) & np.uint16(7)).astype(np.float32) * _TWO + _ONE
    scales = halves(blocks, 0) * odd.reshape(-1, 8)
    shifts = np.where(high >> np.uint16(15), np.float32(-1.125), np.float32(-0.875))
    return Rule(scales, scales * shifts.reshape(-1, 8))


def iq1_m(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (2 s + 1) (g +- 1/8), s for 16 and the sign for 8, d spread over four words.

    The values are d / 8 times odd numbers from -135 to 135, d of the whole block.
    """
    index = bit_fields(column(blocks, 32, 16, scratch), 4, 2, scratch)
    index <<= np.uint16(8)
    index |= column(blocks, 0, 32, scratch)
    np.take(tables.ternary_eights_with_shift(), index, out=codes.view("<u8"), mode="clip")
    words = column(blocks, 48, 8, scratch).view("<u2")
    scales = bit_fields(words, 3, 4, scratch).astype(np.uint8)
    codes *= sixteen_times(scales * np.uint8(2) + np.uint8(1), scratch)
    codes += sixteen_times(np.uint8(63) - scales * np.uint8(9), scratch)
    tops = words.reshape(-1, 4) >> np.uint16(12)
    tops <<= np.array([0, 4, 8, 12], np.uint16)
    d = np.bitwise_or.reduce(tops, axis=1).view(np.float16).astype(np.float32)[:, None]
    return Rule(d * np.float32(0.25), d * np.float32(-135 / 8))


def iq2_xxs(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (s + 1/2) / 4 v, s for 32 and v one of +-8, +-25, +-43: codes v + 64 of 8 bits."""
    both = column(blocks, 2, 64, scratch).view("<u4")
    last = both[1::2].copy()
    signs = bit_fields(last, 7, 4, scratch)
    index = both[::2].copy().view(np.uint8)
    _look_up(
        tables.eights("IQ2_XXS"), index, tables.minus_eights_by_parity(), signs, codes, scratch
    )
    codes += np.uint8(64)
    steps = (last >> np.uint32(28)).astype(np.float32) + _HALF
    return centred(halves(blocks, 0) * steps.reshape(-1, 8) * np.float32(0.25), 64)


def iq2_xs(blocks: Bytes, scratch: Scratch) -> Runs:
    """As IQ2_XXS, but s for 16."""
    both = column(blocks, 2, 64, scratch).view("<u2")
    codes = scratch.bytes("codes", 4 * both.nbytes)
    signs = both >> np.uint16(9)
    both &= np.uint16(511)
    _look_up(tables.eights("IQ2_XS"), both, tables.minus_eights_by_parity(), signs, codes, scratch)
    return _runs(blocks, 66, codes, scratch)


def iq2_s(blocks: Bytes, scratch: Scratch) -> Runs:
    """As IQ2_XS, with all eight signs and a larger lattice."""
    index = bit_fields(column(blocks, 66, 8, scratch), 2, 4, scratch)
    index <<= np.uint16(8)
    index |= column(blocks, 2, 32, scratch)
    codes = scratch.bytes("codes", 8 * index.size)
    signs = column(blocks, 34, 32, scratch)
    _look_up(tables.eights("IQ2_S"), index, tables.minus_eights(), signs, codes, scratch)
    return _runs(blocks, 74, codes, scratch)


def iq3_xxs(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (s + 1/2) / 2 v, s for 32 and v even from -62 to 62: codes v / 2 + 32 of 6 bits."""
    last = column(blocks, 66, 32, scratch).view("<u4")
    signs = np.take(tables.minus_fours_by_parity(), bit_fields(last, 7, 4, scratch), mode="clip")
    index = signs.view("<u2")
    index |= column(blocks, 2, 64, scratch)
    fours = scratch.bytes("fours", 4 * index.size).view("<u4")
    np.take(tables.signed_fours_of_6_bits(), index, out=fours, mode="clip")
    pack_6(fours, codes, scratch)
    steps = (last >> np.uint32(28)).astype(np.float32) + _HALF
    return centred(halves(blocks, 0) * steps.reshape(-1, 8), 32)


def iq3_s(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (2 s + 1) v, s for 32 and v odd from -15 to 15: codes (v + 15) / 2 of 4 bits."""
    index = bit_fields(column(blocks, 74, 32, scratch), 4, 2, scratch)
    index <<= np.uint16(1)
    index |= np.unpackbits(column(blocks, 66, 8, scratch), bitorder="little")
    index <<= np.uint16(8)
    index |= column(blocks, 2, 64, scratch)
    np.take(tables.signed_fours_of_4_bits(), index, out=codes.view("<u2"), mode="clip")
    steps = bit_fields(column(blocks, 106, 4, scratch), 4, 2, scratch).astype(np.float32)
    scales = halves(blocks, 0) * (steps.reshape(-1, 8) * _TWO + _ONE)
    return Rule(scales * _TWO, scales * np.float32(-15))


LATTICE: dict[str, Callable[[Bytes, Bytes, Scratch], Rule]] = {
    "IQ1_S": iq1_s,
    "IQ1_M": iq1_m,
    "IQ2_XXS": iq2_xxs,
    "IQ3_XXS": iq3_xxs,
    "IQ3_S": iq3_s,
}
LATTICE_RUNS: dict[str, Callable[[Bytes, Scratch], Runs]] = {"IQ2_XS": iq2_xs, "IQ2_S": iq2_s}


def _look_up(
    grid: tables.Words64,
    index: NDArray[np.unsignedinteger],
    minus: tables.Words64,
    signs: NDArray[np.unsignedinteger],
    codes: Bytes,
    scratch: Scratch,
) -> None:
    """Signed bytes: eight of `grid` for each index, where eight of `minus` are 255 negated."""
    masks = scratch.bytes("masks", codes.size)
    np.take(grid, index, out=codes.view("<u8"), mode="clip")
    np.take(minus, signs, out=masks.view("<u8"), mode="clip")
    codes ^= masks
    codes -= masks


def _runs(blocks: Bytes, place: int, codes: Bytes, scratch: Scratch) -> Runs:
    """Scales d (s + 1/2) / 4, s in the halves of eight bytes from `place` on."""
    steps = bit_fields(column(blocks, place, 8, scratch), 4, 2, scratch).astype(np.float32)
    scales: Floats = halves(blocks, 0) * (steps.reshape(-1, 16) + _HALF) * np.float32(0.25)
    flat = scales.reshape(-1)
    return Runs(codes.view(np.int8), flat, np.zeros_like(flat))
