"""The window: exact past the point where it fills, bounded, and any prefix of a block kept."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import CacheList, RotatingKVCache
from mlx_lm.models.deepseek_v41 import LayerCache as DeepseekV41Cache

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import NEAR, LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.library.caches import LibraryCache
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP

SIZE = 4
TEXT = np.random.default_rng(0).normal(0, 1, (3, 400, SIZE)).astype(np.float32)


def attend(cache, queries, keys, values):
    """One head of attention the way mlx-lm's models do it; rows [T, size]."""
    mask = cache.make_mask(len(queries))
    seen = cache.update_and_fetch(*(mx.array(rows)[None, None] for rows in (keys, values)))
    out = mx.fast.scaled_dot_product_attention(
        mx.array(queries)[None, None], *seen, scale=1.0, mask=mask
    )
    return np.array(out)[0, 0]


def truth(row, window):
    """Row by row in float64, over the last `window` keys only."""
    keys, values = (TEXT[n, max(0, row - window + 1) : row + 1].astype(np.float64) for n in (1, 2))
    weights = np.exp(keys @ TEXT[0, row])
    return weights @ values / weights.sum()


blocks = st.lists(
    st.integers(1, 40).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows))),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60)
@given(blocks=blocks, window=st.integers(1, 150))
def test_any_blocks_and_prefixes(blocks, window):
    """Kept rows are right, and bit for bit those of a cache that is read row by row."""
    cache, alone = WindowCache(window), WindowCache(window)
    for rows, keep in blocks:
        at = cache.length
        if at + rows > TEXT.shape[1]:
            break
        block = TEXT[:, at : at + rows].copy()
        block[:, keep:] += 7  # a draft that will not stand
        out = attend(cache, *block)
        cache.commit(keep)
        for row in range(at, at + keep):
            single = attend(alone, *TEXT[:, row : row + 1])
            alone.commit(1)
            assert np.array_equal(out[row - at], single[0])
            assert np.abs(single[0] - truth(row, window)).max() < 1e-4


@settings(max_examples=30)
@given(window=st.integers(1, 90), cut=st.integers(0, 200), more=st.integers(1, 199))
def test_restore_is_exact_after_the_window_has_moved_on(window, cut, more):
    cache = WindowCache(window)
    for start in range(0, cut, 50):
        rows = min(50, cut - start)
        attend(cache, *TEXT[:, start : start + rows])
        cache.commit(rows)
    boundary = cache.snapshot()
    for _ in range(2):
        attend(cache, *(TEXT[:, :more] + 3))
        cache.commit(more)
        cache.restore(boundary)
        assert cache.length == cut
    out = attend(cache, *TEXT[:, cut : cut + 9])
    for row in range(9):
        assert np.abs(out[row] - truth(cut + row, window)).max() < 1e-4


@settings(max_examples=30)
@given(blocks=blocks, window=st.integers(1, 150))
def test_what_is_seen_begins_at_a_multiple_of_the_step(blocks, window):
    """Where it begins decides in what order a row's sums run, on some machines."""
    cache = WindowCache(window)
    for rows, keep in blocks:
        zeros = mx.zeros((1, 1, rows, 2))
        begin = cache.length + rows - cache.update_and_fetch(zeros, zeros).keys.shape[2]
        assert begin % WINDOW_STEP == 0
        assert begin <= max(0, cache.length - window + 1) < begin + WINDOW_STEP
        cache.commit(keep)


@pytest.mark.parametrize(("window", "away"), [(3, 1), (128, 9), (70, NEAR)])
def test_a_place_is_come_back_to_wherever_the_buffers_were_moved(window, away):
    cache, rows = WindowCache(window), 5
    for at in range(0, 395, rows):
        place, block = cache.temporary_snapshot(), TEXT[:, at : at + rows]
        for start in range(0, away, 8):
            wrong = np.full((3, min(8, away - start), SIZE), 7.0, np.float32)
            attend(cache, *wrong)
            cache.commit(wrong.shape[1])
        cache.restore(place)
        out = attend(cache, *block)
        cache.commit(rows)
        for row in range(rows):
            assert np.abs(out[row] - truth(at + row, window)).max() < 1e-4


def test_bytes_stay_bounded():
    window, chunk, row = 100, 32, 2 * SIZE * 4
    cache, seen = WindowCache(window), []
    for start in range(0, 3000, chunk):
        attend(cache, *(TEXT[:, start % 300 : start % 300 + chunk]))
        cache.commit(chunk)
        mx.eval(cache.arrays())
        seen.append(cache.nbytes)
    assert max(seen) <= row * (window + WINDOW_STEP + WINDOW_SLACK + chunk)
    assert cache.snapshot().nbytes <= row * (window + WINDOW_STEP)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("window", [None, 3])
def test_masks_of_the_full_cache(rows, window):
    cache = AttentionCache()
    cache.write(mx.zeros((1, 1, 4, 2)), mx.zeros((1, 1, 4, 2)))
    cache.commit(4)
    mask = cache.make_mask(rows, return_array=True, window_size=window)
    if window is None and rows == 1:
        assert mask is None
        return
    for row in range(rows):
        last = 4 + row
        wanted = [(window is None or key > last - window) and key <= last
                  for key in range(4 + rows)]  # fmt: skip
        assert mask[row].tolist() == wanted
    assert cache.make_mask(1) is None
    assert cache.make_mask(2) == "causal"


def _write_rotating(cache, rows):
    cache.update_and_fetch(mx.ones((1, 1, rows, 2)), mx.ones((1, 1, rows, 2)))


LIBRARY = {
    "written in place": (lambda: RotatingKVCache(6, keep=1), _write_rotating),
    "with no state to set": (
        lambda: DeepseekV41Cache(6),
        lambda cache, rows: cache.update_window(mx.ones((1, rows, 2))),
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_whole_blocks_are_kept_or_forgotten(name):
    make, write = LIBRARY[name]
    layer = LibraryCache(CacheList(make(), make()))
    caches = LayerCaches([layer])
    assert not caches.keeps_any_prefix
    start = caches.snapshot()
    for keep in (4, 0, 4):
        layer.begin(4)
        for part in layer.library.caches:
            write(part, 4)
        caches.commit(keep)
    assert caches.length == 8
    assert [part.offset for part in layer.library.caches] == [8, 8]
    assert layer.nbytes > 0
    with pytest.raises(AssertionError):
        caches.layers[0].begin(4)
        caches.commit(2)
    caches.restore(start)
    assert caches.length == 0
    assert [part.offset for part in layer.library.caches] == [0, 0]
    assert LayerCaches([AttentionCache(), WindowCache(3)]).keeps_any_prefix
