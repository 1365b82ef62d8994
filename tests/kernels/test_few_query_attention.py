"""Attention of a few rows: right against float64, each row's bits its own, the cache read once."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from compared import halves, normal, wide
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.few_query_attention import (
    MOST_FACTOR,
    MOST_SIMDS,
    SIZES,
    KeyBlocks,
    KeyExtent,
    few_query_attention,
    key_block_span,
    key_blocks,
    reference,
)
from metal_kernels.kernel import Launch
from metal_kernels.key_value_formats import (
    KeyValueFormat,
    cache_format,
    cache_format_name,
    named_cache_format,
)

Array = np.ndarray


def truth(
    q: Array, keys: Array, values: Array, place: KeyExtent, sinks: Array | None, scale: float
) -> Array:
    heads, rows, _ = q.shape
    out = np.zeros((heads, rows, values.shape[2]))
    for head in range(heads):
        its = head // (heads // keys.shape[0])
        for row in range(rows):
            newest = place.end - rows + row
            oldest = max(0, newest - place.window + 1) if place.window else 0
            seen = slice(oldest - place.start, newest + 1 - place.start)
            scores = keys[its, seen] @ q[head, row] * scale
            weights = np.exp(scores - scores.max())
            sink = 0 if sinks is None else np.exp(sinks[head] - scores.max())
            out[head, row] = weights @ values[its, seen] / (weights.sum() + sink)
    return out


def unseen_are_nan(
    cache: tuple[mx.array, ...], place: KeyExtent, rows: int
) -> tuple[mx.array, ...]:
    """The cache with NaN wherever no row looks; of packed rows in their scales."""
    oldest = max(place.start, place.end - rows + 1 - place.window) if place.window else place.start
    at = mx.arange(place.start, place.start + cache[0].shape[1])[None, :, None]
    seen = (at >= oldest) & (at < place.end)
    return tuple(
        one if one.dtype == mx.uint32 else mx.where(seen, one, mx.nan).astype(one.dtype)
        for one in cache
    )


def check(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: KeyExtent,
    sinks: mx.array | None = None,
    q_latent: mx.array | None = None,
) -> None:
    """Against float64, then every part of 1 to 8 rows from either end against the whole."""
    launcher = kernel_launcher()
    scale, rows = q.shape[2] ** -0.5, q.shape[1]
    half = len(form.buffers) // 2
    keys, values = (wide(form.dequantise(side)) for side in (cache[:half], cache[half:]))
    queries = wide(q)
    if q_latent is not None:
        queries = np.concatenate([wide(q_latent), queries], axis=2)
        keys = np.concatenate([values, keys], axis=2)
    right = truth(queries, keys, values, place, None if sinks is None else wide(sinks), scale)
    plain = reference(q, cache, form, place, scale, sinks, q_latent)
    cache = unseen_are_nan(cache, place, rows)
    whole = few_query_attention(q, cache, form, place, scale, launcher, sinks, q_latent)
    error, its = (np.abs(wide(array) - right).max() for array in (whole, plain))
    assert error <= 2 * its + 1e-6 * np.abs(right).max()
    for few in range(1, rows) if rows in (8, 9) and len(q) < 16 else {1, max(1, rows - 1)}:
        for first in {0, rows - few}:
            part, latent = (
                None if one is None else mx.contiguous(one[:, first : first + few])
                for one in (q, q_latent)
            )
            assert part is not None
            then = KeyExtent(place.end - rows + first + few, place.start, place.window)
            again = few_query_attention(part, cache, form, then, scale, launcher, sinks, latent)
            assert mx.array_equal(again, whole[:, first : first + few]).item(), (few, first)


@pytest.mark.parametrize(
    ("heads", "key_heads", "size", "value_size", "rows"),
    [
        (6, 2, 64, 64, 8),
        (3, 1, 80, 80, 5),
        (3, 3, 96, 96, 16),
        (2, 2, 112, 112, 3),
        (12, 2, 128, 128, 5),
        (4, 1, 192, 128, 9),
        (6, 1, 256, 256, 4),
        (16, 2, 256, 256, 9),
        (2, 1, 512, 512, 2),
        (1, 1, 40, 72, 1),
    ],
)
def test_shapes(heads: int, key_heads: int, size: int, value_size: int, rows: int) -> None:
    cache = (halves((key_heads, 290, size), 1), halves((key_heads, 290, value_size), 2))
    check(halves((heads, rows, size), 3), cache, cache_format(), KeyExtent(261))


@pytest.mark.parametrize(
    ("heads", "rank", "turned", "rows"), [(20, 512, 64, 2), (3, 64, 32, 9), (2, 96, 16, 4)]
)
def test_latents(heads: int, rank: int, turned: int, rows: int) -> None:
    """GLM-4.7-Flash's and DeepSeek's sizes, and those of small tests."""
    cache = (halves((1, 150, turned), 26), halves((1, 150, rank), 27))
    q, q_latent = halves((heads, rows, turned), 28), halves((heads, rows, rank), 29) / 8
    check(q, cache, cache_format(is_latent=True), KeyExtent(141), None, q_latent)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("rank", "turned", "rows"), [(512, 64, 2), (96, 32, 9)])
def test_packed_latents(bits: int, rank: int, turned: int, rows: int) -> None:
    form = named_cache_format(cache_format_name(bits, is_latent=True), turned, rank)
    sides = (halves((1, 150, turned), 26), halves((1, 150, rank), 27))
    cache = tuple(part for side in sides for part in form.store(side))
    q, q_latent = halves((3, rows, turned), 28), halves((3, rows, rank), 29) / 8
    check(q, cache, form, KeyExtent(141), None, q_latent)


@pytest.mark.parametrize("end", [1, 3, 8, 127, 128, 129, 256 + 4])
def test_where_blocks_end(end: int) -> None:
    cache = (halves((1, 300, 64), 4), halves((1, 300, 64), 5))
    check(normal((4, min(8, end), 64), 6, mx.float32), cache, cache_format(), KeyExtent(end))


def test_where_blocks_grow() -> None:
    cache = (halves((1, 140, 64), 7), halves((1, 140, 64), 8))
    for change, _ in SIZES[1:]:
        place = KeyExtent(change + 2, change - 100, 90)
        check(halves((2, 4, 64), 9), cache, cache_format(), place)
        check(halves((24, 4, 64), 9), cache, cache_format(), place)
    keys = (0, 127, 128, 4095, 4096, 4351, 4352, 16383, 16384, 65535, 65536, 66560)
    assert [KeyBlocks(1, 1).block_of_key(key) for key in keys] == [
        *(0, 0, 1, 31, 32, 32, 33, 79, 80, 175, 176, 177)
    ]


@pytest.mark.parametrize("factor", [1, 2, 4, 8, MOST_FACTOR])
def test_every_key_is_in_one_block(factor: int) -> None:
    """Sizes change at the same places whatever the factor."""
    cut = KeyBlocks(1, factor)
    ends = [cut.first_key_of_block(block) for block in range(300)]
    assert all(cut.block_of_key(start) == block for block, start in enumerate(ends))
    assert all(cut.block_of_key(end - 1) == block for block, end in enumerate(ends[1:]))
    assert {change for change, _ in SIZES} <= set(ends)


@pytest.mark.parametrize(
    ("heads_per_key", "size", "value_size", "bits", "latent", "factor"),
    [
        (4, 128, 128, 16, False, 1),
        (6, 256, 256, 16, False, 2),
        (8, 128, 128, 16, False, 2),
        (12, 128, 128, 16, False, 4),
        (8, 128, 128, 8, False, 4),
        (20, 64, 512, 16, True, 8),
        (128, 64, 512, 16, True, MOST_FACTOR),
    ],
)
def test_partial_results_are_few_beside_the_cache(
    heads_per_key: int, size: int, value_size: int, bits: int, latent: bool, factor: int
) -> None:
    """At most 15 % of its bytes with a draft of three and 4,096 keys or more, but for 128 heads."""
    form = named_cache_format(cache_format_name(bits, is_latent=latent), size, value_size)
    cut = key_blocks(form, size, value_size, heads_per_key)
    assert cut.factor == factor
    span = key_block_span(KeyExtent(16384), 4, cut)
    written = 2 * 4 * heads_per_key * 4 * (value_size + 2) * span.blocks
    share = written / (16384 * (size + value_size) * form.element_bytes)
    assert share < 0.19 or factor == MOST_FACTOR


@pytest.mark.parametrize("window", [1, 64, 150])
def test_window_and_sinks(window: int) -> None:
    cache = (halves((2, 400, 64), 10), halves((2, 400, 64), 11))
    sinks = normal((4,), 12, mx.float32)
    check(halves((4, 4, 64), 13), cache, cache_format(), KeyExtent(390, 0, window), sinks)


@pytest.mark.parametrize("end", [253, 256, 258])
@pytest.mark.parametrize("window", [0, 64])
def test_an_end_that_only_the_device_knows_changes_no_bit(end: int, window: int) -> None:
    """At most 259, on either side of a border between blocks."""
    cache = (halves((2, 300, 64), 40), halves((2, 300, 64), 41))
    q, launcher = halves((4, 3, 64), 42), kernel_launcher()
    known = few_query_attention(q, cache, cache_format(), KeyExtent(end, 0, window), 0.1, launcher)
    span = key_block_span(KeyExtent(259, 0, window, spare=9), 3, KeyBlocks(2, 1)).with_lazy_end(
        mx.array([end], dtype=mx.int32)
    )
    assert mx.array_equal(
        known, few_query_attention(q, cache, cache_format(), span, 0.1, launcher)
    ).item()


def test_a_long_chat() -> None:
    """40,961 keys, the blocks of which the lanes weigh in six turns."""
    keys = 40961
    cache = (halves((1, keys + 7, 64), 30), halves((1, keys + 7, 64), 31))
    check(halves((1, 2, 64), 32), cache, cache_format(), KeyExtent(keys))


def test_what_a_row_does_not_see_cannot_reach_it() -> None:
    """Not even a value that is no number, drafted for the position after it."""
    cache = (halves((1, 300, 64), 33), halves((1, 300, 64), 34))
    q, place = halves((2, 4, 64), 35), KeyExtent(138)
    sound = few_query_attention(q, cache, cache_format(), place, 0.1, kernel_launcher())
    cache[1][:, 137] = mx.inf
    spoilt = few_query_attention(q, cache, cache_format(), place, 0.1, kernel_launcher())
    assert mx.array_equal(spoilt[:, :3], sound[:, :3]).item()
    assert not mx.isfinite(spoilt[:, 3]).any().item()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [64, 96, 128, 192, 256])
def test_quantised_caches(bits: int, size: int) -> None:
    group = 64 if size % 64 == 0 else 32
    sides = [mx.quantize(halves((1, 150, size), seed), group, bits) for seed in (14, 15)]
    cache = tuple(array for side in sides for array in side)
    dtype = mx.bfloat16 if size == 128 else mx.float16
    check(normal((3, 3, size), 16, dtype), cache, cache_format(bits, group), KeyExtent(149))


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
        mx.zeros((heads, rows, size)), cache, cache_format(), KeyExtent(300), 1.0, launcher
    )
    parts, merge = launcher.launches
    each, group = {128: 4, 256: 2, 512: 1}[size], heads // key_heads * rows
    assert max(parts.threadgroup[0], merge.threadgroup[0]) <= 256
    blocks = key_blocks(cache_format(), size, size, heads // key_heads).block_of_key(299) + 1
    assert parts.grid == (32 * -(-group // each), blocks, key_heads)
    assert dict(parts.pipeline.parameters)["R"] * parts.grid[0] // 32 < group + each


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_the_cache_is_read_once(rows: int) -> None:
    launcher = EmulatorLauncher()
    cache = (halves((2, 256, 128), 17), halves((2, 256, 128), 18))
    q = halves((12, rows, 128), 19)
    few_query_attention(q, cache, cache_format(), KeyExtent(256), 0.1, launcher)
    buffers = launcher.reports[0].buffers
    threadgroups = -(-6 * rows // (4 * MOST_SIMDS))
    assert threadgroups == (2 if rows == 8 else 1)
    assert buffers["k"].times_read == buffers["v"].times_read == threadgroups


def test_another_order_of_lanes_changes_nothing() -> None:
    cache = (halves((2, 256, 64), 20), halves((2, 256, 64), 21))
    q = halves((4, 4, 64), 22)
    results = [
        few_query_attention(
            q, cache, cache_format(), KeyExtent(256), 0.1, kernel_launcher(shuffle=seed)
        )
        for seed in (0, 1, 2)
    ]
    assert all(mx.array_equal(results[0], other).item() for other in results[1:])


def test_sizes_that_lanes_cannot_share_are_refused() -> None:
    dense, latent, four = cache_format(), cache_format(is_latent=True), cache_format(4, 32)
    assert all(dense.lane_shares(size, 128) for size in (64, 80, 96, 112, 128, 192, 256, 512))
    assert dense.lane_shares(80, 128) == (4, 4)
    assert four.lane_shares(96, 96) == (4, 4)
    assert latent.lane_shares(64, 512) == (18, 16)
    assert not dense.lane_shares(640, 64) and not dense.lane_shares(64, 37 * 8)
    assert not latent.lane_shares(128, 512) and not four.lane_shares(33, 33)
    cache = (halves((1, 9, 640), 23), halves((1, 9, 64), 24))
    with pytest.raises(AssertionError):
        few_query_attention(
            halves((1, 1, 640), 25), cache, dense, KeyExtent(9), 1.0, kernel_launcher()
        )
