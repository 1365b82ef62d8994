"""Who runs a kernel in a test: the GPU where there is one, else the emulator."""

import mlx.core as mx
from metal_emulator import EmulatorLauncher

from metal_kernels.kernel import Call, Launcher, MetalLauncher, Source


def kernel_launcher(*, shuffle: int = 0, check: bool = True) -> Launcher:
    """For tests of results; those that count traffic take the emulator itself.

    shuffle, check: the emulator's own, as in EmulatorLauncher.
    """
    if mx.metal.is_available():
        return MetalLauncher()
    return EmulatorLauncher(shuffle=shuffle, check=check)


class CountingLauncher:
    """Runs kernels by another launcher; pipelines: what MLX would compile, one a set of types and
    template arguments.
    """

    def __init__(self, inner: Launcher) -> None:
        self._inner = inner
        self.pipelines: set[tuple[object, ...]] = set()

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        types = tuple((one.dtype, one.ndim == 0, one.size < 8) for one in call.inputs)
        self.pipelines.add((source.name, call.parameters, types))
        return self._inner.run(source, call)
