"""A Metal kernel as a value: its source, one call of it, and who runs that, here the GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import mlx.core as mx

Size = tuple[int, int, int]

UNROLL = '#define UNROLL _Pragma("clang loop unroll(full)")\n'
"""Stands before a loop that walks an array in registers, over a count known when it is compiled.

An array whose index is not known then lies in memory and not in registers; verify kernels were seen
to lose most of their speed so. Compilers that do not know the pragma pass over it.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """What `mx.fast.metal_kernel` is built of; the same text for every call.

    name: a C identifier, unique among our kernels. inputs, outputs: buffer names in order. body:
    MSL of the function, ASCII. header: MSL in front of it; both may use UNROLL. row_contiguous:
    MLX copies inputs whose rows are not contiguous; False leaves them as they are, for bodies that
    use `<name>_strides`.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    header: str = ""
    row_contiguous: bool = True

    @property
    def preamble(self) -> str:
        """All that stands in front of the function."""
        return UNROLL + self.header


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


class MetalLauncher:
    """The launcher of the product. Only where `mx.metal.is_available()`; the call raises elsewhere.

    Outputs are lazy. MLX compiles a source once for each set of template arguments and dtypes.
    """

    def __init__(self) -> None:
        self._built: dict[str, Callable[..., list[mx.array]]] = {}

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        """The outputs of one call."""
        outputs = self._kernel(source)(
            inputs=list(call.inputs),
            template=[(name, value) for name, value in call.parameters] or None,
            grid=call.grid,
            threadgroup=call.threadgroup,
            output_shapes=[output.shape for output in call.outputs],
            output_dtypes=[output.dtype for output in call.outputs],
        )
        return tuple(outputs)

    def _kernel(self, source: Source) -> Callable[..., list[mx.array]]:
        if source.name not in self._built:
            built = mx.fast.metal_kernel(
                name=source.name,
                input_names=list(source.inputs),
                output_names=list(source.outputs),
                source=source.body,
                header=source.preamble,
                ensure_row_contiguous=source.row_contiguous,
            )
            # MLX's own stub calls it an object
            self._built[source.name] = cast(Callable[..., list[mx.array]], built)
        return self._built[source.name]
