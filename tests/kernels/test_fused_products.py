"""Kernels around the few-row product: gate and up, an MTP head's input, experts."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from compared import halves, normal, wide
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels import (
    expert_union_matvec,
    few_row_matvec,
    mtp_input,
)
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.mlx_formats import DENSE, MXFP4, affine_format

WIDTH = 192
FORMS = [affine_format(4, 64), affine_format(6, 32), MXFP4, DENSE]
DTYPES = {"affine6": mx.bfloat16, "mxfp4": mx.float32}
"""Of the rows, by format; float16 for the others."""


def fewer(form: WeightFormat) -> Sequence[int]:
    """Counts of rows compared with eight: all with one format, as no order knows the format."""
    return range(1, 8) if form.name == "affine4" else (3,)


def rows_for(form: WeightFormat, shape: tuple[int, ...], seed: int) -> mx.array:
    return normal(shape, seed, DTYPES.get(form.name, mx.float16))


def stored(shape: tuple[int, ...], seed: int, form: WeightFormat) -> tuple[mx.array, ...]:
    weights = halves(shape, seed) / shape[-1] ** 0.5
    if form.name == "dense":
        return (weights,)
    if form.name == "mxfp4":
        return tuple(mx.quantize(weights, group_size=32, bits=4, mode="mxfp4"))
    sizes = {parameter.name: int(parameter.value) for parameter in form.parameters}
    return tuple(mx.quantize(weights, group_size=sizes["GROUP"], bits=sizes["BITS"]))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_gate_and_up(form: WeightFormat) -> None:
    launcher = kernel_launcher()
    outputs = 27
    weights, x = stored((2 * outputs, WIDTH), 1, form), rows_for(form, (8, WIDTH), 2)
    whole = few_row_matvec.few_row_gate_up(x, weights, form, launcher)
    gate, up = np.split(wide(x) @ wide(form.dequantise(weights)).T, 2, axis=-1)
    truth = gate / (1 + np.exp(-gate)) * up
    plain = few_row_matvec.gate_up_reference(x, weights, form)
    error, its = (np.abs(wide(array) - truth).max() for array in (whole, plain))
    assert error <= 2 * its + 1e-6
    for rows in fewer(form):
        few = few_row_matvec.few_row_gate_up(x[:rows], weights, form, launcher)
        assert mx.array_equal(few, whole[:rows]).item(), rows
    both = few_row_matvec.few_row_matvec(x, weights, form, launcher).astype(mx.float32)
    product = (both[:, :outputs] * mx.sigmoid(both[:, :outputs]) * both[:, outputs:]).astype(
        x.dtype
    )
    assert mx.allclose(whole, product, rtol=1e-2, atol=1e-6).item()


@pytest.mark.parametrize("form", FORMS[:2], ids=lambda form: form.name)
@pytest.mark.parametrize("residual", [False, True])
def test_what_is_added(form: WeightFormat, residual: bool) -> None:
    """As if the product had been written and c added, for every count of rows."""
    launcher = kernel_launcher()
    weights, x = stored((27, WIDTH), 1, form), halves((8, WIDTH), 2)
    c = halves((8, 27) if residual else (27,), 3)
    product = few_row_matvec.few_row_matvec(x, weights, form, launcher)
    separate = (product.astype(mx.float32) + c.astype(mx.float32)).astype(mx.float16)
    for rows in (8, 3):
        its = c[:rows] if residual else c
        mine = few_row_matvec.few_row_matvec_add(x[:rows], weights, form, launcher, its)
        assert mx.array_equal(mine, separate[:rows]).item()
        plain = few_row_matvec.add_reference(x[:rows], weights, its, form)
        assert mx.allclose(mine, plain, rtol=2e-3, atol=1e-3).item()


def test_gate_and_up_read_weights_once() -> None:
    launcher = EmulatorLauncher()
    form = affine_format(4, 64)
    few_row_matvec.few_row_gate_up(halves((4, 512), 3), stored((128, 512), 4, form), form, launcher)
    assert launcher.last.buffers["w"].times_read == 1


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_mtp_input(form: WeightFormat) -> None:
    launcher = kernel_launcher()
    hidden = WIDTH // 2
    e, h = rows_for(form, (8, hidden), 5), 30 * rows_for(form, (8, hidden), 6)
    norms = mtp_input.MtpInputNorms(
        normal((hidden,), 7, mx.float32), normal((hidden,), 8, mx.float32), 1e-6
    )
    weights = stored((50, WIDTH), 9, form)
    whole = mtp_input.mtp_input(e, h, norms, weights, form, launcher)
    halves = [
        wide(rows) / np.sqrt((wide(rows) ** 2).mean(axis=-1, keepdims=True) + 1e-6) * wide(weight)
        for rows, weight in ((e, norms.embedding), (h, norms.hidden))
    ]
    truth = np.concatenate(halves, axis=-1) @ wide(form.dequantise(weights)).T
    plain = mtp_input.reference(e, h, norms, weights, form)
    error, its = (np.abs(wide(array) - truth).max() for array in (whole, plain))
    assert error <= 2 * its + 1e-6
    for rows in fewer(form):
        few = mtp_input.mtp_input(e[:rows], h[:rows], norms, weights, form, launcher)
        assert mx.array_equal(few, whole[:rows]).item(), rows


def test_a_head_norms_its_rows_once() -> None:
    """Twice read, for the mean and the values, however many weights they meet."""
    launcher, form = EmulatorLauncher(), affine_format(4, 64)
    e, h = halves((4, 256), 5), halves((4, 256), 6)
    norms = mtp_input.MtpInputNorms(mx.ones((256,)), mx.ones((256,)), 1e-6)
    mtp_input.mtp_input(e, h, norms, stored((96, 512), 9, form), form, launcher)
    normed, multiplied = launcher.reports
    for name in ("e", "h"):
        assert normed.buffers[name].bytes_loaded == 2 * normed.buffers[name].size
    assert multiplied.buffers["w"].times_read == 1


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("a_pair_each", [False, True])
def test_experts(form: WeightFormat, a_pair_each: bool) -> None:
    launcher = kernel_launcher(shuffle=3)
    random = np.random.default_rng(1)
    chosen = np.array([random.permutation(5)[:3] for _ in range(8)]).astype(np.int32)
    chosen[:3] = [4, 1, 4], [2, 2, 2], [-1, 3, -1]  # also one twice, and none
    experts = mx.array(chosen)
    weights = stored((5, 13, WIDTH), 10, form)
    x = rows_for(form, (24 if a_pair_each else 8, WIDTH), 11)
    whole = expert_union_matvec.expert_union_matvec(x, experts, weights, form, launcher)
    its = [tuple(part[e] for part in weights) for e in chosen.reshape(-1)]
    dense_rows = np.stack([wide(form.dequantise(arrays)) for arrays in its])
    dense_rows[chosen.reshape(-1) < 0] = 0
    share = 1 if a_pair_each else 3
    truth = np.einsum("pk,pnk->pn", np.repeat(wide(x), share, axis=0), dense_rows)
    plain = expert_union_matvec.reference(x, experts, weights, form)
    error, other = (np.abs(wide(array) - truth).max() for array in (whole, plain))
    assert error <= 2 * other + 1e-6
    per_row = 3 if a_pair_each else 1
    for rows in fewer(form):
        few = expert_union_matvec.expert_union_matvec(
            x[: rows * per_row], experts[:rows], weights, form, launcher
        )
        assert mx.array_equal(few, whole[: 3 * rows]).item(), rows


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_each_distinct_expert_is_read_once(rows: int) -> None:
    """For up to four rows."""
    launcher = EmulatorLauncher()
    form = affine_format(4, 64)
    experts = mx.array([[0, 2, 5]] * (rows - 1) + [[2, 7, 1]], dtype=mx.int32)
    weights = stored((8, 24, 512), 12, form)
    expert_union_matvec.expert_union_matvec(
        halves((rows, 512), 13), experts, weights, form, launcher
    )
    _, users = np.unique(np.array(experts), return_counts=True)
    assert launcher.last.buffers["w"].times_read == np.ceil(users / 4).sum() / 8
    assert launcher.last.buffers["experts"].loads <= (rows + 1) * launcher.last.threads
