"""Picking from the output head: the tokens of the written logits, for every way of choosing."""

import mlx.core as mx
import numpy as np
import pytest
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.few_row_matvec import few_row_matvec
from metal_kernels.noise import reference as noise_reference
from metal_kernels.vocabulary_pick import Choosing, reference, vocabulary_pick
from metal_kernels.weight_formats.affine import affine
from metal_kernels.weight_formats.dense import DENSE

WIDTH = 128


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float16) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def keys(rows: int) -> mx.array:
    bits = np.random.default_rng(rows).integers(0, 2**32, (rows, 2), dtype=np.uint32)
    return mx.array(bits)


@pytest.mark.parametrize("outputs", [1, 31, 250, 1000])
@pytest.mark.parametrize("noisy", [False, True])
def test_what_the_written_logits_say(outputs: int, noisy: bool) -> None:
    launcher = kernel_launcher()
    form, weights = DENSE, (normal((outputs, WIDTH), outputs),)
    x = normal((8, WIDTH), 3)
    how = Choosing(keys=keys(8) if noisy else None, temperature=0.7)
    picked = vocabulary_pick(x, weights, form, how, launcher)
    logits = few_row_matvec(x, weights, form, launcher).astype(mx.float32)
    if noisy:
        inverse = mx.array(1 / 0.7, dtype=mx.float32)
        logits = logits * inverse + noise_reference(keys(8), outputs)
    assert mx.array_equal(picked[:, 0], mx.argmax(logits, axis=-1)).item()
    for rows in range(1, 8) if noisy and outputs == 250 else (3,):
        its = how._replace(keys=how.keys[:rows]) if how.keys is not None else how
        few = vocabulary_pick(x[:rows], weights, form, its, launcher)
        assert mx.array_equal(few, picked[:rows]).item(), rows


@pytest.mark.parametrize("top", [1, 3, 8])
def test_the_best_few_with_map_and_mask(top: int) -> None:
    random = np.random.default_rng(5)
    ids = mx.array(random.permutation(900)[:300].astype(np.int32))
    mask = mx.array(random.integers(0, 2, 900).astype(np.uint8))
    how = Choosing(top, keys(3), 1.3, ids, mask)
    weights = tuple(mx.quantize(normal((300, WIDTH), 6), bits=4))
    arguments = (normal((3, WIDTH), 7), weights, affine(4, 64), how)
    picked = vocabulary_pick(*arguments, kernel_launcher(shuffle=top))
    assert mx.array_equal(picked, reference(*arguments)).item()
    assert mx.all(mask[picked] == 1).item()


def test_equal_values_go_by_token_id() -> None:
    weights = (mx.ones((70, WIDTH), dtype=mx.float16),)
    ids = mx.arange(69, -1, -1).astype(mx.int32)
    how = Choosing(top=4, ids=ids)
    x = mx.ones((2, WIDTH), dtype=mx.float16)
    picked = vocabulary_pick(x, weights, DENSE, how, kernel_launcher())
    assert picked.tolist() == [[0, 1, 2, 3]] * 2


def test_fewer_tokens_than_asked_for() -> None:
    mask = mx.array([0, 1, 0, 0, 1, 0, 0, 0], dtype=mx.uint8)
    how = Choosing(top=3, mask=mask)
    x, weights = normal((1, WIDTH), 8), (normal((8, WIDTH), 9),)
    picked = vocabulary_pick(x, weights, DENSE, how, kernel_launcher())
    assert sorted(picked[0].tolist()) == [-1, 1, 4]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_no_numbers_are_told(bad: float) -> None:
    weights = normal((200, WIDTH), 10)
    weights[133, 5] = bad
    x = normal((2, WIDTH), 11)
    how = Choosing(top=2)
    picked = vocabulary_pick(x, (weights,), DENSE, how, kernel_launcher())
    assert picked.tolist() == [[-1, -1]] * 2


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_weights_are_read_once_and_logits_never_written(rows: int) -> None:
    launcher = EmulatorLauncher()
    weights = (normal((960, WIDTH), 12),)
    vocabulary_pick(normal((rows, WIDTH), 13), weights, DENSE, Choosing(), launcher)
    assert launcher.reports[0].buffers["w"].times_read == 1
    written = sum(
        report.buffers[name].bytes_stored
        for report in launcher.reports
        for name in ("values", "tokens", "picked")
        if name in report.buffers
    )
    assert written <= rows * (960 / 30 * 8 + 12)
