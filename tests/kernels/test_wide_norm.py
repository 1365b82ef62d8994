"""Norms by float32 weights: near float64, rounded once, each row by itself."""

import mlx.core as mx
import numpy as np
import pytest
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.wide_norm import reference, wide_norm

EPS = 1e-6


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
@pytest.mark.parametrize("size", [9, 33, 128, 512, 513, 2880])
def test_a_norm_is_rounded_once(size: int, dtype: mx.Dtype) -> None:
    x = (3 * mx.random.normal((5, size), key=mx.random.key(1))).astype(dtype)
    weight = 1 + 0.3 * mx.random.normal((size,), key=mx.random.key(2))
    made = wide_norm(x, weight, EPS, kernel_launcher())
    assert (made.shape, made.dtype) == (x.shape, dtype)
    values = np.array(x.astype(mx.float32), np.float64)
    wanted = values / np.sqrt((values**2).mean(axis=-1, keepdims=True) + EPS) * np.array(weight)
    step = 2.0**-8 if dtype == mx.bfloat16 else 2.0**-11
    assert (
        np.abs(np.array(made.astype(mx.float32)) - wanted)
        <= 0.501 * step * 2 * np.abs(wanted) + 1e-7
    ).all()
    plain = reference(x, weight, EPS)
    assert mx.allclose(made.astype(mx.float32), plain.astype(mx.float32), rtol=2 * step).item()


def test_a_row_has_its_bits_whatever_lies_beside_it() -> None:
    x = mx.random.normal((1, 4, 6, 64), key=mx.random.key(3)).astype(mx.bfloat16)
    weight = mx.random.normal((64,), key=mx.random.key(4))
    launcher = kernel_launcher(shuffle=7)
    whole = wide_norm(x, weight, EPS, launcher)
    for row in range(4):
        alone = wide_norm(x[:, row : row + 1], weight, EPS, launcher)
        assert mx.array_equal(alone, whole[:, row : row + 1]).item()


def test_heads_may_have_a_weight_each() -> None:
    """Six heads in turns, as queries and keys lie side by side: the bits of each by its own."""
    x = mx.random.normal((1, 3, 6, 64), key=mx.random.key(3)).astype(mx.bfloat16)
    weights = mx.random.normal((6, 64), key=mx.random.key(4))
    launcher = kernel_launcher()
    whole = wide_norm(x, weights, EPS, launcher)
    plain = reference(x, weights, EPS)
    for head in range(6):
        alone = wide_norm(x[:, :, head], weights[head], EPS, launcher)
        assert mx.array_equal(alone, whole[:, :, head]).item()
        assert mx.array_equal(reference(x[:, :, head], weights[head], EPS), plain[:, :, head])


def test_weights_are_read_once_a_row_and_all_checks_pass() -> None:
    launcher = EmulatorLauncher()
    x = mx.random.normal((3, 1024), key=mx.random.key(5)).astype(mx.bfloat16)
    mx.eval(wide_norm(x, mx.ones((1024,)), EPS, launcher))
    assert launcher.reports[-1].buffers["w"].times_read == pytest.approx(3)
