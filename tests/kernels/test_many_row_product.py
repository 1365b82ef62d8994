"""Products of many rows by stored blocks: right against float64, rows their own, unpacked once."""

import mlx.core as mx
import numpy as np
import pytest
from compared import normal, wide
from gguf_blocks import random_blocks
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher, RegisterLauncher
from metal_emulator.registers import M1
from numpy.typing import NDArray

from metal_kernels.many_row_product import (
    experts_reference,
    many_row_experts,
    many_row_product,
    reference,
)
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

ROUNDING = {mx.float32: 2e-6, mx.float16: 1e-3, mx.bfloat16: 8e-3}


def blocks(form: str, rows: int, width: int) -> mx.array:
    """[rows, bytes] of values of all sizes, both signs."""
    elements = 32 if form == "iq4_nl" else 256
    data = random_blocks(form.upper(), rows, width // elements, rows + width)
    return mx.array(data)


def apart(mine: mx.array, truth: NDArray[np.float64]) -> float:
    return float(np.abs(wide(mine) - truth).max() / np.abs(truth).max())


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_every_form_and_type(name: str, dtype: mx.Dtype) -> None:
    form, weights = BLOCK_FORMS[name], (blocks(name, 37, 512),)
    x = normal((41, 512), 3, dtype) / 1024  # so that float16 holds the products
    mine = many_row_product(x, weights, form, kernel_launcher())
    assert mine.dtype == dtype
    assert apart(mine, wide(x) @ wide(form.dequantise(weights)).T) < ROUNDING[dtype]
    plain = reference(x, weights, form)
    assert apart(mine, wide(plain)) < 2 * ROUNDING[dtype]


@pytest.mark.parametrize(
    ("rows", "outputs", "width", "name"),
    [
        (1, 1, 256, "q6_k"),
        (10, 64, 256, "q3_k"),
        (63, 65, 256, "iq2_s"),
        (64, 130, 768, "q2_k"),
        (65, 7, 96, "iq4_nl"),
        (129, 64, 32, "iq4_nl"),
        (200, 3, 256, "iq4_xs"),
        (2048, 66, 256, "q6_k"),
        (11, 9, 17408, "q6_k"),
        (70, 40, 17408, "iq4_xs"),
    ],
)
def test_awkward_sizes(rows: int, outputs: int, width: int, name: str) -> None:
    form, weights = BLOCK_FORMS[name], (blocks(name, outputs, width),)
    x = normal((rows, width), 5)
    mine = many_row_product(x, weights, form, kernel_launcher())
    assert mine.shape == (rows, outputs)
    truth = wide(x) @ wide(form.dequantise(weights)).T
    assert apart(mine, truth) < 4e-7 * width**0.5


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    form, weights, launcher = BLOCK_FORMS["q3_k"], (blocks("q3_k", 70, 512),), kernel_launcher()
    x = normal((100, 512), 6, mx.float16) / 1024
    whole = many_row_product(x, weights, form, launcher)
    for rows in (slice(0, 1), slice(3, 40), slice(60, 77), slice(90, 100)):
        few = many_row_product(x[rows], weights, form, launcher)
        assert mx.array_equal(few, whole[rows]).item(), rows


def test_another_order_of_lanes_changes_nothing() -> None:
    form, weights = BLOCK_FORMS["iq2_xs"], (blocks("iq2_xs", 70, 512),)
    x = normal((35, 512), 7, mx.bfloat16)
    first, *others = (
        many_row_product(x, weights, form, kernel_launcher(shuffle=seed)) for seed in range(3)
    )
    assert all(mx.array_equal(first, other).item() for other in others)


def test_rows_that_are_no_numbers_stay_alone() -> None:
    form, weights = BLOCK_FORMS["q6_k"], (blocks("q6_k", 9, 256),)
    x = normal((20, 256), 8)
    x[4, 7] = mx.nan
    mine = many_row_product(x, weights, form, kernel_launcher())
    assert mx.isnan(mine[4]).all().item()
    assert mx.isfinite(mx.concatenate([mine[:4], mine[5:]])).all().item()


EXPERTS = {
    "all of one": [3] * 70,
    "none of some": [0, 0, 2, 2, 2, 5],
    "last alone": [0] * 65 + [5],
    "as many as a tile": [1] * 64 + [2] * 128 + [4] * 3,
    "each": [0, 1, 2, 3, 4, 5],
}


@pytest.mark.parametrize("dtype", [mx.uint32, mx.int32], ids=str)
@pytest.mark.parametrize("chosen", EXPERTS.values(), ids=EXPERTS)
def test_experts(chosen: list[int], dtype: mx.Dtype) -> None:
    form, outputs = BLOCK_FORMS["q6_k"], 67
    weights = (blocks("q6_k", 6 * outputs, 256).reshape(6, outputs, -1),)
    x, experts = normal((len(chosen), 256), 9), mx.array(chosen, dtype=dtype)
    mine = many_row_experts(x, experts, weights, form, kernel_launcher())
    values = wide(form.dequantise(weights))
    truth = np.stack([values[e] @ row for e, row in zip(chosen, wide(x), strict=True)])
    assert apart(mine, truth) < 4e-6
    assert apart(experts_reference(x, experts, weights, form), truth) < 4e-6
    # the bits of the product with that expert alone
    for expert in set(chosen):
        its = mx.array([row for row, one in enumerate(chosen) if one == expert])
        alone = many_row_product(x[its], (weights[0][expert],), form, kernel_launcher())
        assert mx.array_equal(alone, mine[its]).item(), expert


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_weights_are_read_once_for_a_tile_of_rows(name: str) -> None:
    launcher, form = EmulatorLauncher(), BLOCK_FORMS[name]
    weights = (blocks(name, 64, 512),)
    for rows, times in ((64, 1), (65, 2), (130, 3)):
        many_row_product(normal((rows, 512), 2), weights, form, launcher)
        assert launcher.last.buffers["w"].times_read == times
        assert launcher.last.buffers["x"].times_read == 1
    assert launcher.last.threadgroup_bytes <= 19_000
    assert launcher.last.threads <= 3 * 128


def test_experts_that_nobody_chose_are_not_read() -> None:
    launcher, form = EmulatorLauncher(), BLOCK_FORMS["q6_k"]
    weights = (blocks("q6_k", 4 * 64, 256).reshape(4, 64, -1),)
    experts = mx.array([1] * 5 + [3] * 40, dtype=mx.uint32)
    many_row_experts(normal((45, 256), 2), experts, weights, form, launcher)
    assert launcher.last.buffers["w"].times_read == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, (mx.bfloat16, mx.float32)[number % 2]) for number, name in enumerate(BLOCK_FORMS)],
)
def test_all_of_a_lane_is_in_registers(name: str, dtype: mx.Dtype) -> None:
    launcher, form, stack = RegisterLauncher(), BLOCK_FORMS[name], blocks(name, 64, 512)
    x, experts = normal((64, 512), 2, dtype), mx.zeros((64,), mx.uint32)
    many_row_product(x, (stack,), form, launcher)
    many_row_experts(x, experts, (stack[None],), form, launcher)
    for run in launcher.runs:
        assert run.need.in_memory == 0
        assert run.fits(M1)
