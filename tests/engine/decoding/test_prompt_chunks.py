"""How many tokens of a prompt are read at once."""

import pytest

from mlx_engine.values.memory_plan import chunk_rows

GB = 10**9


@pytest.mark.parametrize(
    ("weights", "active", "gpu", "rows"),
    [
        (5 * GB, 8e9, 0, 32),  # no GPU
        (5 * GB, 8e9, 90 * GB, 2048),
        (17 * GB, 3e9, 90 * GB, 2048),  # experts: few weights a token
        (17 * GB, 27e9, 90 * GB, 512),  # longer chunks could not be stopped for long
        (70 * GB, 12e9, 90 * GB, 1024),
        (5 * GB, 8e9, 21 * GB, 1024),  # memory
        (5 * GB, 8e9, 6 * GB, 512),
        (5 * GB, 8e9, 4 * GB, 512),  # it does not even fit
    ],
)
def test_a_chunk_follows_memory_and_work(weights, active, gpu, rows):
    assert chunk_rows(weights, int(active), gpu) == rows
