"""Attention of a few rows: right against float64, each row's bits its own, the cache read once."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.few_query_attention import (
    CHANGE,
    MOST_SIMDS,
    Place,
    block_of,
    block_start,
    few_query_attention,
    reference,
    takes,
)
from metal_kernels.kernel import Launch
from metal_kernels.key_value_formats import KeyValueFormat, affine_cache, dense_cache

Array = np.ndarray


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float16) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def wide(array: mx.array) -> Array:
    return np.array(array.astype(mx.float32)).astype(np.float64)


def truth(q: Array, keys: Array, values: Array, place: Place, sinks: Array | None) -> Array:
    heads, rows, size = q.shape
    out = np.zeros((heads, rows, values.shape[2]))
    for head in range(heads):
        its = head // (heads // keys.shape[0])
        for row in range(rows):
            newest = place.end - rows + row
            oldest = max(0, newest - place.window + 1) if place.window else 0
            seen = slice(oldest - place.start, newest + 1 - place.start)
            scores = keys[its, seen] @ q[head, row] * size**-0.5
            weights = np.exp(scores - scores.max())
            sink = 0 if sinks is None else np.exp(sinks[head] - scores.max())
            out[head, row] = weights @ values[its, seen] / (weights.sum() + sink)
    return out


def check(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: Place,
    sinks: mx.array | None = None,
) -> None:
    launcher = kernel_launcher()
    scale = q.shape[2] ** -0.5
    half = len(form.buffers) // 2
    sides = [wide(form.dequantise(side)) for side in (cache[:half], cache[half:])]
    right = truth(wide(q), sides[0], sides[1], place, None if sinks is None else wide(sinks))
    whole = few_query_attention(q, cache, form, place, scale, launcher, sinks)
    plain = reference(q, cache, form, place, scale, sinks)
    error, its = (np.abs(wide(array) - right).max() for array in (whole, plain))
    assert error <= 2 * its + 1e-6 * np.abs(right).max()
    rows = q.shape[1]
    for few in range(1, 8) if rows == 8 and q.dtype == mx.float16 else {1, max(1, rows - 1)}:
        for first in {0, rows - few}:
            part = mx.contiguous(q[:, first : first + few])
            then = Place(place.end - rows + first + few, place.start, place.window)
            again = few_query_attention(part, cache, form, then, scale, launcher, sinks)
            assert mx.array_equal(again, whole[:, first : first + few]).item(), (few, first)


@pytest.mark.parametrize(
    ("heads", "key_heads", "size", "value_size", "rows"),
    [
        (6, 2, 64, 64, 8),
        (12, 2, 128, 128, 5),
        (6, 1, 256, 256, 4),
        (4, 1, 192, 128, 3),
        (2, 1, 512, 512, 2),
        (3, 3, 96, 96, 16),
        (16, 2, 256, 256, 9),
    ],
)
def test_shapes(heads: int, key_heads: int, size: int, value_size: int, rows: int) -> None:
    cache = (normal((key_heads, 290, size), 1), normal((key_heads, 290, value_size), 2))
    check(normal((heads, rows, size), 3), cache, dense_cache(), Place(261))


@pytest.mark.parametrize("end", [1, 8, 127, 128, 129, 256 + 4])
def test_where_blocks_end(end: int) -> None:
    cache = (normal((1, 300, 64), 4), normal((1, 300, 64), 5))
    check(normal((4, min(8, end), 64), 6, mx.float32), cache, dense_cache(), Place(end))


def test_where_blocks_grow() -> None:
    start = CHANGE - 100
    cache = (normal((1, 140, 64), 7), normal((1, 140, 64), 8))
    check(normal((2, 4, 64), 9), cache, dense_cache(), Place(CHANGE + 2, start, 90))
    assert [block_of(key) for key in (0, 127, 128, CHANGE - 1, CHANGE, CHANGE + 1023)] == [
        *(0, 0, 1),
        *(31, 32, 32),
    ]
    assert all(block_of(block_start(block)) == block for block in range(80))


@pytest.mark.parametrize("window", [1, 64, 150])
def test_window_and_sinks(window: int) -> None:
    cache = (normal((2, 400, 64), 10), normal((2, 400, 64), 11))
    sinks = normal((4,), 12, mx.float32)
    check(normal((4, 4, 64), 13), cache, dense_cache(), Place(390, 0, window), sinks)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [64, 128, 256])
def test_quantised_caches(bits: int, size: int) -> None:
    sides = [mx.quantize(normal((1, 150, size), seed), bits=bits) for seed in (14, 15)]
    cache = tuple(array for side in sides for array in side)
    dtype = mx.bfloat16 if size == 128 else mx.float16
    check(normal((3, 3, size), 16, dtype), cache, affine_cache(bits), Place(149))


class Looking:
    """Notes the launches and computes nothing."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        self.launches.append(launch)
        return [mx.zeros(*one) for one in zip(launch.shapes, launch.dtypes, strict=True)]


@pytest.mark.parametrize(
    ("heads", "key_heads", "size"),
    [(16, 2, 256), (32, 2, 256), (24, 4, 256), (64, 8, 128), (8, 1, 512)],
)
@pytest.mark.parametrize("rows", range(1, 10))
def test_no_chip_is_asked_for_too_many_threads(
    heads: int, key_heads: int, size: int, rows: int
) -> None:
    """An M1 or M2 holds fewer than 1,024 threads of so many registers; and none of them idles."""
    launcher, cache = Looking(), tuple(mx.zeros((key_heads, 300, size)) for _ in range(2))
    few_query_attention(
        mx.zeros((heads, rows, size)), cache, dense_cache(), Place(300), 1.0, launcher
    )
    parts = launcher.launches[0]
    each = {128: 4, 256: 2, 512: 1}[size]
    assert parts.threadgroup[0] <= 256
    assert parts.grid == (32 * -(-(heads // key_heads * rows) // each), 3, key_heads)


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_the_cache_is_read_once(rows: int) -> None:
    launcher = EmulatorLauncher()
    cache = (normal((2, 256, 128), 17), normal((2, 256, 128), 18))
    q = normal((12, rows, 128), 19)
    few_query_attention(q, cache, dense_cache(), Place(256), 0.1, launcher)
    buffers = launcher.reports[0].buffers
    threadgroups = -(-6 * rows // (4 * MOST_SIMDS))
    assert threadgroups == (2 if rows == 8 else 1)
    assert buffers["k"].times_read == buffers["v"].times_read == threadgroups


def test_another_order_of_lanes_changes_nothing() -> None:
    cache = (normal((2, 256, 64), 20), normal((2, 256, 64), 21))
    q = normal((4, 4, 64), 22)
    results = [
        few_query_attention(q, cache, dense_cache(), Place(256), 0.1, kernel_launcher(shuffle=seed))
        for seed in (0, 1, 2)
    ]
    assert all(mx.array_equal(results[0], other).item() for other in results[1:])


def test_sizes_that_lanes_cannot_share_are_refused() -> None:
    dense, four, eight = dense_cache(), affine_cache(4, 32), affine_cache(8, 32)
    assert takes(96, 96, dense) and takes(96, 96, eight) and takes(192, 128, four)
    assert not takes(80, 80, dense) and not takes(128, 80, dense) and not takes(96, 96, four)
    cache = (normal((1, 9, 80), 23), normal((1, 9, 80), 24))
    with pytest.raises(AssertionError):
        few_query_attention(normal((1, 1, 80), 25), cache, dense, Place(9), 1.0, kernel_launcher())
