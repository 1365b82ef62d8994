"""Few-row products: right against float64, each row's bits its own, weights read once."""

import mlx.core as mx
import numpy as np
import pytest
from metal_emulator import EmulatorLauncher

from metal_kernels.few_row_matvec import few_row_matvec, reference
from metal_kernels.weight_formats.affine import affine
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.dense import dense

Arrays = tuple[mx.array, ...]


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def check(arrays: Arrays, form: WeightFormat, width: int, dtype: mx.Dtype) -> None:
    launcher = EmulatorLauncher()
    x = normal((8, width), 5, dtype)
    weights = np.array(form.dequantise(arrays)).astype(np.float64)
    truth = np.array(x.astype(mx.float32)).astype(np.float64) @ weights.T
    whole = few_row_matvec(x, arrays, form, launcher)
    error = np.abs(np.array(whole.astype(mx.float32)) - truth).max()
    plain = np.abs(np.array(reference(x, arrays, form).astype(mx.float32)) - truth).max()
    assert error <= 2 * plain + 1e-6 * np.abs(truth).max()
    for rows in range(1, 8):
        few = few_row_matvec(x[:rows], arrays, form, launcher)
        assert mx.array_equal(few, whole[:rows]).item(), f"{rows} rows"


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_affine(bits: int, group: int) -> None:
    width = 384 if group == 128 else 96 * group // 32
    arrays = mx.quantize(normal((13, width), bits, mx.float16), group_size=group, bits=bits)
    check(tuple(arrays), affine(bits, group), width, mx.float16)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_dense(dtype: mx.Dtype) -> None:
    check((normal((11, 328), 3, dtype),), dense(dtype), 328, dtype)


@pytest.mark.parametrize("rows", range(1, 9))
def test_weights_are_read_once(rows: int) -> None:
    launcher = EmulatorLauncher()
    form = affine(4, 64)
    arrays = tuple(mx.quantize(normal((96, 512), 1, mx.float16), group_size=64, bits=4))
    few_row_matvec(normal((rows, 512), 2, mx.float16), arrays, form, launcher)
    assert launcher.last.buffers["w"].times_read == 1
