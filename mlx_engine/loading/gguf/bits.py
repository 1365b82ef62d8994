"""Moves codes of 2 to 6 bits from GGUF's order to MLX's, many at a time.

GGUF keeps element i in the low and element i + 16 (or + 32) in the high half of a byte; MLX keeps
neighbours together, value j of a row in its bits [j * bits, (j + 1) * bits), lowest first.

Every pass runs over arrays without gaps, eight bytes at a time, in memory that is used again; where
bytes have to change places, whole runs of them move as one element. NumPy is slow at anything else.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
_EACH = 0x0101010101010101
_SIXTEEN = np.repeat(np.arange(256, dtype=np.uint8), 16).view("V16")


class Scratch:
    """Memory for what is made on the way, kept from one call to the next: fresh memory is slow."""

    def __init__(self) -> None:
        self._kept: dict[str, Bytes] = {}

    def bytes(self, name: str, count: int) -> Bytes:
        """`count` bytes; what was under this name is lost."""
        kept = self._kept.get(name)
        if kept is None or kept.size < count:
            kept = self._kept[name] = np.empty(count, np.uint8)
        return kept[:count]

    def floats(self, name: str, count: int) -> Floats:
        """The same as numbers."""
        return self.bytes(name, 4 * count).view(np.float32)


def column(blocks: Bytes, place: int, nbytes: int, scratch: Scratch) -> Bytes:
    """Bytes [place, place + nbytes) of each block, one after another without gaps; a copy."""
    found = scratch.bytes(f"column {place}", len(blocks) * nbytes)
    found.view(f"V{nbytes}")[:] = field(blocks, f"V{nbytes}", place)
    return found


def halves(blocks: Bytes, place: int) -> Floats:
    """The float16 at byte `place` of each block, [n, 1]; by table, which is faster here."""
    found: Floats = np.take(_HALVES, field(blocks, "<u2", place))
    return found[:, None]


def field(blocks: Bytes, dtype: str, place: int) -> NDArray[Any]:
    """What stands at byte `place` of each of the blocks, as one element each; a view."""
    return np.ndarray((len(blocks),), dtype, blocks, place, (blocks.shape[1],))


def split_halves(data: Bytes, run: int, codes: Bytes, scratch: Scratch) -> None:
    """Codes of 4 bits in MLX's order; eats data, the low halves of `run` bytes before the high."""
    even = scratch.bytes("even", data.size // 2)
    odd = scratch.bytes("odd", data.size // 2)
    pairs = data.view("<u2")
    np.copyto(even, pairs, casting="unsafe")
    pairs >>= np.uint16(8)
    np.copyto(odd, pairs, casting="unsafe")
    _swap_halves(even.view("<u8"), odd.view("<u8"), scratch)
    put_runs(even, odd, run // 2, codes)


def _swap_halves(even: NDArray[np.uint64], odd: NDArray[np.uint64], scratch: Scratch) -> None:
    """The high halves of the even bytes for the low halves of the odd ones."""
    moved = scratch.bytes("moved", even.nbytes).view("<u8")
    np.right_shift(even, np.uint64(4), out=moved)
    moved ^= odd
    moved &= _each(15)
    odd ^= moved
    moved <<= np.uint64(4)
    even ^= moved


def put_runs(first: Bytes, second: Bytes, run: int, target: Bytes) -> None:
    """Runs of `run` bytes of `first` and of `second` by turns."""
    runs = target.view(f"V{run}").reshape(-1, 2)
    runs[:, 0] = first.view(f"V{run}")
    runs[:, 1] = second.view(f"V{run}")


def byte_codes(data: Bytes, run: int, scratch: Scratch) -> Bytes:
    """Halves as bytes, the low ones of `run` bytes before the high ones; eats data."""
    codes, low = scratch.bytes("codes", 2 * data.size), scratch.bytes("low", data.size)
    whole = data.view("<u8")
    np.bitwise_and(whole, _each(15), out=low.view("<u8"))
    whole >>= np.uint64(4)
    whole &= _each(15)
    put_runs(low, data, run, codes)
    return codes


def add_fifth_bits(codes: Bytes, bits: Bytes) -> None:
    """Bit i of `bits` becomes the fifth of code i."""
    fifth = np.unpackbits(bits, bitorder="little").view("<u8")
    fifth <<= np.uint64(4)
    codes |= fifth.view(np.uint8)


def add_bits(codes: Bytes, planes: Bytes, bits: int, as_bit: int, scratch: Scratch) -> None:
    """`bits` bits of each of 32 bytes, the lowest first, go to runs of 32 codes, as bit `as_bit`.

    The lowest of all 32 bytes belong to the first run of 32, the next to the second.
    """
    runs, whole = 8 // bits, planes.view("<u8")
    added = scratch.bytes("added", codes.size)
    moved = scratch.bytes("moved", planes.size).view("<u8")
    by_run = added.view("V32").reshape(-1, runs)
    for run in range(runs):
        move = as_bit - bits * run
        shift = np.left_shift if move > 0 else np.right_shift
        shift(whole, np.uint64(abs(move)), out=moved)
        by_run[:, run] = moved.view("V32")
    every = added.view("<u8")
    every &= _each((2**bits - 1) << as_bit)
    every |= codes.view("<u8")
    codes[:] = added


def bit_fields(
    words: NDArray[np.unsignedinteger], bits: int, count: int, scratch: Scratch
) -> NDArray[np.uint16]:
    """The `count` lowest fields of `bits` bits of each word, the lowest first, [words * count]."""
    kind, mask = words.dtype.type, 2**bits - 1
    found = scratch.bytes(f"fields {bits}", 2 * count * words.size).view(np.uint16)
    moved = scratch.bytes("moved", words.nbytes).view(words.dtype)
    for place in range(count):
        np.right_shift(words, kind(bits * place), out=moved)
        moved &= kind(mask)
        found[place::count] = moved
    return found


def sixteen_times(data: Bytes, scratch: Scratch) -> Bytes:
    """Each byte sixteen times."""
    found = scratch.bytes("sixteen", 16 * data.size)
    np.take(_SIXTEEN, data, out=found.view("V16"), mode="clip")
    return found


def two_bit_codes(data: Bytes, scratch: Scratch) -> Bytes:
    """Of 32 bytes the four pairs of bits as bytes: the lowest of all, then the next."""
    codes = scratch.bytes("codes", 4 * data.size)
    codes[:] = 0
    add_bits(codes, data, 2, 0, scratch)
    return codes


def pack_5(codes: Bytes, target: Bytes, scratch: Scratch) -> None:
    """Bytes holding 5-bit codes, eight in five bytes; eats codes."""
    eight = codes.view("<u8")
    stay = scratch.bytes("moved", codes.size).view("<u8")
    for gap, low in ((3, 0x001F001F001F001F), (6, 0x000003FF000003FF), (12, 0x00000000000FFFFF)):
        np.bitwise_and(eight, np.uint64(low), out=stay)
        eight ^= stay
        eight >>= np.uint64(gap)
        eight |= stay
    target.view("V5")[:] = field(codes.reshape(-1, 8), "V5", 0)


def pack_6(fours: NDArray[np.uint32], target: Bytes, scratch: Scratch) -> None:
    """Words holding four 6-bit codes, two words in six bytes; eats fours."""
    eight = fours.view("<u8")
    stay = scratch.bytes("moved", fours.nbytes).view("<u8")
    np.bitwise_and(eight, np.uint64(0xFFFFFF), out=stay)
    eight ^= stay
    eight >>= np.uint64(8)
    eight |= stay
    target.view("V6")[:] = field(eight.view(np.uint8).reshape(-1, 8), "V6", 0)


def _each(byte: int) -> np.uint64:
    """Eight times the same byte."""
    return np.uint64(byte * _EACH)
