"""The noise kernel's bits are those of the plain ops and of the engine's own noise."""

import mlx.core as mx
from kernel_launchers import kernel_launcher

from metal_kernels.noise import gumbel_noise, reference
from mlx_engine.sampling import position_noise


def test_the_plain_ops_and_the_engine_agree() -> None:
    keys = position_noise.row_keys(2**63 + 11, range(5))
    mine = reference(keys, 1003)
    assert mx.array_equal(mine, position_noise.gumbel_noise(2**63 + 11, range(5), 1003)).item()


def test_the_kernel_has_the_same_bits() -> None:
    keys = position_noise.row_keys(7, range(3, 9))
    kernel = gumbel_noise(keys, 5001, kernel_launcher())
    assert mx.array_equal(kernel, reference(keys, 5001)).item()
