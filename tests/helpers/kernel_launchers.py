"""Who runs a kernel in a test: the GPU where there is one, else the emulator."""

import mlx.core as mx
from metal_emulator import EmulatorLauncher

from metal_kernels.kernel import Launcher, MetalLauncher


def kernel_launcher(*, shuffle: int = 0, check: bool = True) -> Launcher:
    """For tests of results; those that count traffic take the emulator itself.

    shuffle, check: the emulator's own, as in EmulatorLauncher.
    """
    if mx.metal.is_available():
        return MetalLauncher()
    return EmulatorLauncher(shuffle=shuffle, check=check)
