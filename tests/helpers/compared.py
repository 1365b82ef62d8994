"""Random arrays, the same for the same seed, and how far two arrays are from each other."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def halves(shape: tuple[int, ...], seed: int) -> mx.array:
    return normal(shape, seed, mx.float16)


def wide(array: mx.array) -> NDArray[np.float64]:
    return np.array(array.astype(mx.float32)).astype(np.float64)


def relative(found: NDArray, wanted: NDArray) -> float:
    """The largest difference over the largest value wanted."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
