"""The delta rule in blocks: right, indifferent to how rows are cut, one state read and written."""

import mlx.core as mx
import numpy as np
import pytest
from compared import normal
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.gated_delta_block import (
    DeltaBlockResult,
    DeltaRows,
    ReplaySteps,
    gated_delta_block,
    reference,
)

NONE = mx.array([0], dtype=mx.int32)


def unit(x: mx.array) -> mx.array:
    return x / mx.sqrt((x * x).sum(axis=-1, keepdims=True))


def new_rows(
    count: int, key_heads: int, heads: int, size: int, value_size: int, *, by_channel: bool = False
) -> DeltaRows:
    decays = (count, heads, size) if by_channel else (count, heads)
    return DeltaRows(
        queries=unit(normal((count, key_heads, size), 1)),
        keys=unit(normal((count, key_heads, size), 2)),
        values=normal((count, heads, value_size), 3),
        decay=mx.exp(-mx.abs(normal(decays, 4))),
        beta=mx.sigmoid(normal((count, heads), 5)),
    )


def part(rows: DeltaRows, first: int, end: int) -> DeltaRows:
    return DeltaRows(*(mx.contiguous(array[first:end]) for array in rows))


def no_steps(rows: DeltaRows) -> ReplaySteps:
    return ReplaySteps(*(mx.zeros((1, *a.shape[1:])) for a in (rows.keys, rows.values, rows.decay)))


def steps(rows: DeltaRows, result: DeltaBlockResult) -> ReplaySteps:
    return ReplaySteps(rows.keys, result.delta, rows.decay)


def truth(state: np.ndarray, rows: DeltaRows) -> np.ndarray:
    q, k, v, g, b = (np.array(array).astype(np.float64) for array in rows)
    group = state.shape[0] // k.shape[1]
    out = np.zeros(v.shape)
    for t in range(v.shape[0]):
        for head in range(v.shape[1]):
            key = k[t, head // group]
            state[head] *= g[t, head]
            delta = b[t, head] * (v[t, head] - state[head] @ key)
            state[head] += np.outer(delta, key)
            out[t, head] = state[head] @ q[t, head // group]
    return out


SHAPES = [(1, 2, 128, 128), (2, 4, 64, 40), (1, 1, 16, 8), (2, 2, 48, 33)]


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize(("key_heads", "heads", "size", "value_size"), SHAPES)
def test_right_against_float64(
    key_heads: int, heads: int, size: int, value_size: int, by_channel: bool
) -> None:
    rows = new_rows(5, key_heads, heads, size, value_size, by_channel=by_channel)
    state = normal((heads, value_size, size), 6)
    right = truth(np.array(state).astype(np.float64), rows)
    mine = gated_delta_block(state, NONE, no_steps(rows), rows, kernel_launcher())
    plain = reference(state, 0, no_steps(rows), rows)
    assert np.abs(np.array(mine.y) - right).max() <= 2 * np.abs(plain.y - right).max() + 1e-6
    assert mx.array_equal(mine.settled, state).item()


@pytest.mark.parametrize("kept", range(9))
def test_a_replayed_prefix_is_the_pass_itself(kept: int) -> None:
    """Eight rows of which `kept` stand, then three more: as if only those had ever been there."""
    rows = new_rows(11, 1, 2, 32, 16, by_channel=kept % 3 > 0)
    state = normal((2, 16, 32), 7)
    launcher = kernel_launcher()
    block = gated_delta_block(state, NONE, no_steps(rows), part(rows, 0, 8), launcher)
    count = mx.array([kept], dtype=mx.int32)
    more = part(rows, 8, 11)
    after = gated_delta_block(state, count, steps(part(rows, 0, 8), block), more, launcher)
    for t in range(kept):
        one = part(rows, t, t + 1)
        result = gated_delta_block(state, NONE, no_steps(rows), one, launcher)
        assert mx.array_equal(result.y[0], block.y[t]).item()
        one_step = mx.array([1], dtype=mx.int32)
        state = gated_delta_block(state, one_step, steps(one, result), one, launcher).settled
    assert mx.array_equal(after.settled, state).item()
    plain = gated_delta_block(state, NONE, no_steps(rows), more, launcher)
    assert mx.array_equal(after.y, plain.y).item()


@pytest.mark.parametrize("kept", [0, 1, 5, 8])
def test_one_read_and_one_write_of_the_state(kept: int) -> None:
    rows = new_rows(8, 2, 4, 128, 128)
    state = normal((4, 128, 128), 8)
    launcher = EmulatorLauncher(shuffle=kept)
    last = ReplaySteps(rows.keys, rows.values, rows.decay)
    count = mx.array([kept], dtype=mx.int32)
    mine = gated_delta_block(state, count, last, rows, launcher)
    assert launcher.last.buffers["state"].times_read == 1
    assert launcher.last.buffers["settled"].times_written == 1
    plain = reference(state, kept, last, rows)
    assert mx.allclose(mine.settled, plain.settled, rtol=1e-5, atol=1e-5).item()


def test_an_axis_of_one_before_is_kept() -> None:
    rows, state, launcher = new_rows(3, 1, 2, 32, 16), normal((2, 16, 32), 7), kernel_launcher()
    flat = gated_delta_block(state, NONE, no_steps(rows), rows, launcher)
    count = mx.array([2], dtype=mx.int32)
    again = gated_delta_block(flat.settled, count, steps(rows, flat), rows, launcher)
    batch = DeltaRows(*(array[None] for array in rows))
    last = ReplaySteps(*(array[None] for array in steps(rows, flat)))
    its = gated_delta_block(flat.settled[None], count, last, batch, launcher)
    for one, other in zip(its, again, strict=True):
        assert one.shape == (1, *other.shape)
        assert mx.array_equal(one[0], other).item()
