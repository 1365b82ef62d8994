"""The noise kernel's bits are those of the plain ops, which the engine uses too."""

import mlx.core as mx
from kernel_launchers import kernel_launcher

from metal_kernels.noise import gumbel_noise, reference
from mlx_engine.sampling import position_noise


def test_the_kernel_has_the_same_bits() -> None:
    keys = position_noise.row_keys(7, range(3, 9))
    kernel = gumbel_noise(keys, 5001, kernel_launcher())
    assert mx.array_equal(kernel, reference(keys, 5001)).item()
