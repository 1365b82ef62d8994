"""Blocks of GGUF that are affine in runs of 32 or more -> MLX's codes, scales and biases.

With float32 scales the values stay the same bit for bit. With float16 ones scale and bias are each
the nearest: within 2^-11 of themselves, which is 2^-11 of a value where the bias is a power of two
times the scale, and otherwise 2^-11 of |scale * code| + |bias|.

Layouts as in gguf-py's quants.py and ggml-quants.c. Blocks come as bytes [n, bytes of a block]
without gaps; codes are written to bytes [n * bytes of a block's codes], also without gaps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mlx_engine.loading.gguf.bits import (
    Bytes,
    Floats,
    Scratch,
    add_bits,
    add_fifth_bits,
    byte_codes,
    column,
    field,
    halves,
    pack_5,
    put_runs,
    sixteen_times,
    split_halves,
    two_bit_codes,
)

_CODEBOOK = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16
)  # IQ4_NL and IQ4_XS
_MIDDLE = 128
_SIX, _FOUR, _TWO = np.uint32(0x3F3F3F3F), np.uint32(0x0F0F0F0F), np.uint32(0x30303030)
_ENTRIES = (_CODEBOOK + _MIDDLE).astype(np.uint32)
_PAIRS = np.arange(2**16, dtype=np.uint32)
_ENTRIES_OF_PAIRS = (
    _ENTRIES[_PAIRS & 15]
    | _ENTRIES[_PAIRS >> 8 & 15] << np.uint32(8)
    | _ENTRIES[_PAIRS >> 4 & 15] << np.uint32(16)
    | _ENTRIES[_PAIRS >> 12] << np.uint32(24)
)  # of two bytes, the entries of the low halves, then of the high ones


class Rule(NamedTuple):
    """w = scale * code + bias; scales and biases [n, runs of a block], runs of equal length."""

    scales: Floats
    biases: Floats


def centred(scales: Floats, middle: int) -> Rule:
    """For codes that stand for code - middle."""
    return Rule(scales, scales * np.float32(-middle))


def q4_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 8)."""
    split_halves(column(blocks, 2, 16, scratch), 16, codes, scratch)
    return centred(halves(blocks, 0), 8)


def q4_1(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d q + m."""
    split_halves(column(blocks, 4, 16, scratch), 16, codes, scratch)
    return Rule(halves(blocks, 0), halves(blocks, 2))


def q5_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 16), with 32 fifth bits before the halves."""
    _five_bits(blocks, 2, codes, scratch)
    return centred(halves(blocks, 0), 16)


def q5_1(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d q + m."""
    _five_bits(blocks, 4, codes, scratch)
    return Rule(halves(blocks, 0), halves(blocks, 2))


def q8_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d q, q from -128 to 127."""
    np.bitwise_xor(column(blocks, 2, 32, scratch), np.uint8(_MIDDLE), out=codes)
    return centred(halves(blocks, 0), _MIDDLE)


def q4_k(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d sc q - dmin m, eight runs of 32; in 64 elements the low halves come first."""
    split_halves(column(blocks, 16, 128, scratch), 32, codes, scratch)
    return _six_bit_rule(blocks, scratch)


def q5_k(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """As Q4_K, with bit j of 32 more bytes as fifth bit of run j."""
    five = byte_codes(column(blocks, 48, 128, scratch), 32, scratch)
    add_bits(five, column(blocks, 16, 32, scratch), 1, 4, scratch)
    pack_5(five, codes, scratch)
    return _six_bit_rule(blocks, scratch)


def q3_k(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (sc - 32) (q - 4), sc of four low and two high bits for 16 elements, q of three bits.

    The products are whole numbers from -124 to 128: codes of eight bits, one scale for 256.
    """
    four = column(blocks, 96, 8, scratch).view("<u4").reshape(-1, 2)
    two = column(blocks, 104, 4, scratch).view("<u4")
    six = scratch.bytes("six", 16 * len(blocks)).view("<u4").reshape(-1, 4)
    for place in range(4):
        low = four[:, place % 2] >> np.uint32(4 * (place // 2)) & _FOUR
        high = (two >> np.uint32(2 * place)) << np.uint32(4) & _TWO
        six[:, place] = low | high
    three = two_bit_codes(column(blocks, 32, 64, scratch), scratch)
    add_bits(three, column(blocks, 0, 32, scratch), 1, 2, scratch)
    factors = six.view(np.uint8).reshape(-1) - np.uint8(32)  # modulo 256, as all that follows
    np.multiply(three, sixteen_times(factors, scratch), out=codes)
    codes += sixteen_times(np.uint8(124) - np.uint8(4) * factors, scratch)
    return centred(halves(blocks, 108), 124)


def iq4_nl(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d K[q] with a codebook K of integers, which become codes of eight bits."""
    _look_up(column(blocks, 2, 16, scratch), codes, scratch)
    return centred(halves(blocks, 0), _MIDDLE)


def iq4_xs(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (ls - 32) K[q], eight runs of 32, ls of four low and two high bits."""
    high = column(blocks, 2, 2, scratch).view("<u2")[:, None]
    high = (high >> np.arange(0, 16, 2, dtype=np.uint16)) & np.uint16(3)
    four = column(blocks, 4, 4, scratch).reshape(-1, 4)
    low = np.stack([four & np.uint8(15), four >> np.uint8(4)], axis=-1)
    six = low.reshape(-1, 8) | (high.astype(np.uint8) << np.uint8(4))
    _look_up(column(blocks, 8, 128, scratch), codes, scratch)
    return centred(halves(blocks, 0) * (six.astype(np.float32) - np.float32(32)), _MIDDLE)


AFFINE: dict[str, Callable[[Bytes, Bytes, Scratch], Rule]] = {
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q3_K": q3_k,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
}


def _five_bits(blocks: Bytes, place: int, codes: Bytes, scratch: Scratch) -> None:
    """From `place` on 32 fifth bits, then 16 bytes of halves."""
    five = byte_codes(column(blocks, place + 4, 16, scratch), 16, scratch)
    add_fifth_bits(five, column(blocks, place, 4, scratch))
    pack_5(five, codes, scratch)


def _look_up(data: Bytes, codes: Bytes, scratch: Scratch) -> None:
    """Runs of 16 bytes of halves -> 32 codebook entries of eight bits."""
    entries = scratch.bytes("entries", 2 * data.size).view("<u4")
    low = scratch.bytes("even", data.size).view("<u2")
    high = scratch.bytes("odd", data.size).view("<u2")
    np.take(_ENTRIES_OF_PAIRS, data.view("<u2"), out=entries, mode="clip")
    np.copyto(low, entries, casting="unsafe")
    entries >>= np.uint32(16)
    np.copyto(high, entries, casting="unsafe")
    put_runs(low.view(np.uint8), high.view(np.uint8), 16, codes)


def _six_bit_rule(blocks: Bytes, scratch: Scratch) -> Rule:
    """Scales d sc and biases -dmin m of the eight runs of a K block; sc and m have six bits.

    Scales and biases lie one behind the other on the way.
    """
    n = len(blocks)
    first, last = np.empty((2, n), np.uint32), np.empty((2, n), np.uint32)
    first[0], first[1], last[0] = (field(blocks, "<u4", place) for place in (4, 8, 12))
    np.right_shift(last[0], np.uint32(4), out=last[1])
    last &= _FOUR
    codes = scratch.bytes("six", 16 * n).view("<u4").reshape(2, n, 2)
    codes[:, :, 0] = first & _SIX
    first >>= np.uint32(2)
    first &= _TWO
    codes[:, :, 1] = first | last
    both = scratch.floats("rule", 16 * n).reshape(2, n, 8)
    np.copyto(both, codes.view(np.uint8).reshape(2, n, 8))
    both[0] *= halves(blocks, 0)
    both[1] *= -halves(blocks, 2)
    return Rule(both[0], both[1])
