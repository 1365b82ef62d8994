"""Moves codes of 4 and 5 bits from GGUF's order to MLX's, eight at a time.

GGUF keeps element i in the low and element i + 16 (or + 32) in the high half of a byte; MLX keeps
neighbours together, value j of a row in its bits [j * bits, (j + 1) * bits), lowest first.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

_LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW_BITS = np.uint64(0x0101010101010101)


def as_words(data: Bytes) -> Words:
    """Bytes [n, 8 k] -> [n, k] of eight bytes each."""
    return np.ascontiguousarray(data).view("<u8")


def low_halves(words: Words) -> Words:
    """The low four bits of every byte."""
    return words & _LOW_HALVES


def high_halves(words: Words) -> Words:
    """The high four bits of every byte, moved down."""
    return (words >> np.uint64(4)) & _LOW_HALVES


def both_halves(words: Words) -> Words:
    """Words [n, k] -> the low halves of a row, then its high ones, [n, 2 k]."""
    n, k = words.shape
    both = np.empty((n, 2 * k), np.uint64)
    np.bitwise_and(words, _LOW_HALVES, out=both[:, :k])
    np.right_shift(words, np.uint64(4), out=both[:, k:])
    both[:, k:] &= _LOW_HALVES
    return both


def one_bit(words: Words, place: int) -> Words:
    """Bit `place` of every byte, as the fifth bit of a code."""
    bits = words >> np.uint64(place)
    bits &= _LOW_BITS
    bits <<= np.uint64(4)
    return bits


def spread_bits(data: Bytes) -> Words:
    """Bytes [n, 4] -> bit i of the 32 as the fifth bit of byte i, [n, 4] words."""
    bits = np.unpackbits(data, axis=-1, bitorder="little")
    return as_words(bits << np.uint8(4))


def packed_4(words: Words) -> NDArray[np.uint32]:
    """Bytes holding 4-bit codes [..., k] -> eight codes in each uint32 [..., k]; eats its input."""
    words |= words >> np.uint64(4)
    words &= np.uint64(0x00FF00FF00FF00FF)
    words |= words >> np.uint64(8)
    words &= np.uint64(0x0000FFFF0000FFFF)
    words |= words >> np.uint64(16)
    return words.astype(np.uint32)


def packed_5(words: Words) -> NDArray[np.uint32]:
    """Bytes holding 5-bit codes [n, 4 k] -> [n, 5 k] uint32."""
    words = _closed_up(words, 3, 0x001F001F001F001F)
    words = _closed_up(words, 6, 0x000003FF000003FF)
    words = _closed_up(words, 12, 0x00000000000FFFFF)
    n, k = words.shape
    five = words.view(np.uint8).reshape(n, k, 8)[:, :, :5]
    return np.ascontiguousarray(five).reshape(n, 5 * k).view("<u4")


def _closed_up(words: Words, gap: int, low: int) -> Words:
    """Moves every second field down by `gap`; low: the bits of the others."""
    high = words & np.uint64(~low & 2**64 - 1)
    high >>= np.uint64(gap)
    high |= words & np.uint64(low)
    return high
