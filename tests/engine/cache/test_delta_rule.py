"""Blocks by our kernel and by stock MLX: alike, whatever is cut, replayed or restored."""

import mlx.core as mx
import numpy as np
import pytest
from compared import normal
from kernel_launchers import kernel_launcher

from metal_kernels.choice import ALL_ROWS
from metal_kernels.gated_delta_block import DeltaRows
from mlx_engine.cache.recurrent import (
    KernelDelta,
    LongKernelDelta,
    RecurrentCache,
    StockDelta,
    choose_delta_rule,
)

KEY_HEADS, HEADS, SIZE, VALUE_SIZE = 1, 2, 16, 8


def block(rows: int, seed: int, *, by_channel: bool = False) -> tuple[DeltaRows, mx.array]:
    decays = (1, rows, HEADS, SIZE) if by_channel else (1, rows, HEADS)
    its = DeltaRows(
        queries=normal((1, rows, KEY_HEADS, SIZE), seed) / 4,
        keys=normal((1, rows, KEY_HEADS, SIZE), seed + 1) / 4,
        values=normal((1, rows, HEADS, VALUE_SIZE), seed + 2),
        decay=mx.exp(-mx.abs(normal(decays, seed + 3))),
        beta=mx.sigmoid(normal((1, rows, HEADS), seed + 4)),
    )
    return its, normal((1, rows + 3, 4), seed + 5)


def caches(*, any_length: bool = False) -> tuple[RecurrentCache, RecurrentCache]:
    blank = mx.zeros((1, 3, 4)), mx.zeros((1, HEADS, VALUE_SIZE, SIZE))
    launcher = kernel_launcher(check=False)
    long = LongKernelDelta(launcher, ALL_ROWS) if any_length else StockDelta()
    kernel = KernelDelta(launcher, long)
    return RecurrentCache(*blank), RecurrentCache(*blank, kernel)


@pytest.mark.parametrize("seed", range(4))
def test_any_blocks_cut_anywhere(seed: int) -> None:
    """Few rows go through the kernel, more through stock MLX or, by channel, the kernel too."""
    random, by_channel = np.random.default_rng(seed), seed % 2 == 1
    pair = caches(any_length=by_channel)
    for number in range(7):
        rows = int(random.choice([1, 2, 5, 9, 10, 13]))
        kept = int(random.integers(0, rows + 1))
        drawn = block(rows, 10 * number, by_channel=by_channel)
        stock, mine = (cache.run(*drawn) for cache in pair)
        assert mx.allclose(mine, stock, rtol=1e-4, atol=1e-5).item(), (number, rows)
        for cache in pair:
            cache.commit(kept)
        assert pair[0].length == pair[1].length


@pytest.mark.parametrize("rows", [4, 12])
def test_a_boundary_is_come_back_to_bit_for_bit(rows: int) -> None:
    _, cache = caches()
    cache.run(*block(rows, 1))
    cache.commit(3)
    boundary = cache.snapshot()
    first = cache.run(*block(2, 50))
    cache.commit(2)
    cache.run(*block(12, 60))
    cache.commit(12)
    cache.restore(boundary)
    assert mx.array_equal(cache.run(*block(2, 50)), first).item()
    assert boundary.nbytes == sum(array.nbytes for array in boundary_arrays(boundary))


def boundary_arrays(boundary: object) -> list[mx.array]:
    cache = caches()[1]
    cache.restore(boundary)  # type: ignore[arg-type]
    return cache.arrays()


def test_steps_kept_one_by_one_or_together_end_in_one_state() -> None:
    """What drafting promises: however rows came about, the next prompt finds the same bits."""
    rows, convolved = block(6, 7)
    _, together = caches()
    _, alone = caches()
    together.run(rows, convolved)
    together.commit(5)
    for row in range(5):
        one = DeltaRows(*(array[:, row : row + 1] for array in rows))
        alone.run(one, convolved[:, row : row + 4])
        alone.commit(1)
    prompt = block(12, 30)
    assert mx.array_equal(together.run(*prompt), alone.run(*prompt)).item()


def test_stock_without_a_launcher() -> None:
    assert not isinstance(choose_delta_rule(None, StockDelta()), KernelDelta)
