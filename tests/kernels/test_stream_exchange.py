"""Shares of residual streams: near float64, each row by itself, and in a model's streams."""

import mlx.core as mx
import numpy as np
import pytest
from kernel_launchers import kernel_launcher

from metal_kernels.stream_exchange import reference, stream_exchange


@pytest.mark.parametrize(("streams", "steps", "eps"), [(2, 1, 1e-6), (3, 4, 0.01), (4, 20, 1e-6)])
def test_shares_are_those_of_float64(streams: int, steps: int, eps: float) -> None:
    raw = 3 * mx.random.normal((5, streams**2), key=mx.random.key(1))
    scale, base = mx.array([0.7]), mx.random.normal((streams, streams), key=mx.random.key(2))
    launcher = kernel_launcher(shuffle=7)
    made = stream_exchange(raw, scale, base, steps, eps, launcher)
    wanted = np.exp(np.array(raw, np.float64).reshape(5, streams, streams) * 0.7 + np.array(base))
    wanted = wanted / wanted.sum(axis=-1, keepdims=True) + eps
    for step in range(1, 2 * steps):
        wanted = wanted / (wanted.sum(axis=-2 if step % 2 else -1, keepdims=True) + eps)
    np.testing.assert_allclose(made, wanted, rtol=3e-5)
    np.testing.assert_allclose(reference(raw, scale, base, steps, eps), wanted, rtol=3e-5)
    for row in range(5):
        alone = stream_exchange(raw[row : row + 1], scale, base, steps, eps, launcher)
        assert mx.array_equal(alone, made[row : row + 1]).item()
