"""Logits along a text, a few rows at a time: the same bits, an output head never unpacked."""

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Types
from kept_gguf import blocks_of
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from tiny_model import TinySizes, tiny_model

from mlx_engine.models.layers import Linear
from mlx_engine.models.matrix import Matrix
from mlx_engine.self_check.teacher_forced import (
    ROWS,
    head_logits,
    hidden_states,
    logits_in_chunks,
    trunk_logits,
)

SIZES = TinySizes(layers=2, vocabulary=101)
TEXT = [(5 * n + n * n) % 101 for n in range(2 * ROWS + 7)]


@pytest.fixture(scope="module")
def model():
    return tiny_model(3, SIZES)


@pytest.mark.parametrize("length", [1, 2, ROWS, ROWS + 1, len(TEXT)])
def test_rows_have_the_bits_of_one_pass(model, length):
    tokens = TEXT[:length]
    whole = model.forward(mx.array([tokens]), model.make_caches())
    hidden = hidden_states(model, tokens, 7)
    assert mx.array_equal(hidden, whole)
    assert np.array_equal(trunk_logits(model, hidden), model.logits(whole)[0])
    heads = head_logits(model, mx.array(tokens), hidden)
    assert heads.shape == (1, length - 1, 101)
    if length > 1:
        ids = mx.array([tokens[1:]])
        (head,) = model.heads
        states = head.mtp_forward(ids, hidden[:, :-1], head.make_head_caches())
        assert np.array_equal(heads[0], head.mtp_logits(states)[0])


def test_a_q6_k_head_is_read_in_its_blocks():
    """A whole text in one pass unpacks all of it without the kernel for many rows; ROWS at a time
    it stays as it is.
    """
    vocabulary, width, rows = 16384, 256, 64
    blocks = mx.array(blocks_of(Types.Q6_K, (vocabulary, width), 3))
    matrix = Matrix(blocks, None, None, 0, 0, "q6_k")
    launcher, off = EmulatorLauncher(check=False), {"prompt-products": "for this test"}
    head, tiled = (Linear.from_matrix(matrix, every_kernel(launcher, off=its)) for its in (off, {}))
    assert head.few_rows is not None
    states = mx.random.normal((1, rows, width), key=mx.random.key(1))
    mx.eval(blocks, states)

    def peak(parts):
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        for part in parts:
            mx.eval(mx.argmax(part, axis=-1))
        return mx.get_peak_memory() - before

    unpacked = 4 * vocabulary * width
    logits = 4 * vocabulary * ROWS
    assert peak([head(states)]) > unpacked
    assert peak([tiled(states)]) < unpacked / 4
    assert peak(logits_in_chunks(head, states)) < 0.5 * unpacked + 3 * logits
