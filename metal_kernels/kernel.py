"""A Metal kernel as a value: its source, one call of it, and who can run that."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

Size = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """What `mx.fast.metal_kernel` is built of; the same text for every call.

    name: a C identifier, unique among our kernels. inputs, outputs: buffer names in order. body:
    MSL of the function, ASCII. header: MSL in front of it. row_contiguous: MLX copies inputs whose
    rows are not contiguous; False leaves them as they are, for bodies that use `<name>_strides`.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    header: str = ""
    row_contiguous: bool = True


class Parameter(NamedTuple):
    """One template argument of a kernel."""

    name: str
    value: mx.Dtype | int | bool


class Output(NamedTuple):
    """One buffer a call fills whole."""

    shape: tuple[int, ...]
    dtype: mx.Dtype


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a kernel: its inputs in order, its outputs, and the threads that do it.

    grid counts threads, not groups, as `mx.fast.metal_kernel` does.
    """

    inputs: tuple[mx.array, ...]
    outputs: tuple[Output, ...]
    grid: Size
    threadgroup: Size
    parameters: tuple[Parameter, ...] = ()


class Launcher(Protocol):
    """Runs kernels: on the GPU, or in tests in the emulator."""

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        """The outputs of one call."""
