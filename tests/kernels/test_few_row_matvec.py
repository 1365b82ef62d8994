"""Few-row products: right against float64, each row's bits its own, weights read once."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from compared import normal, wide
from gguf_blocks import random_blocks
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.few_row_matvec import few_row_matvec, reference
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from metal_kernels.weight_formats.mlx_formats import DENSE, MXFP4, NVFP4, affine_format

Arrays = tuple[mx.array, ...]
ALL, SOME = range(1, 9), (3,)
"""Counts of rows compared with nine. A row's order does not know the format: a few do for most."""


def check(
    arrays: Arrays,
    form: WeightFormat,
    width: int,
    dtype: mx.Dtype,
    counts: Sequence[int] = SOME,
) -> None:
    launcher = kernel_launcher()
    x = normal((9, width), 5, dtype)
    weights = np.array(form.dequantise(arrays)).astype(np.float64)
    truth = np.array(x.astype(mx.float32)).astype(np.float64) @ weights.T
    whole = few_row_matvec(x, arrays, form, launcher)
    error = np.abs(np.array(whole.astype(mx.float32)) - truth).max()
    plain = np.abs(np.array(reference(x, arrays, form).astype(mx.float32)) - truth).max()
    assert error <= 2 * plain + 1e-6 * np.abs(truth).max()
    for rows in counts:
        few = few_row_matvec(x[:rows], arrays, form, launcher)
        assert mx.array_equal(few, whole[:rows]).item(), f"{rows} rows"


@pytest.mark.parametrize(
    ("group", "bits"),
    [
        *((64, bits) for bits in (2, 3, 4, 5, 6, 8)),
        *((32, bits) for bits in (3, 4, 6)),
        *((128, bits) for bits in (2, 4, 5)),
    ],
)
def test_affine(group: int, bits: int) -> None:
    width = 384 if group == 128 else 96 * group // 32
    arrays = mx.quantize(normal((13, width), bits, mx.float16), group_size=group, bits=bits)
    counts = {4: ALL, 3: (1, 2, 3, 8)}.get(bits, SOME) if group == 64 else SOME
    check(tuple(arrays), affine_format(bits, group), width, mx.float16, counts)


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_a_weight_is_rounded_once(bits: int) -> None:
    """Each is scale * q + bias to the last bit, however it is unpacked."""
    data = np.random.default_rng(bits).integers(0, 2**32, (7, bits), dtype=np.uint32)
    scales, biases = normal((7, 1), 3, mx.float16), normal((7, 1), 4, mx.float16)
    ones = mx.ones((7, 1))
    codes = mx.dequantize(mx.array(data), ones, mx.zeros_like(ones), 32, bits)
    truth = wide(scales) * wide(codes) + wide(biases)
    eye, arrays = mx.eye(32), (mx.array(data), scales, biases)
    for first in (0, 8, 16, 24):
        mine = few_row_matvec(
            eye[first : first + 8], arrays, affine_format(bits, 32), kernel_launcher()
        )
        assert np.array_equal(np.array(mine), truth[:, first : first + 8].T.astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [(mx.bfloat16, mx.bfloat16), (mx.float32, mx.float32), (mx.bfloat16, mx.float16)],
    ids=str,
)
def test_dtypes_of_rows(dtype: mx.Dtype, stored: mx.Dtype) -> None:
    """Also of a model that was stored in float16 and has outgrown it."""
    arrays = mx.quantize(normal((13, 192), 4, stored), group_size=64, bits=4)
    check(tuple(arrays), affine_format(4, 64), 192, dtype)


@pytest.mark.parametrize(("rows", "width"), [(1, 64), (2, 32), (3, 288), (65, 1056), (5, 17408)])
def test_awkward_sizes(rows: int, width: int) -> None:
    arrays = mx.quantize(normal((rows, width), 4, mx.float16), group_size=32, bits=4)
    check(tuple(arrays), affine_format(4, 32), width, mx.float16)


def test_another_order_of_lanes_changes_nothing() -> None:
    arrays = tuple(mx.quantize(normal((37, 320), 6, mx.float16), bits=4))
    x = normal((5, 320), 7, mx.float16)
    first, *others = (
        few_row_matvec(x, arrays, affine_format(4, 64), kernel_launcher(shuffle=seed))
        for seed in (0, 1, 2, 3)
    )
    assert all(mx.array_equal(first, other).item() for other in others)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_dense(dtype: mx.Dtype) -> None:
    counts = ALL if dtype == mx.float16 else SOME
    check((normal((11, 328), 3, dtype),), DENSE, 328, dtype, counts)


@pytest.mark.parametrize("form", [MXFP4, NVFP4], ids=lambda form: form.name)
def test_four_bit_floats(form: WeightFormat) -> None:
    group = 32 if form.name == "mxfp4" else 16
    arrays = mx.quantize(normal((9, 352), 4, mx.float32), group_size=group, bits=4, mode=form.name)
    check(tuple(arrays), form, 352, mx.bfloat16)


@pytest.mark.parametrize("form", [MXFP4, NVFP4], ids=lambda form: form.name)
def test_every_scale_of_four_bit_floats(form: WeightFormat) -> None:
    """Row n has scale byte n; the last ones of each kind are no numbers, and stay so."""
    words = mx.broadcast_to(mx.array([0x76543210, 0xFEDCBA98] * 2, dtype=mx.uint32), (256, 4))
    groups = 1 if form.name == "mxfp4" else 2
    scales = mx.broadcast_to(mx.arange(256).astype(mx.uint8)[:, None], (256, groups))
    arrays = (mx.contiguous(words), mx.contiguous(scales))
    eye = mx.eye(32)[3:11].astype(mx.float32)
    y = few_row_matvec(eye, arrays, form, kernel_launcher())
    truth = form.dequantise(arrays)[:, 3:11].T
    numbers = 255 if form.name == "mxfp4" else 256  # 255 is no number: NaN here, infinite in MLX
    assert mx.array_equal(y[:, :numbers], truth[:, :numbers], equal_nan=True).item()
    assert not mx.any(mx.isfinite(y[1:, numbers:])).item()


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_blocks_of_gguf(name: str) -> None:
    data = random_blocks(name.upper(), 7, 16 if name == "iq4_nl" else 2, seed=3, scale=0.01)
    check((mx.array(data),), BLOCK_FORMS[name], 512, mx.float16)


@pytest.mark.parametrize("rows", range(1, 9))
def test_weights_are_read_once(rows: int) -> None:
    launcher = EmulatorLauncher()
    form = affine_format(4, 64)
    arrays = tuple(mx.quantize(normal((96, 512), 1, mx.float16), group_size=64, bits=4))
    few_row_matvec(normal((rows, 512), 2, mx.float16), arrays, form, launcher)
    assert launcher.last.buffers["w"].times_read == 1
