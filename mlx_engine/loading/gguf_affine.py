"""Blocks of GGUF that are affine in runs of 32 -> MLX's codes, scales and biases, bit for bit.

Layouts as in gguf-py's quants.py and ggml-quants.c. Blocks come as bytes [n, bytes of a block].
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf_bits import (
    Bytes,
    as_words,
    both_halves,
    high_halves,
    low_halves,
    one_bit,
    packed_4,
    packed_5,
    spread_bits,
)

Floats = NDArray[np.float32]

_CODEBOOK = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16
)  # IQ4_NL and IQ4_XS
_MIDDLE = 128
_SIX, _FOUR, _TWO = np.uint32(0x3F3F3F3F), np.uint32(0x0F0F0F0F), np.uint32(0x30303030)
_LOW_ENTRY = (_CODEBOOK[np.arange(256) & 15] + _MIDDLE).astype(np.uint8)
_HIGH_ENTRY = (_CODEBOOK[np.arange(256) >> 4] + _MIDDLE).astype(np.uint8)


class AffineBlocks(NamedTuple):
    """w = scale * code + bias; codes [n, words of a block], scales and biases [n, runs of 32]."""

    codes: NDArray[np.uint32]
    scales: Floats
    biases: Floats


def q4_0(blocks: Bytes) -> AffineBlocks:
    """d (q - 8)."""
    scales = _halves(blocks, 0)
    return AffineBlocks(split_nibbles(blocks[:, 2:]), scales, scales * np.float32(-8))


def q4_1(blocks: Bytes) -> AffineBlocks:
    """d q + m."""
    return AffineBlocks(split_nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2))


def q5_0(blocks: Bytes) -> AffineBlocks:
    """d (q - 16)."""
    scales = _halves(blocks, 0)
    return AffineBlocks(_five_bits(blocks[:, 2:]), scales, scales * np.float32(-16))


def q5_1(blocks: Bytes) -> AffineBlocks:
    """d q + m."""
    return AffineBlocks(_five_bits(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2))


def q8_0(blocks: Bytes) -> AffineBlocks:
    """d q, q from -128 to 127."""
    scales = _halves(blocks, 0)
    codes = blocks[:, 2:] ^ np.uint8(_MIDDLE)
    return AffineBlocks(codes.view("<u4"), scales, scales * np.float32(-_MIDDLE))


def q4_k(blocks: Bytes) -> AffineBlocks:
    """d sc q - dmin m, eight runs of 32; in 64 elements the low halves come first."""
    words = as_words(blocks[:, 16:]).reshape(-1, 4)
    codes = packed_4(both_halves(words)).reshape(len(blocks), 32)
    return AffineBlocks(codes, *_six_bit_rule(blocks))


def q5_k(blocks: Bytes) -> AffineBlocks:
    """As Q4_K, with bit j of 32 more bytes as fifth bit of run j."""
    fifth = as_words(blocks[:, 16:48])
    words = as_words(blocks[:, 48:]).reshape(-1, 4, 4)
    codes = np.empty((len(blocks), 8, 4), np.uint64)
    for run in range(8):
        half = low_halves if run % 2 == 0 else high_halves
        codes[:, run] = half(words[:, run // 2]) | one_bit(fifth, run)
    return AffineBlocks(packed_5(codes.reshape(-1, 32)), *_six_bit_rule(blocks))


def iq4_nl(blocks: Bytes) -> AffineBlocks:
    """d K[q] with a codebook K of integers, which become codes of eight bits."""
    scales = _halves(blocks, 0)
    return AffineBlocks(_entries(blocks[:, 2:]), scales, scales * np.float32(-_MIDDLE))


def iq4_xs(blocks: Bytes) -> AffineBlocks:
    """d (ls - 32) K[q], eight runs of 32, ls of four low and two high bits."""
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2")
    high = (high >> np.arange(0, 16, 2, dtype=np.uint16)) & np.uint16(3)
    low = np.stack([blocks[:, 4:8] & np.uint8(15), blocks[:, 4:8] >> np.uint8(4)], axis=-1)
    six = low.reshape(-1, 8) | (high.astype(np.uint8) << np.uint8(4))
    scales = _halves(blocks, 0) * (six.astype(np.float32) - np.float32(32))
    codes = _entries(blocks[:, 8:].reshape(-1, 16)).reshape(len(blocks), 64)
    return AffineBlocks(codes, scales, scales * np.float32(-_MIDDLE))


AFFINE: dict[str, Callable[[Bytes], AffineBlocks]] = {
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
}


def split_nibbles(data: Bytes) -> NDArray[np.uint32]:
    """Bytes [n, 8 k], low halves first -> codes of four bits in MLX's order [n, 2 k]."""
    return packed_4(both_halves(as_words(data)))


def _five_bits(data: Bytes) -> NDArray[np.uint32]:
    """32 fifth bits, then 16 bytes of halves."""
    codes = both_halves(as_words(data[:, 4:]))
    return packed_5(codes | spread_bits(data[:, :4]))


def _entries(data: Bytes) -> NDArray[np.uint32]:
    """16 bytes of halves -> 32 codebook entries of eight bits, [n, 8]."""
    codes = np.empty((len(data), 32), np.uint8)
    np.take(_LOW_ENTRY, data, out=codes[:, :16])
    np.take(_HIGH_ENTRY, data, out=codes[:, 16:])
    return codes.view("<u4")


def _halves(blocks: Bytes, place: int) -> Floats:
    """The float16 at byte `place` of each block, [n, 1]."""
    return np.ascontiguousarray(blocks[:, place : place + 2]).view("<f2").astype(np.float32)


class _Rule(NamedTuple):
    scales: Floats
    biases: Floats


def _six_bit_rule(blocks: Bytes) -> _Rule:
    """Scales d sc and biases -dmin m of the eight runs of a K block; sc and m have six bits."""
    words = np.ascontiguousarray(blocks[:, 4:16]).view("<u4")
    first, second, third = words[:, 0], words[:, 1], words[:, 2]
    six = np.empty((len(blocks), 4), np.uint32)  # four numbers in each word
    six[:, 0], six[:, 2] = first & _SIX, second & _SIX
    six[:, 1] = (third & _FOUR) | ((first >> np.uint32(2)) & _TWO)
    six[:, 3] = ((third >> np.uint32(4)) & _FOUR) | ((second >> np.uint32(2)) & _TWO)
    numbers = six.view(np.uint8).astype(np.float32)
    return _Rule(
        _halves(blocks, 0) * numbers[:, :8],
        -_halves(blocks, 2) * numbers[:, 8:],
    )
