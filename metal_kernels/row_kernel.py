"""What kernels around the few-row product share: how they are named, cut into threads and called.

A pass calls hundreds of them, so what does not change from call to call is made once.
"""

from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from metal_kernels.kernel import Call, Launcher, Output, Parameter, Source
from metal_kernels.weight_formats.contract import WeightFormat

MOST_ROWS = 8
MOST_ACCUMULATORS = 24
GROUPS_TOGETHER = 2
"""SIMD-groups of a threadgroup; they share nothing."""


@dataclass(frozen=True, slots=True)
class RowKernel:
    """before, after: its buffers on both sides of the matrix's; outputs: those it fills."""

    name: str
    body: str
    before: tuple[str, ...] = ("x",)
    after: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    header: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a call is cut: M rows, R weight rows a SIMD-group, of which there are `simds`."""

    count: int
    together: int
    simds: int
    deep: int = 1

    @property
    def grid(self) -> tuple[int, int, int]:
        """In threads; whole threadgroups."""
        return (32 * -(-self.simds // GROUPS_TOGETHER) * GROUPS_TOGETHER, self.deep, 1)


def weight_rows(rows: int) -> int:
    """R: weight rows of a SIMD-group when x has `rows` rows."""
    assert 1 <= rows <= MOST_ROWS, rows
    return min(4, MOST_ACCUMULATORS // rows)


def run_rows(
    kernel: RowKernel,
    form: WeightFormat,
    inputs: tuple[mx.array, ...],
    outputs: tuple[Output, ...],
    cut: Cut,
    launcher: Launcher,
    extra: tuple[Parameter, ...] = (),
) -> tuple[mx.array, ...]:
    """One call; inputs in the order of the buffers, the first of them of the activations' dtype."""
    call = Call(
        inputs=inputs,
        outputs=outputs,
        grid=cut.grid,
        threadgroup=(32 * GROUPS_TOGETHER, 1, 1),
        parameters=_parameters(form, inputs[0].dtype, cut.count, cut.together, extra),
    )
    return launcher.run(source_of(kernel, form), call)


@cache
def source_of(kernel: RowKernel, form: WeightFormat) -> Source:
    """The kernel for matrices of this form."""
    return Source(
        name=f"{kernel.name}_{form.name}",
        inputs=(*kernel.before, *form.buffers, *kernel.after),
        outputs=kernel.outputs,
        body=kernel.body,
        header=kernel.header + form.header,
    )


@cache
def _parameters(
    form: WeightFormat, dtype: mx.Dtype, count: int, together: int, extra: tuple[Parameter, ...]
) -> tuple[Parameter, ...]:
    return (
        Parameter("T", dtype),
        Parameter("M", count),
        Parameter("R", together),
        Parameter("SIMDS", GROUPS_TOGETHER),
        *extra,
        *form.parameters,
    )
