"""A kernel's inputs: arrays, plain numbers, and arrays with strides of their own."""

import math
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from metal_emulator import wrapper
from metal_emulator.launch import Given, Wanted

Scalar = bool | int | float


@dataclass(frozen=True, slots=True)
class Strided:
    """An input whose rows are not contiguous: `shape` read out of `base`, strides in elements.

    mx.array tells nobody its strides, so kernels made with ensure_row_contiguous=False are tested
    with these. Others get a contiguous copy, as MLX makes one. The kernel's pointer is to element
    `offset` of the flattened base; what lies before it counts as out of bounds.
    """

    base: mx.array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> mx.Dtype:
        """The base's."""
        return self.base.dtype

    def contiguous(self) -> mx.array:
        """The elements it stands for, row-major."""
        return mx.contiguous(mx.as_strided(self.base, self.shape, self.strides, self.offset))


Input = mx.array | Strided


def as_input(value: Input | Scalar, row_contiguous: bool) -> Input:
    """Numbers as MLX takes them: bool, int32 or float32 of no dimension."""
    if isinstance(value, Strided):
        return value.contiguous() if row_contiguous else value
    if isinstance(value, mx.array):
        return value
    if isinstance(value, bool):
        return mx.array(value, dtype=mx.bool_)
    return mx.array(value, dtype=mx.int32 if isinstance(value, int) else mx.float32)


def with_shapes(names: list[str], inputs: list[Input], source: str) -> list[Given | Wanted]:
    """The inputs, and the shape, strides and rank of those whose source asks for them."""
    found: list[Given | Wanted] = []
    for name, value in zip(names, inputs, strict=True):
        found.append(Given(name, _data(value)))
        if value.ndim > 0:
            asked = wrapper.asked_of(name, source)
            found += [Given(f"{name}_{what}", _told(what, value)) for what in asked]
    return found


def _told(what: str, value: Input) -> np.ndarray:
    if what == "shape":
        return np.array(value.shape, np.int32)
    if what == "strides":
        return np.array(_strides(value), np.int64)
    return np.array(value.ndim, np.int32)


def _data(value: Input) -> mx.array:
    return value.base.reshape(-1)[value.offset :] if isinstance(value, Strided) else value


def _strides(value: Input) -> list[int]:
    """In elements; of an array, those of its row-major order."""
    if isinstance(value, Strided):
        return list(value.strides)
    return [math.prod(value.shape[axis + 1 :]) for axis in range(value.ndim)]
