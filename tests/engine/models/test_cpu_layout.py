"""The layouts for MLX's CPU backend: the same matrix, rows independent, all accounted for."""

import mlx.core as mx
import numpy as np
import pytest

from mlx_engine.models.layers import Embedding, Linear
from mlx_engine.models.matrix import columns_for_cpu, dequantised
from mlx_engine.models.weights import WeightTable

INPUTS = 64


def taken(table, outputs):
    return Linear.from_matrix(table.take_matrix("w", outputs, INPUTS), table.kernels)


def arrays(bits, outputs):
    weight = mx.random.normal((outputs, INPUTS), key=mx.random.key(3))
    if bits is None:
        return {"w.weight": weight}
    parts = mx.quantize(weight, 32, bits)
    return dict(zip(("w.weight", "w.scales", "w.biases"), parts, strict=True))


@pytest.mark.parametrize(
    ("bits", "outputs"),
    [(None, 96), (8, 24), *((bits, 96) for bits in (2, 3, 4, 5, 6, 8))],
)
def test_it_multiplies_as_the_stored_matrix(bits, outputs):
    stored = WeightTable(arrays(bits, outputs), "here").take_matrix("w", outputs, INPUTS)
    weight = stored.weight if bits is None else dequantised(stored, mx.float32)
    table = WeightTable(arrays(bits, outputs), "here", layout=columns_for_cpu)
    laid_out = taken(table, outputs)
    x = mx.random.normal((1, 9, INPUTS), key=mx.random.key(4))
    together = np.array(laid_out(x))
    exact = np.array(x, dtype=np.float64) @ np.array(weight, dtype=np.float64).T
    assert np.abs(together - exact).max() < 1e-5
    for row in range(9):
        assert np.array_equal(np.array(laid_out(x[:, row : row + 1])), together[:, row : row + 1])
    assert (laid_out.matrix.output_size, laid_out.matrix.input_size) == (outputs, INPUTS)
    held = sum(array.nbytes for array in table.taken_arrays)
    padded = 32 * -(-outputs // 32)
    of_codes = (padded + 8 / 32 * padded) * INPUTS
    assert held == (4 * outputs * INPUTS if bits is None else of_codes)


def test_rows_of_a_long_prompt_are_those_of_one(monkeypatch):
    monkeypatch.setattr("mlx_engine.models.matrix.SUMS_AT_ONCE", 7 * 2 * 96)
    laid_out = taken(WeightTable(arrays(8, 96), "here", layout=columns_for_cpu), 96)
    x = mx.random.normal((1, 30, INPUTS), key=mx.random.key(4))
    alone = mx.concatenate([laid_out(x[:, row : row + 1]) for row in range(30)], axis=1)
    assert mx.array_equal(laid_out(x), alone).item()
    assert mx.array_equal(laid_out(x.squeeze(0)), alone.squeeze(0)).item()


@pytest.mark.parametrize("bits", [4, 8])
def test_its_rows_are_the_stored_ones(bits):
    stored = WeightTable(arrays(bits, 96), "here").take_matrix("w", 96, INPUTS)
    table = WeightTable(arrays(bits, 96), "here", layout=columns_for_cpu)
    laid_out = table.take_matrix("w", 96, INPUTS)
    values = dequantised(stored, mx.float32)
    assert mx.abs(dequantised(laid_out, mx.float32) - values).max().item() < 1e-6
    tokens = mx.array([[5, 0, 95, 5]])
    rows = Embedding(laid_out, mx.float32)(tokens)
    assert mx.array_equal(rows, dequantised(laid_out, mx.float32)[tokens]).item()


def test_without_it_the_packing_is_kept():
    table = WeightTable(arrays(8, 96), "here")
    assert taken(table, 96).matrix.mode == "affine"
    assert len(table.taken_arrays) == 3
