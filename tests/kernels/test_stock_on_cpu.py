"""What is written out for a CPU: near float64, each row by itself, in no more nodes than said."""

import mlx.core as mx
import numpy as np
import pytest
from compared import wide

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import AttentionOptions, RopeParams, StockOperations
from metal_kernels.stock_on_cpu import MOST_BEGUN, SINE_ROWS, CpuStockOperations

Array = np.ndarray


def normal(*shape: int, seed: int = 1) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def near(made: mx.array, right: Array, most: float = 2e-6) -> None:
    assert made.shape == right.shape
    assert np.abs(wide(made) - right).max() <= most * np.abs(right).max()


@pytest.mark.parametrize(
    ("shape", "heads"), [((1, 5, 96), 0), ((1, 5, 6, 64), 0), ((1, 5, 6, 64), 6)]
)
def test_norms(shape: tuple[int, ...], heads: int) -> None:
    x, stock = 3 * normal(*shape), CpuStockOperations()
    weight = normal(*((heads,) if heads else ()), shape[-1], seed=2)
    rows = wide(x)
    scaled = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 0.01)
    made = stock.make_rms_norm(weight, 0.01)(x)
    near(made, scaled * wide(weight))
    near(StockOperations().make_rms_norm(weight, 0.01)(x), scaled * wide(weight))
    alone = stock.make_rms_norm(weight, 0.01)(x[:, 3:4])
    assert mx.array_equal(alone, made[:, 3:4]).item()
    if heads:  # in whatever shape the rows come
        assert mx.array_equal(stock.make_rms_norm(weight, 0.01)(x.flatten(2)), made).item()
    elif x.ndim == 4:  # the same where it is known how many rows share the weight
        side_by_side = stock.make_rms_norm(weight, 0.01, x.shape[2])(x)
        assert mx.array_equal(side_by_side, made.flatten(2)).item()
        near(StockOperations().make_rms_norm(weight, 0.01, x.shape[2])(x), wide(side_by_side))


def test_unit_heads() -> None:
    x, stock = 3 * normal(1, 5, 3 * 64), CpuStockOperations()
    rows = wide(x).reshape(1, 5, 3, 64)
    right = rows / np.sqrt((rows**2).sum(-1, keepdims=True) + 0.01)
    made = stock.l2_norm(x, 3, 0.01)
    near(made, right)
    near(StockOperations().l2_norm(x, 3, 0.01, repeats=2), right)
    assert mx.array_equal(stock.l2_norm(x[:, 3:4], 3, 0.01), made[:, 3:4]).item()
    assert mx.array_equal(stock.l2_norm(x, 3, 0.01, repeats=2), mx.repeat(made, 2, axis=2)).item()


@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("mask", ["causal", "window", "added"])
def test_a_row_attends_as_among_others(heads: int, has_sinks: bool, mask: str) -> None:
    """The bits of MLX's own, whose several rows are read by it."""
    queries, keys = normal(1, heads, 3, 64), normal(1, 2, 40, 64, seed=2)
    values, stock = normal(1, 2, 40, 32, seed=3), CpuStockOperations()
    sinks = normal(heads, seed=4) if has_sinks else None
    places, row = mx.arange(40), slice(1, 2)
    window = (places <= places[37:, None]) & (places > places[37:, None] - 9)
    masks = {"causal": "causal", "window": window, "added": normal(1, heads, 3, 40, seed=5)}
    every = stock.attention(queries, keys, values, AttentionOptions(0.125, masks[mask], sinks))
    seen = {"causal": None, "window": window[row], "added": masks["added"][:, :, row]}[mask]
    if mask == "causal":
        keys, values = keys[:, :, :39], values[:, :, :39]
    options = AttentionOptions(0.125, seen, sinks)
    assert mx.array_equal(
        stock.attention(queries[:, :, row], keys, values, options), every[:, :, row]
    ).item()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [8, 32])
@pytest.mark.parametrize("factors", [None, (1.0, 1.5, 2.0, np.inf) * 4])
def test_rotations(interleaved: bool, width: int, factors: tuple[float, ...] | None) -> None:
    """Angles of late positions are those of float64, which float32 misses by a hundredth.

    A position that only the device knows gives the same bits.
    """
    turning = RopeParams(width, 1e4, factors and factors[: width // 2], interleaved, 1.25)
    x, at = normal(1, 3, 4, 32), 75 * SINE_ROWS - 2
    angles = np.outer(np.arange(at, at + 4), 1 / np.array(turning.rope_periods))
    rows, right = wide(x), wide(x)
    first = slice(0, width, 2) if interleaved else slice(0, width // 2)
    second = slice(1, width, 2) if interleaved else slice(width // 2, width)
    right[..., first] = rows[..., first] * np.cos(angles) - rows[..., second] * np.sin(angles)
    right[..., second] = rows[..., second] * np.cos(angles) + rows[..., first] * np.sin(angles)
    right[..., :width] *= 1.25
    rotate = CpuStockOperations().make_rope(turning)
    made = rotate(x, at)
    near(made, right)
    near(StockOperations().make_rope(turning)(x, at), right, 0.05)
    for row, position in ((0, at), (2, at + 2), (3, mx.array([at + 3]))):
        alone = rotate(x[:, :, row : row + 1], position)
        assert mx.array_equal(alone, made[:, :, row : row + 1]).item()
    assert mx.array_equal(rotate(x, mx.array([at])), made).item()


def test_convolutions() -> None:
    rows, taps = normal(1, 3 + 5, 24), normal(24, 4, seed=2)
    right = sum(wide(taps)[:, j] * wide(rows)[:, j : j + 5] for j in range(4))
    convolve = CpuStockOperations().make_convolution(taps)
    near(convolve(rows), right)
    near(StockOperations().make_convolution(taps)(rows), right)
    assert mx.array_equal(convolve(rows[:, 2:6]), convolve(rows)[:, 2:3]).item()


@pytest.mark.parametrize("size", [5, 2048, 2049, 12 * 1187, 3 * 4099])
@pytest.mark.parametrize("count", [1, 5, 40, 1024, 2000])
def test_the_highest(size: int, count: int) -> None:
    """On a coarse grid, where many are equal; sizes of which shares are cut evenly and not."""
    x = mx.round(4 * normal(3, size)) / 4
    right = np.sort(np.array(x))[:, -count:]
    for stock in (StockOperations(), CpuStockOperations()):
        assert (np.array(stock.top_values(x, min(count, size))) == right).all()


@pytest.mark.parametrize(("shared", "heads"), [(2, 2), (2, 6)])
def test_delta_steps(shared: int, heads: int) -> None:
    """By float64; step after step has the bits of all steps at once."""
    queries, keys = (0.3 * normal(1, 5, shared, 16, seed=seed) for seed in (1, 2))
    values, state = normal(1, 5, heads, 24, seed=3), normal(1, heads, 24, 16, seed=4)
    decay, beta = (mx.sigmoid(normal(1, 5, heads, seed=seed)) for seed in (5, 6))
    rows = DeltaRows(queries, keys, values, decay, beta)
    stock = CpuStockOperations()
    made, after = stock.delta_rule(rows, state)
    q, k = (wide(part).repeat(heads // shared, axis=2)[0] for part in (queries, keys))
    v, g, b, now = wide(values)[0], wide(decay)[0], wide(beta)[0], wide(state)[0]
    right = np.zeros((1, 5, heads, 24))
    for t in range(5):
        now = now * g[t][:, None, None]
        delta = b[t][:, None] * (v[t] - np.einsum("hvk,hk->hv", now, k[t]))
        now = now + delta[:, :, None] * k[t][:, None]
        right[0, t] = np.einsum("hvk,hk->hv", now, q[t])
    near(made, right)
    near(after, now[None])
    near(StockOperations().delta_rule(rows, state)[0], right)
    for t in range(5):
        one, state = stock.delta_rule(DeltaRows(*(part[:, t : t + 1] for part in rows)), state)
        assert mx.array_equal(one, made[:, t : t + 1]).item()
    assert mx.array_equal(state, after).item()


def test_a_cpu_begins_with_a_few_rows_and_with_no_prompt(monkeypatch):
    begun = []
    monkeypatch.setattr(mx, "async_eval", begun.append)
    for stock in (CpuStockOperations(), StockOperations()):
        for rows in (1, MOST_BEGUN, MOST_BEGUN + 1):
            stock.start_evaluation(mx.zeros((1, rows, 4)))
    assert [x.shape[1] for x in begun] == [1, MOST_BEGUN]
    StockOperations().start_evaluation(mx.zeros((1, 3, 4)), has_idle_gpu=True)
    assert begun.pop().shape[1] == 3
