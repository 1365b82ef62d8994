"""Runs our kernels in the emulator, where the product runs them on the GPU: the same text."""

from collections.abc import Sequence

import mlx.core as mx

from metal_emulator.kernel import metal_kernel
from metal_emulator.report import Report
from metal_kernels.kernel import Launch


class EmulatorLauncher:
    """A metal_kernels.kernel.Launcher. reports: of all calls so far, in order."""

    def __init__(
        self,
        *,
        shuffle: int = 0,
        check: bool = True,
        seconds: float = 30.0,
        arithmetic: bool = False,
        lint: bool = False,
    ) -> None:
        self.reports: list[Report] = []
        self._shuffle = shuffle
        self._check = check
        self._seconds = seconds
        self._arithmetic = arithmetic
        self._lint = lint

    @property
    def last(self) -> Report:
        """Of the last call. Raises IndexError before the first."""
        return self.reports[-1]

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """The outputs, evaluated. Raises EmulatorError."""
        source = launch.pipeline.source
        kernel = metal_kernel(
            name=source.name,
            input_names=source.inputs,
            output_names=source.outputs,
            source=launch.pipeline.body,
            header=source.preamble,
            ensure_row_contiguous=source.row_contiguous,
            shuffle=self._shuffle,
            check=self._check,
            seconds=self._seconds,
            arithmetic=self._arithmetic,
            lint=self._lint,
        )
        outputs = kernel(
            inputs=inputs,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=launch.shapes,
            output_dtypes=launch.dtypes,
        )
        self.reports.append(kernel.last)
        return outputs
