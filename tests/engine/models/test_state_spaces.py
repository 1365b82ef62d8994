"""The recurrence of Mamba-2 by the delta rule and in chunks, against float64 step by step."""

import mlx.core as mx
import numpy as np
import pytest

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.recurrent import RecurrentCache, StockDelta
from mlx_engine.models.mamba import TINY, ChunkedScan

HEADS, GROUPS, SIZE, STATE = 6, 2, 5, 16


def drawn(count, decays):
    """Rows as a layer makes them, and what they mean in float64."""
    rng = np.random.default_rng(count)
    queries, keys = rng.normal(size=(2, 1, count, GROUPS, STATE)).astype(np.float32)
    values = rng.normal(size=(1, count, HEADS, SIZE)).astype(np.float32)
    decay = rng.choice(np.array(decays, np.float32), size=(1, count, HEADS))
    ones = np.ones_like(decay)
    rows = DeltaRows(*map(mx.array, (queries, keys * TINY, values / np.float32(TINY), decay, ones)))
    return rows, [part[0].astype(np.float64) for part in (queries, keys, values, decay)]


def stepped(parts, state):
    """Outputs of S <- a S + v k^T, y = S q."""
    outputs = []
    for query, key, value, decay in zip(*parts, strict=True):
        each = [np.repeat(part, HEADS // GROUPS, axis=0) for part in (query, key)]
        state[:] = decay[:, None, None] * state + value[..., None] * each[1][:, None]
        outputs.append((state @ each[0][..., None])[..., 0])
    return np.array(outputs)


@pytest.mark.parametrize("stock", [MLX, StockOperations()])
@pytest.mark.parametrize("decays", [(0.999, 1.0), (0.0, 0.5, 0.99), (1e-30, 1e-3, 1.0)])
@pytest.mark.parametrize("kept", [0, 7, 150])
def test_outputs_and_what_is_kept(stock, decays, kept):
    """Long memories, and such as are lost at once; then a few rows behind what was kept."""
    first, told = drawn(150, decays)
    few, more = drawn(3, decays)
    wanted, state = stepped(told, np.zeros((HEADS, SIZE, STATE))), np.zeros((HEADS, SIZE, STATE))
    stepped([part[:kept] for part in told], state)
    wanted_few = stepped(more, state)
    for rule in (StockDelta(stock), ChunkedScan(stock)):
        cache = RecurrentCache(mx.zeros((1, 3, 6)), mx.zeros((1, *state.shape)), rule)
        near(cache.run(first, mx.zeros((1, 153, 6))), wanted)
        cache.commit(kept)
        near(cache.run(few, mx.zeros((1, 6, 6))), wanted_few)


def near(found, wanted):
    assert np.abs(np.array(found)[0] - wanted).max() < 3e-6 * np.abs(wanted).max()
