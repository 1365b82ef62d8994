"""Who runs a kernel in a test: the GPU where there is one, else the emulator."""

from collections.abc import Sequence

import mlx.core as mx
from metal_emulator import EmulatorLauncher

from metal_kernels.kernel import Launch, Launcher, MetalLauncher


def kernel_launcher(*, shuffle: int = 0, check: bool = True) -> Launcher:
    """For tests of results; those that count traffic take the emulator itself.

    shuffle, check: the emulator's own, as in EmulatorLauncher.
    """
    if mx.metal.is_available():
        return MetalLauncher()
    return EmulatorLauncher(shuffle=shuffle, check=check)


class CountingLauncher:
    """Runs kernels by another launcher; pipelines: what MLX would compile, one a set of types and
    parameters.
    """

    def __init__(self, inner: Launcher) -> None:
        self._inner = inner
        self.pipelines: set[tuple[object, ...]] = set()

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        types = tuple((one.dtype, one.ndim == 0, one.size < 8) for one in inputs)
        self.pipelines.add((launch.pipeline.name, types))
        return self._inner.run(launch, inputs)
