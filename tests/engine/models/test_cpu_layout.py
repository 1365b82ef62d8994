"""The layout for MLX's CPU backend: the same matrix, rows independent, all accounted for."""

import mlx.core as mx
import numpy as np
import pytest

from mlx_engine.models.layers import Linear
from mlx_engine.models.weights import WeightTable

OUTPUTS, INPUTS = 24, 64


def taken(table):
    return Linear.of(table.take_matrix("w", OUTPUTS, INPUTS), table.kernels)


def arrays(bits):
    weight = mx.random.normal((OUTPUTS, INPUTS), key=mx.random.key(3))
    if bits is None:
        return {"w.weight": weight}
    parts = mx.quantize(weight, 32, bits)
    return dict(zip(("w.weight", "w.scales", "w.biases"), parts, strict=True))


@pytest.mark.parametrize("bits", [None, 4, 8])
def test_it_multiplies_as_the_stored_matrix(bits):
    stored = taken(WeightTable(arrays(bits), "here"))
    table = WeightTable(arrays(bits), "here", for_cpu=True)
    dense = taken(table)
    x = mx.random.normal((1, 9, INPUTS), key=mx.random.key(4))
    together = np.array(dense(x))
    assert np.abs(together - np.array(stored(x))).max() < 1e-5
    for row in range(9):
        assert np.array_equal(np.array(dense(x[:, row : row + 1])), together[:, row : row + 1])
    assert dense.matrix.scales is None
    assert [array.shape for array in table.handed_out] == [(OUTPUTS, INPUTS)]


def test_without_it_the_packing_is_kept():
    table = WeightTable(arrays(8), "here")
    assert taken(table).matrix.bits == 8
    assert len(table.handed_out) == 3
