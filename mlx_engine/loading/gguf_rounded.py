"""Blocks of GGUF that MLX cannot hold as they are -> 8 bits in groups of 32, and the error."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf_bits import (
    Bytes,
    Floats,
    add_bit_planes,
    column,
    halves,
    two_bit_codes,
)
from mlx_engine.loading.gguf_types import BlockType

GROUP = 32
_STEPS = np.float32(255)
ValuesOf = Callable[[Bytes, Floats], None]
"""Blocks [n, bytes], and where their values go [n * elements]."""


class OutOfRangeError(ValueError):
    """A value that is not a number, or beyond the type of the scales."""


class RoundedRule(NamedTuple):
    """Scales and biases [groups], in the type they will be kept in."""

    scales: NDArray[np.floating]
    biases: NDArray[np.floating]


class Rounding:
    """Values, from the least to the greatest of each group of 32, in 255 steps.

    Keeps its working memory from one call to the next: fresh memory costs more than the sums.
    """

    def __init__(self, name: str, dtype: type[np.floating]) -> None:
        """name: of the blocks' type; dtype: of the scales, float32 or float16."""
        self._values_of = values_of(name)
        self._dtype = dtype
        self._scratch = np.empty((3, 0), np.float32)

    def __call__(self, blocks: Bytes, count: int, codes: Bytes) -> RoundedRule:
        """Blocks of `count` values in all; writes their codes. Raises OutOfRangeError.

        Codes are chosen for the scales as they will be kept, so an error is at most half a step
        and the rounding of scale and bias to `dtype`.
        """
        if self._scratch.shape[1] < count:
            self._scratch = np.empty((3, count), np.float32)
        values = self._scratch[0, :count]
        self._values_of(blocks, values)
        low, high = self._of_groups(np.minimum, values), self._of_groups(np.maximum, values)
        with np.errstate(over="ignore", invalid="ignore"):
            scales = ((high - low) / _STEPS).astype(self._dtype)
            biases = low.astype(self._dtype)
        if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
            raise OutOfRangeError
        step, groups = scales.astype(np.float32), values.reshape(-1, GROUP)
        groups -= biases.astype(np.float32)[:, None]
        groups /= np.where(step > 0, step, np.float32(1))[:, None]
        np.rint(values, out=values)
        np.clip(values, 0, _STEPS, out=values)
        np.copyto(codes, values, casting="unsafe")
        return RoundedRule(scales, biases)

    def _of_groups(self, pick: np.ufunc, values: Floats) -> Floats:
        """The least or greatest of each group.

        Of every 32 neighbours, wherever they begin, in five passes without gaps; then those are
        taken that begin a group. That is several times faster than going from group to group.
        """
        reach, left = 1, len(values)
        while reach < GROUP:
            left -= reach
            target = self._scratch[1 + reach.bit_length() % 2, :left]
            pick(values[:left], values[reach : reach + left], out=target)
            values, reach = target, 2 * reach
        return values[::GROUP].copy()


def relative_error(blocks: Bytes, kind: BlockType) -> float:
    """What rounding changes, RMS, relative to the values. Raises OutOfRangeError."""
    count = len(blocks) * kind.elements
    values, codes = np.empty(count, np.float32), np.empty(count, np.uint8)
    values_of(kind.name)(blocks, values)
    rule = Rounding(kind.name, np.float32)(blocks, count, codes)
    restored = codes.reshape(-1, GROUP) * rule.scales[:, None] + rule.biases[:, None]
    lost = restored.reshape(-1) - values
    size = float(np.vdot(values, values))
    return float(np.sqrt(np.vdot(lost, lost) / size)) if size else 0.0


def q6_k(blocks: Bytes, values: Floats) -> None:
    """d sc (q - 32), sc for 16 elements."""
    n = len(blocks)
    low, high = column(blocks, 0, 128), column(blocks, 128, 64)
    six, two = np.empty(n * 256, np.uint8), np.empty(n * 256, np.uint8)
    four = six.view("V32").reshape(n, 2, 2, 2)
    four[:, :, 0] = (low & np.uint8(15)).view("V32").reshape(n, 2, 2)
    four[:, :, 1] = (low >> np.uint8(4)).view("V32").reshape(n, 2, 2)
    for part in range(4):
        bits = high << np.uint8(4 - 2 * part) if part < 3 else high >> np.uint8(2)
        two.view("V32").reshape(n, 2, 4)[:, :, part] = bits.view("V32").reshape(n, 2)
    two &= np.uint8(0x30)
    six |= two
    scales = column(blocks, 192, 16).view(np.int8).reshape(n, 16)
    _scale(six, 32, halves(blocks, 208) * scales.astype(np.float32), values)


def q3_k(blocks: Bytes, values: Floats) -> None:
    """d (sc - 32) (q - 4), sc of four low and two high bits for 16 elements."""
    four = column(blocks, 96, 8).reshape(-1, 8)
    two = column(blocks, 104, 4).reshape(-1, 1, 4) >> np.array([[0], [2], [4], [6]], np.uint8)
    six = (two.reshape(-1, 16) & np.uint8(3)) << np.uint8(4)
    six |= np.concatenate([four & np.uint8(15), four >> np.uint8(4)], axis=1)
    codes = two_bit_codes(column(blocks, 32, 64))
    add_bit_planes(codes, column(blocks, 0, 32), 2)
    scales = halves(blocks, 108) * (six.astype(np.float32) - np.float32(32))
    _scale(codes, 4, scales, values)


def q2_k(blocks: Bytes, values: Floats) -> None:
    """d sc q - dmin m, sc and m of four bits for 16 elements."""
    both = column(blocks, 0, 16).reshape(-1, 16)
    scales = halves(blocks, 80) * (both & np.uint8(15)).astype(np.float32)
    _scale(two_bit_codes(column(blocks, 16, 64)), 0, scales, values)
    runs = values.reshape(-1, 16)
    runs -= (halves(blocks, 82) * (both >> np.uint8(4)).astype(np.float32)).reshape(-1, 1)


def _scale(codes: Bytes, middle: int, scales: Floats, values: Floats) -> None:
    """Writes (code - middle) times the scale of its run of 16; eats codes."""
    codes -= np.uint8(middle)
    np.copyto(values, codes.view(np.int8))
    runs = values.reshape(-1, 16)
    runs *= scales.reshape(-1, 1)


def q8_k(blocks: Bytes, values: Floats) -> None:
    """d q with a float32 d; a working type of ggml that no file should have."""
    scale: Floats = column(blocks, 0, 4).view("<f4")
    np.copyto(values, column(blocks, 4, 256).view(np.int8))
    runs = values.reshape(-1, 256)
    runs *= scale[:, None]


def by_gguf_package(name: str) -> ValuesOf:
    """The gguf package's own formula for a type."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType[name]

    def write(blocks: Bytes, values: Floats) -> None:
        with np.errstate(all="ignore"):  # a damaged scale is found afterwards, by its value
            values[:] = dequantize(blocks, kind).reshape(-1)

    return write


def values_of(name: str) -> ValuesOf:
    """For blocks of type `name`."""
    own: dict[str, ValuesOf] = {"Q2_K": q2_k, "Q3_K": q3_k, "Q6_K": q6_k, "Q8_K": q8_k}
    return own.get(name) or by_gguf_package(name)
