"""Runs our kernels in the emulator, where the product runs them on the GPU: the same text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import mlx.core as mx

from metal_emulator.kernel import EmulatedKernel, metal_kernel
from metal_emulator.launch import Dispatch, Options
from metal_emulator.registers import Registers
from metal_emulator.report import Report
from metal_kernels.kernel import Launch, Pipeline


def kernel_of(pipeline: Pipeline) -> EmulatedKernel:
    """Ours, as the emulator's."""
    source = pipeline.source
    return metal_kernel(
        name=source.name,
        input_names=source.inputs,
        output_names=source.outputs,
        source=pipeline.body,
        header=source.msl_preamble,
        ensure_row_contiguous=source.row_contiguous,
    )


class EmulatorLauncher:
    """A metal_kernels.kernel.Launcher. reports: of all calls so far, in order."""

    def __init__(self, **options: int | bool | float) -> None:
        """options: those of Options."""
        self.reports: list[Report] = []
        self._options = Options(**options)
        self._kernels: dict[Pipeline, EmulatedKernel] = {}

    @property
    def last(self) -> Report:
        """Of the last call. Raises IndexError before the first."""
        return self.reports[-1]

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """The outputs, evaluated. Raises EmulatorError."""
        kernel = self._kernels.get(launch.pipeline)
        if kernel is None:
            kernel = replace(kernel_of(launch.pipeline), options=self._options)
            self._kernels[launch.pipeline] = kernel
        outputs = kernel(
            inputs=inputs,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=launch.shapes,
            output_dtypes=launch.dtypes,
        )
        self.reports.append(kernel.last)
        return outputs


class Counted(NamedTuple):
    """What one run of a pipeline asks for. threads: of a threadgroup; grid: in threads."""

    pipeline: Pipeline
    threads: int
    grid: tuple[int, int, int]
    need: Registers

    def fits(self, generation: int) -> bool:
        """Whether a chip of this generation takes the threadgroup."""
        return self.threads <= self.need.most_threads(generation)


class RegisterLauncher:
    """A metal_kernels.kernel.Launcher that runs nothing and counts registers; outputs are zeros.

    runs: of all so far, in order.
    """

    def __init__(self) -> None:
        self.runs: list[Counted] = []

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """Zeros. Raises EmulatorError of kind "lint"."""
        need = kernel_of(launch.pipeline).registers(inputs, launch.dtypes)
        threads = Dispatch(launch.grid, launch.threadgroup).threads
        self.runs.append(Counted(launch.pipeline, threads, launch.grid, need))
        return [mx.zeros(*one) for one in zip(launch.shapes, launch.dtypes, strict=True)]
