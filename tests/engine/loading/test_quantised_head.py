"""A head rounded at load drafts nearly the same, and takes a fraction of the memory."""

import mlx.core as mx
import numpy as np
import pytest
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.loading.load import load_model, quantised_head
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import LoadOptions


def test_dense_matrices_are_packed_and_nothing_else():
    draw = np.random.default_rng(1)
    arrays = {
        "fc.weight": mx.array(draw.normal(size=(8, 128)).astype(np.float32)),
        "norm.weight": mx.ones(64),
        "layers.0.mlp.gate.weight": mx.zeros((4, 64)),
        "layers.0.narrow.weight": mx.zeros((4, 40)),
        "layers.0.packed.weight": mx.zeros((4, 64), dtype=mx.uint32),
        "layers.0.packed.scales": mx.zeros((4, 8)),
    }
    packed = quantised_head(arrays, 4)
    assert set(packed) - set(arrays) == {"fc.scales", "fc.biases"}
    assert all(packed[name] is arrays[name] for name in arrays if name != "fc.weight")
    back = mx.dequantize(packed["fc.weight"], packed["fc.scales"], packed["fc.biases"], 64, 4)
    error = np.abs(np.array(back - arrays["fc.weight"]))
    assert 0.001 < error.max() < 0.5


def test_a_rounded_head_predicts_nearly_the_same(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    tokens, found = mx.array([[5, 9, 30, 2]]), {}
    for bits in (None, 8, 4):
        model = load_model(folder, LoadOptions(head_bits=bits), folder).model
        hidden = model.forward(tokens, model.make_caches())
        (head,) = model.heads
        states = head.mtp_forward(tokens, hidden, head.make_head_caches())
        found[bits] = np.array(head.mtp_logits(states))
        trunk = np.array(model.logits(hidden))
        assert np.array_equal(trunk, found.setdefault("trunk", trunk))
    errors = [np.abs(found[bits] - found[None]).mean() for bits in (8, 4)]
    assert 0 < errors[0] < errors[1] < 0.5 * np.abs(found[None]).mean()


def test_bits_there_are_not():
    with pytest.raises(BadOption, match="head_bits"):
        LoadOptions(head_bits=3)
