"""Blocks of GGUF that MLX cannot hold as they are -> 8 bits in groups of 32, with the error."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf_bits import Bytes

Floats = NDArray[np.float32]
GROUP = 32
_STEPS = np.float32(255)


class OutOfRangeError(ValueError):
    """A value that is not a number, or beyond the type of the scales."""


class RoundedBlocks(NamedTuple):
    """Codes [n, 8 words a group], scales and biases [n, groups], in the type they will be kept in.

    error and size: sums of squares of what was lost and of the values.
    """

    codes: NDArray[np.uint32]
    scales: NDArray[np.floating]
    biases: NDArray[np.floating]
    error: float
    size: float


def round_to_8_bits(values: Floats, dtype: type[np.floating]) -> RoundedBlocks:
    """Values [n, 32 k], from the least to the greatest of a group in 255 steps.

    Codes are chosen for the scales as they will be kept, so an error is at most half a step and
    the rounding of scale and bias to `dtype`. Raises OutOfRangeError.
    """
    groups = values.reshape(-1, GROUP)
    low, high = _across(np.minimum, groups), _across(np.maximum, groups)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = ((high - low) / _STEPS).astype(dtype)
        biases = low.astype(dtype)
    if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
        raise OutOfRangeError
    step, start = scales.astype(np.float32), biases.astype(np.float32)
    scaled = groups - start
    scaled /= np.where(step > 0, step, np.float32(1))
    np.rint(scaled, out=scaled)
    np.clip(scaled, 0, _STEPS, out=scaled)
    codes = scaled.astype(np.uint8)
    scaled *= step
    scaled += start
    scaled -= groups
    n = len(values)
    return RoundedBlocks(
        codes.reshape(n, -1).view("<u4"),
        scales.reshape(n, -1),
        biases.reshape(n, -1),
        float(np.vdot(scaled, scaled)),
        float(np.vdot(groups, groups)),
    )


def _across(pick: np.ufunc, groups: Floats) -> Floats:
    """The least or greatest of each group, [n, 1]; halving is faster than NumPy's own way."""
    width = GROUP
    while width > 1:
        width //= 2
        groups = pick(groups[:, :width], groups[:, width:])
    return groups


def q6_k(blocks: Bytes) -> Floats:
    """d sc (q - 32), sc for 16 elements; gguf-py's formula with fewer passes."""
    low, high = blocks[:, :128].reshape(-1, 2, 2, 32), blocks[:, 128:192].reshape(-1, 2, 32)
    codes = np.empty((len(blocks), 2, 4, 32), np.uint8)
    for part in range(4):
        half = low[:, :, part % 2]
        four = half & np.uint8(15) if part < 2 else half >> np.uint8(4)
        two = (high >> np.uint8(2 * part)) & np.uint8(3)
        codes[:, :, part] = four | (two << np.uint8(4))
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    scales *= np.ascontiguousarray(blocks[:, 208:]).view("<f2").astype(np.float32)
    values: Floats = codes.reshape(-1, 16, 16).astype(np.float32)
    values -= np.float32(32)
    values *= scales[:, :, None]
    return values.reshape(-1, 256)


def q8_k(blocks: Bytes) -> Floats:
    """d q with a float32 d; a working type of ggml that no file should have."""
    scale: Floats = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    return blocks[:, 4:260].view(np.int8).astype(np.float32) * scale


def by_gguf_package(name: str) -> Callable[[Bytes], Floats]:
    """The gguf package's own formula for a type."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType[name]

    def values(blocks: Bytes) -> Floats:
        with np.errstate(all="ignore"):  # a damaged scale is found afterwards, by its value
            computed = dequantize(blocks, kind)
        return np.asarray(computed, np.float32)

    return values


def values_of(name: str) -> Callable[[Bytes], Floats]:
    """Blocks [n, bytes] of type `name` -> values [n, elements]."""
    own: dict[str, Callable[[Bytes], Floats]] = {"Q6_K": q6_k, "Q8_K": q8_k}
    return own.get(name) or by_gguf_package(name)
