"""Blocks of GGUF with a rule for every 16 elements, as signed codes and their rules."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import (
    Bytes,
    Floats,
    Scratch,
    add_bits,
    byte_codes,
    column,
    halves,
    two_bit_codes,
)

RUN = 16


class Runs(NamedTuple):
    """w = scale * code + offset: codes [elements], scales and offsets [runs of 16]."""

    codes: NDArray[np.int8]
    scales: Floats
    offsets: Floats


def q6_k(blocks: Bytes, scratch: Scratch) -> Runs:
    """d sc (q - 32), sc for 16 elements."""
    codes = byte_codes(column(blocks, 0, 128, scratch), 64, scratch)
    add_bits(codes, column(blocks, 128, 64, scratch), 2, 4, scratch)
    scales = column(blocks, 192, 16, scratch).view(np.int8).reshape(-1, 16)
    return _centred(codes, 32, halves(blocks, 208) * scales.astype(np.float32))


def q2_k(blocks: Bytes, scratch: Scratch) -> Runs:
    """d sc q - dmin m, sc and m of four bits for 16 elements."""
    both = column(blocks, 0, 16, scratch).reshape(-1, 16)
    scales = halves(blocks, 80) * (both & np.uint8(15)).astype(np.float32)
    offsets = -halves(blocks, 82) * (both >> np.uint8(4)).astype(np.float32)
    codes = two_bit_codes(column(blocks, 16, 64, scratch), scratch)
    return Runs(codes.view(np.int8), scales.reshape(-1), offsets.reshape(-1))


def q8_k(blocks: Bytes, scratch: Scratch) -> Runs:
    """d q with a float32 d for 256; a working type of ggml that no file should have."""
    scales = np.repeat(column(blocks, 0, 4, scratch).view("<f4"), 256 // RUN)
    codes = column(blocks, 4, 256, scratch).view(np.int8)
    return Runs(codes, scales, np.zeros_like(scales))


RUNS: dict[str, Callable[[Bytes, Scratch], Runs]] = {"Q2_K": q2_k, "Q6_K": q6_k, "Q8_K": q8_k}


def _centred(codes: Bytes, middle: int, scales: Floats) -> Runs:
    """For codes that stand for code - middle; eats codes."""
    codes -= np.uint8(middle)
    flat = scales.reshape(-1)
    return Runs(codes.view(np.int8), flat, np.zeros_like(flat))
