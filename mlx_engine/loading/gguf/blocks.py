"""Blocks of GGUF that hold codes and rules for runs of them -> MLX's codes and rules.

With float32 scales the values of affine blocks stay the same bit for bit. With float16 ones scale
and bias are each the nearest: within 2^-11 of themselves, which is 2^-11 of a value where the bias
is a power of two times the scale, and otherwise 2^-11 of |scale * code| + |bias|.

Layouts as in gguf-py's quants.py and ggml-quants.c. Blocks come as bytes [n, bytes of a block]
without gaps; codes are written to bytes [n * bytes of a block's codes], also without gaps.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
_E8M0_NAN, _UE4M3_ZERO, _UE4M3_SIGN = 255, 0x7F, 0x80
_SIX, _FOUR, _TWO = np.uint32(0x3F3F3F3F), np.uint32(0x0F0F0F0F), np.uint32(0x30303030)
_ENTRIES = (_CODEBOOK + _MIDDLE).astype(np.uint32)
_PAIRS = np.arange(2**16, dtype=np.uint32)
_ENTRIES_OF_PAIRS = (
    _ENTRIES[_PAIRS & 15]
    | _ENTRIES[_PAIRS >> 8 & 15] << np.uint32(8)
    | _ENTRIES[_PAIRS >> 4 & 15] << np.uint32(16)
    | _ENTRIES[_PAIRS >> 12] << np.uint32(24)
)  # of two bytes, the entries of the low halves, then of the high ones


_TERNARY_NBYTES = 64  # of the codes of a block
_Table = NDArray[np.uint64]
"""Of two neighbouring bytes b + 256 c: byte k holds value k of b, and that of c above it."""


class NotNumbersError(ValueError):
    """A scale or value of the file is infinite or not a number."""


class Rule(NamedTuple):
    """w = scale * code + bias; scales and biases [n, runs of a block], runs of equal length.

    biases None for mxfp4 and nvfp4, whose scales are bytes. Good until the next call.
    """

    scales: NDArray[Any]
    biases: NDArray[Any] | None


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


def mxfp4(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """2^(e - 127) E2M1: MLX's own rule; only the order of the codes differs."""
    exponents = column(blocks, 0, 1, scratch)
    if (exponents == _E8M0_NAN).any():
        raise NotNumbersError
    split_halves(column(blocks, 1, 16, scratch), 16, codes, scratch)
    return Rule(exponents, None)


def nvfp4(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """UE4M3 E2M1 in groups of 16; ggml reads the scale 0x7F, elsewhere not a number, as zero."""
    scales = _checked_scales(blocks, scratch)
    split_halves(column(blocks, 4, 32, scratch), 8, codes, scratch)
    return Rule(scales, None)


def tq1_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 1), q from 0 to 2 the digits of a fraction to base 3; runs of 32, of 16, and of 4."""
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


def q1_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (2 q - 1), q of one bit; 128 elements, whose codes get two bits."""
    np.take(_spread_bits(), column(blocks, 2, 16, scratch), out=codes.view("<u2"), mode="clip")
    d = halves(blocks, 0)
    return Rule(d + d, -d)


def q2_0(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d (q - 1), q of two bits in MLX's order; 64 elements."""
    codes[:] = column(blocks, 2, 16, scratch)
    return centred(halves(blocks, 0), 1)


def q8_k(blocks: Bytes, codes: Bytes, scratch: Scratch) -> Rule:
    """d q with a float32 d for 256; a working type of ggml that no file should have."""
    np.bitwise_xor(column(blocks, 4, 256, scratch), np.uint8(_MIDDLE), out=codes)
    return centred(column(blocks, 0, 4, scratch).view("<f4")[:, None], _MIDDLE)


AFFINE: dict[str, Callable[[Bytes, Bytes, Scratch], Rule]] = {
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q1_0": q1_0,
    "Q2_0": q2_0,
    "Q8_K": q8_k,
    "Q3_K": q3_k,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
    "MXFP4": mxfp4,
    "NVFP4": nvfp4,
    "TQ1_0": tq1_0,
    "TQ2_0": tq2_0,
}
"""Types with one rule for 32 elements or more."""


def _checked_scales(blocks: Bytes, scratch: Scratch) -> Bytes:
    """Of NVFP4, UE4M3."""
    scales = column(blocks, 0, 4, scratch)
    if (scales >= _UE4M3_SIGN).any():
        raise NotNumbersError
    return np.where(scales == _UE4M3_ZERO, np.uint8(0), scales)


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


def _spread(
    data: Bytes, table: _Table, runs: int, place: int, codes: Bytes, scratch: Scratch
) -> None:
    """The same bytes of each block become `runs` runs of codes, from byte `place` of its codes on.

    Byte i of data holds value i of each run.
    """
    blocks = codes.reshape(-1, _TERNARY_NBYTES)
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
def _spread_bits() -> NDArray[np.uint16]:
    """[256]: bit i of a byte at place 2 i."""
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    found: NDArray[np.uint16] = (bits << 2 * np.arange(8)).sum(axis=1).astype(np.uint16)
    return found


@cache
def _base_3() -> _Table:
    """Value k of a byte b: the whole part of 3 x, x the fraction of 3^k b / 256."""
    powers = 3 ** np.arange(5, dtype=np.uint64)
    fractions = np.arange(256, dtype=np.uint64)[:, None] * powers % np.uint64(256)
    return _table(fractions * np.uint64(3) >> np.uint64(8))


@cache
def _base_4() -> _Table:
    """Value k of a byte: its bits 2 k and 2 k + 1."""
    places = np.arange(0, 8, 2, dtype=np.uint64)
    return _table(np.arange(256, dtype=np.uint64)[:, None] >> places & np.uint64(3))


def _table(values: _Table) -> _Table:
    """values: [256, runs], of each byte."""
    places = np.arange(0, 8 * values.shape[1], 8, dtype=np.uint64)
    single = np.bitwise_or.reduce(values << places, axis=1)
    pairs = np.arange(2**16)
    opened: _Table = single[pairs & 255] | single[pairs >> 8] << np.uint64(2)
    return opened
