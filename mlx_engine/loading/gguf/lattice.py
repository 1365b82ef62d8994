"""Blocks of GGUF whose values are looked up in a lattice -> codes, by tables, and their scales.

Layouts as in gguf-py's quants.py, whose grids the tables are made of when first used. All values
are whole numbers of at most eight bits times a scale for 32 or more.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import (
    Bytes,
    Scratch,
    bit_fields,
    column,
    halves,
    pack_6,
    sixteen_times,
)
from mlx_engine.loading.gguf.blocks import Rule, centred

_Words16 = NDArray[np.uint16]
_Words32 = NDArray[np.uint32]
_Words64 = NDArray[np.uint64]
_GridName = Literal["IQ1_S", "IQ2_XXS", "IQ3_XXS", "IQ3_S"]

_ONE, _HALF, _TWO = np.float32(1), np.float32(0.5), np.float32(2)


def iq1_s(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (2 s + 1) (g +- 1/8), g from -1 to 1, s and the sign for 32: codes g + 1 of 2 bits."""
    high = column(blocks, 34, 16, scratch).view("<u2")
    index = bit_fields(high, 3, 4, scratch)
    index <<= np.uint16(8)
    index |= column(blocks, 2, 32, scratch)
    np.take(_ternary_eights(), index, out=codes.view("<u2"), mode="clip")
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
    np.take(_ternary_eights_with_shift(), index, out=codes.view("<u8"), mode="clip")
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
    _look_up(_eights(), index, _minus_eights_by_parity(), signs, codes, scratch)
    codes += np.uint8(64)
    steps = (last >> np.uint32(28)).astype(np.float32) + _HALF
    return centred(halves(blocks, 0) * steps.reshape(-1, 8) * np.float32(0.25), 64)


def iq3_xxs(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (s + 1/2) / 2 v, s for 32 and v even from -62 to 62: codes v / 2 + 32 of 6 bits."""
    last = column(blocks, 66, 32, scratch).view("<u4")
    signs = np.take(_minus_fours_by_parity(), bit_fields(last, 7, 4, scratch), mode="clip")
    index = signs.view("<u2")
    index |= column(blocks, 2, 64, scratch)
    fours = scratch.bytes("fours", 4 * index.size).view("<u4")
    np.take(_signed_fours_of_6_bits(), index, out=fours, mode="clip")
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
    np.take(_signed_fours_of_4_bits(), index, out=codes.view("<u2"), mode="clip")
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


def _look_up(
    grid: _Words64,
    index: NDArray[np.unsignedinteger],
    minus: _Words64,
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


@cache
def _ternary_eights() -> _Words16:
    """[2048]: eight values of IQ1's grid plus 1, of 2 bits each."""
    found: _Words16 = _packed(_grid("IQ1_S") + 1, 2).astype(np.uint16)
    return found


@cache
def _ternary_eights_with_shift() -> _Words64:
    """[sign of the shift, 2048]: bytes 4 g + 5 for g + 1/8, and 4 g + 4 for g - 1/8."""
    grid = 4 * _grid("IQ1_S")
    return _packed(np.concatenate([grid + 5, grid + 4]), 8)


@cache
def _eights() -> _Words64:
    """[entries]: eight values of IQ2_XXS' grid as bytes."""
    return _packed(_grid("IQ2_XXS"), 8)


@cache
def _minus_eights() -> _Words64:
    """[256]: byte i is 255 where bit i says minus, else 0."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return _packed(255 * bits.astype(np.int64), 8)


@cache
def _minus_eights_by_parity() -> _Words64:
    """[128]: the same for seven bits; the eighth makes the number of minuses even."""
    return _minus_eights()[_even_parity()]


@cache
def _minus_fours_by_parity() -> _Words32:
    """[128]: of the eight signs the first four in bits 8 to 11, the others in bits 24 to 27."""
    signs = _even_parity().astype(np.uint32)
    found: _Words32 = (signs & np.uint32(15)) << np.uint32(8) | signs >> np.uint32(4) << np.uint32(
        24
    )
    return found


@cache
def _signed_fours_of_4_bits() -> _Words16:
    """[sixteen signs, entries]: (value + 15) / 2 of four values of IQ3_S."""
    found: _Words16 = _packed((_signed(_grid("IQ3_S")) + 15) // 2, 4).astype(np.uint16)
    return found


@cache
def _signed_fours_of_6_bits() -> _Words32:
    """[sixteen signs, entries]: value / 2 + 32 of four values of IQ3_XXS."""
    found: _Words32 = _packed(_signed(_grid("IQ3_XXS")) // 2 + 32, 6).astype(np.uint32)
    return found


def _packed(codes: NDArray[np.int64], bits: int) -> _Words64:
    """[entries, values] -> [entries]."""
    places = np.arange(0, bits * codes.shape[1], bits, dtype=np.uint64)
    found: _Words64 = np.bitwise_or.reduce(codes.astype(np.uint64) << places, axis=1)
    return found


def _signed(grid: NDArray[np.int64]) -> NDArray[np.int64]:
    """All entries [n, 4] with all signs, bit i of their number for value i, [16 * n, 4]."""
    minus = np.arange(16)[:, None, None] >> np.arange(4) & 1
    return ((1 - 2 * minus) * grid).reshape(-1, 4)


def _even_parity() -> NDArray[np.int64]:
    signs = np.arange(128)
    odd = np.unpackbits(signs.astype(np.uint8)[:, None], axis=1).sum(axis=1) & 1
    found: NDArray[np.int64] = signs | odd.astype(np.int64) << 7
    return found


def _grid(name: _GridName) -> NDArray[np.int64]:
    """[entries, values]; all are whole numbers."""
    from gguf import quants

    kinds: dict[_GridName, Any] = {
        "IQ1_S": quants.IQ1_S,
        "IQ2_XXS": quants.IQ2_XXS,
        "IQ3_XXS": quants.IQ3_XXS,
        "IQ3_S": quants.IQ3_S,
    }
    kind = kinds[name]
    kind.init_grid()
    found: NDArray[np.int64] = kind.grid.reshape(kind.grid_shape).astype(np.int64)
    return found
