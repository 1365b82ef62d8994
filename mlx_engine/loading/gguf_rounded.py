"""Blocks of GGUF that MLX cannot hold as they are -> 8 bits in groups of 32, and the error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf_bits import Bytes, Floats, column, halves

GROUP = 32
_STEPS = np.float32(255)


class OutOfRangeError(ValueError):
    """A value that is not a number, or beyond the type of the scales."""


class RoundedRule(NamedTuple):
    """Scales and biases [groups], in the type they will be kept in."""

    scales: NDArray[np.floating]
    biases: NDArray[np.floating]


def round_to_8_bits(values: Floats, dtype: type[np.floating], codes: Bytes) -> RoundedRule:
    """Values [n, 32 k], from the least to the greatest of a group in 255 steps; eats them.

    Codes are chosen for the scales as they will be kept, so an error is at most half a step and
    the rounding of scale and bias to `dtype`. Raises OutOfRangeError.
    """
    flat = values.reshape(-1)
    low, high = _of_groups(np.minimum, flat), _of_groups(np.maximum, flat)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = ((high - low) / _STEPS).astype(dtype)
        biases = low.astype(dtype)
    if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
        raise OutOfRangeError
    step, groups = scales.astype(np.float32), flat.reshape(-1, GROUP)
    groups -= biases.astype(np.float32)[:, None]
    groups /= np.where(step > 0, step, np.float32(1))[:, None]
    np.rint(flat, out=flat)
    np.clip(flat, 0, _STEPS, out=flat)
    np.copyto(codes, flat, casting="unsafe")
    return RoundedRule(scales, biases)


def _of_groups(pick: np.ufunc, values: Floats) -> Floats:
    """The least or greatest of each 32 neighbours.

    Of every 32 neighbours, wherever they begin, in five passes without gaps; then those are taken
    that begin a group. That is several times faster than going from group to group.
    """
    reach = 1
    while reach < GROUP:
        values = pick(values[:-reach], values[reach:])
        reach *= 2
    return values[::GROUP].copy()


def relative_error(blocks: Bytes, name: str) -> float:
    """What rounding changes, RMS, relative to the values. Raises OutOfRangeError."""
    values = values_of(name)(blocks)
    codes = np.empty(values.size, np.uint8)
    rule = round_to_8_bits(values.copy(), np.float32, codes)
    restored = codes.reshape(-1, GROUP) * rule.scales[:, None] + rule.biases[:, None]
    lost = restored.reshape(values.shape) - values
    size = float(np.vdot(values, values))
    return float(np.sqrt(np.vdot(lost, lost) / size)) if size else 0.0


def q6_k(blocks: Bytes) -> Floats:
    """d sc (q - 32), sc for 16 elements; gguf-py's formula with fewer passes."""
    n = len(blocks)
    low = column(blocks, 0, 128)
    high = column(blocks, 128, 64)
    codes = np.empty((n, 2, 4), "V32")
    for part in range(4):
        two = high << np.uint8(4 - 2 * part) if part < 3 else high >> np.uint8(2)
        codes[:, :, part] = (two & np.uint8(0x30)).view("V32").reshape(n, 2)
    four = np.empty((n, 2, 2, 2), "V32")
    four[:, :, 0] = (low & np.uint8(15)).view("V32").reshape(n, 2, 2)
    four[:, :, 1] = (low >> np.uint8(4)).view("V32").reshape(n, 2, 2)
    six = codes.reshape(-1).view(np.uint8)
    six |= four.reshape(-1).view(np.uint8)
    six -= np.uint8(32)
    scales = column(blocks, 192, 16).view(np.int8).astype(np.float32).reshape(n, 16)
    scales *= halves(blocks, 208)
    values: Floats = six.view(np.int8).astype(np.float32)
    values.reshape(-1, 16)[:] *= scales.reshape(-1, 1)
    return values.reshape(n, 256)


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
            computed: NDArray[Any] = dequantize(blocks, kind)
        return np.array(computed, np.float32)

    return values


def values_of(name: str) -> Callable[[Bytes], Floats]:
    """Blocks [n, bytes] of type `name` -> values [n, elements]."""
    own: dict[str, Callable[[Bytes], Floats]] = {"Q6_K": q6_k, "Q8_K": q8_k}
    return own.get(name) or by_gguf_package(name)
