"""Picking from the output head: the tokens of the written logits, for every way of choosing."""

import mlx.core as mx
import numpy as np
import pytest
from compared import halves
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.few_row_matvec import few_row_matvec
from metal_kernels.noise import reference as noise_reference
from metal_kernels.vocabulary_pick import PickOptions, reference, vocabulary_pick
from metal_kernels.weight_formats.mlx_formats import DENSE, affine_format

WIDTH = 128


def keys(rows: int) -> mx.array:
    bits = np.random.default_rng(rows).integers(0, 2**32, (rows, 2), dtype=np.uint32)
    return mx.array(bits)


@pytest.mark.parametrize("outputs", [1, 31, 250, 1000])
@pytest.mark.parametrize("noisy", [False, True])
def test_what_the_written_logits_say(outputs: int, noisy: bool) -> None:
    launcher = kernel_launcher()
    form, weights = DENSE, (halves((outputs, WIDTH), outputs),)
    x = halves((8, WIDTH), 3)
    how = PickOptions(keys=keys(8) if noisy else None, temperature=0.7)
    picked = vocabulary_pick(x, weights, form, how, launcher)
    logits = few_row_matvec(x, weights, form, launcher).astype(mx.float32)
    if noisy:
        inverse = mx.array(1 / 0.7, dtype=mx.float32)
        logits = logits * inverse + noise_reference(keys(8), outputs)
    assert mx.array_equal(picked, mx.argmax(logits, axis=-1)).item()
    for rows in range(1, 8) if noisy and outputs == 250 else (3,):
        its = how._replace(keys=how.keys[:rows]) if how.keys is not None else how
        few = vocabulary_pick(x[:rows], weights, form, its, launcher)
        assert mx.array_equal(few, picked[:rows]).item(), rows


@pytest.mark.parametrize("shuffle", [0, 1, 3])
def test_the_reference_says_the_same(shuffle: int) -> None:
    weights = tuple(mx.quantize(halves((300, WIDTH), 6), bits=4))
    arguments = (halves((3, WIDTH), 7), weights, affine_format(4, 64), PickOptions(keys(3), 1.3))
    picked = vocabulary_pick(*arguments, kernel_launcher(shuffle=shuffle))
    assert mx.array_equal(picked, reference(*arguments)).item()


@pytest.mark.parametrize("lowest", [0, 3, 40, 1100, 1199])
def test_equal_values_go_by_token_id(lowest: int) -> None:
    weights = mx.ones((1200, WIDTH), dtype=mx.float16)
    weights[:lowest] = 0.5
    x = mx.ones((2, WIDTH), dtype=mx.float16)
    picked = vocabulary_pick(x, (weights,), DENSE, PickOptions(), kernel_launcher())
    assert picked.tolist() == [lowest] * 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_no_numbers_are_told(bad: float) -> None:
    weights = halves((200, WIDTH), 10)
    weights[133, 5] = bad
    x = halves((2, WIDTH), 11)
    picked = vocabulary_pick(x, (weights,), DENSE, PickOptions(), kernel_launcher())
    assert picked.tolist() == [-1, -1]


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_weights_are_read_once_and_logits_never_written(rows: int) -> None:
    launcher = EmulatorLauncher()
    weights = (halves((960, WIDTH), 12),)
    vocabulary_pick(halves((rows, WIDTH), 13), weights, DENSE, PickOptions(), launcher)
    assert launcher.reports[0].buffers["w"].times_read == 1
    written = sum(
        report.buffers[name].bytes_stored
        for report in launcher.reports
        for name in ("values", "tokens", "picked")
        if name in report.buffers
    )
    assert written <= rows * (960 / 30 * 8 + 12)
