"""A kernel on inputs of its own, beside its reference and stock MLX."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels.kernel import Launcher

Run = Callable[[mx.array], mx.array]


class Ours(Protocol):
    """A kernel that somebody runs."""

    def __call__(self, x: mx.array, by: Launcher) -> mx.array:
        """The result for x."""


class Case(NamedTuple):
    """A kernel with weights or a cache of its own, for x and results whose first axis is the row.

    x: rows -> inputs. exact_reference: the reference has the kernel's own bits, or picks tokens.
    """

    x: Callable[[int], mx.array]
    ours: Ours
    reference: Run
    stock: Run
    exact_reference: bool = False


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Random numbers, the same for the same seed."""
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)
