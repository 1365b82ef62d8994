"""Moves codes of 4 and 5 bits from GGUF's order to MLX's, many at a time.

GGUF keeps element i in the low and element i + 16 (or + 32) in the high half of a byte; MLX keeps
neighbours together, value j of a row in its bits [j * bits, (j + 1) * bits), lowest first.

Every pass runs over arrays without gaps; where bytes have to change places, whole runs of them move
as one element. NumPy is slow at anything else.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_LOW_BITS = np.uint64(0x0101010101010101)
_HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


def column(blocks: Bytes, place: int, nbytes: int) -> Bytes:
    """Bytes [place, place + nbytes) of each block, one after another without gaps; a copy."""
    return _field(blocks, f"V{nbytes}", place).copy().view(np.uint8)


def halves(blocks: Bytes, place: int) -> Floats:
    """The float16 at byte `place` of each block, [n, 1]; by table, which is faster here."""
    found: Floats = np.take(_HALVES, _field(blocks, "<u2", place))
    return found[:, None]


def words(blocks: Bytes, place: int) -> NDArray[np.uint32]:
    """The uint32 at byte `place` of each block, [n]."""
    return _field(blocks, "<u4", place).copy()


def split_halves(data: Bytes, run: int, codes: Bytes) -> None:
    """Codes of 4 bits in MLX's order; eats data, the low halves of `run` bytes before the high."""
    pairs = data.view("<u2")
    swapped = pairs >> np.uint16(4)
    swapped ^= pairs
    swapped &= np.uint16(0x00F0)
    pairs ^= swapped
    swapped <<= np.uint16(4)
    pairs ^= swapped  # low, low, high, high half, of two bytes that were low, high, low, high
    put_runs(pairs.astype(np.uint8), (pairs >> np.uint16(8)).astype(np.uint8), run // 2, codes)


def put_runs(first: Bytes, second: Bytes, run: int, target: Bytes) -> None:
    """Runs of `run` bytes of `first` and of `second` by turns."""
    runs = target.view(f"V{run}").reshape(-1, 2)
    runs[:, 0] = first.view(f"V{run}")
    runs[:, 1] = second.view(f"V{run}")


def byte_codes(data: Bytes, run: int) -> Bytes:
    """Halves as bytes, the low ones of `run` bytes before the high ones."""
    codes = np.empty(2 * data.size, np.uint8)
    put_runs(data & np.uint8(15), data >> np.uint8(4), run, codes)
    return codes


def add_fifth_bits(codes: Bytes, bits: Bytes) -> None:
    """Bit i of `bits` becomes the fifth of code i."""
    fifth = np.unpackbits(bits, bitorder="little")
    fifth <<= np.uint8(4)
    codes |= fifth


def add_bit_planes(codes: Bytes, planes: Bytes, as_bit: int) -> None:
    """Bit j of the i-th of 32 bytes becomes bit `as_bit` of code i in run j of eight runs of 32."""
    whole = planes.view("<u8")
    added = np.empty(codes.size, np.uint8)
    runs = added.view("V32").reshape(-1, 8)
    for place in range(8):
        bits = whole >> np.uint64(place)
        bits &= _LOW_BITS
        bits <<= np.uint64(as_bit)
        runs[:, place] = bits.view("V32")
    codes |= added


def two_bit_codes(data: Bytes) -> Bytes:
    """Of 32 bytes the four pairs of bits as bytes: the lowest of all, then the next."""
    codes = np.empty(4 * data.size, np.uint8)
    runs = codes.view("V32").reshape(-1, 4)
    for part in range(4):
        runs[:, part] = (data >> np.uint8(2 * part)).view("V32")
    codes &= np.uint8(3)
    return codes


def pack_5(codes: Bytes, target: Bytes) -> None:
    """Bytes holding 5-bit codes, eight in five bytes; eats codes."""
    eight = codes.view("<u8")
    _close_up(eight, 3, 0x001F001F001F001F)
    _close_up(eight, 6, 0x000003FF000003FF)
    _close_up(eight, 12, 0x00000000000FFFFF)
    target.view("V5")[:] = _field(codes.reshape(-1, 8), "V5", 0)


def _close_up(eight: NDArray[np.uint64], gap: int, low: int) -> None:
    """Moves every second field down by `gap`; low: the bits of the others."""
    stay = eight & np.uint64(low)
    eight &= np.uint64(~low & 2**64 - 1)
    eight >>= np.uint64(gap)
    eight |= stay


def _field(blocks: Bytes, dtype: str, place: int) -> NDArray[Any]:
    """What stands at byte `place` of each of the blocks, as one element each; a view."""
    return np.ndarray((len(blocks),), dtype, blocks, place, (blocks.shape[1],))
