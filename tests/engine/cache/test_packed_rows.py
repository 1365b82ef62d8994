"""Rows of 8 and 4 bits: what is read is what was written, rounded once, whatever is kept."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.window import WindowCache
from mlx_engine.values.options import CacheBits

SIZES = (96, 64)
TEXT = [
    mx.array(np.random.default_rng(size).normal(0, 1, (1, 2, 700, size)).astype(np.float32))
    for size in SIZES
]
blocks = st.lists(
    st.integers(1, 90).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows))),
    min_size=1,
    max_size=12,
)


def rounded(rows: mx.array, bits: int) -> mx.array:
    return mx.dequantize(*mx.quantize(rows, 32, bits), group_size=32, bits=bits)


@settings(max_examples=20)
@given(blocks=blocks, bits=st.sampled_from([8, 4]), window=st.sampled_from([None, 1, 150]))
def test_any_blocks_and_prefixes(
    blocks: list[tuple[int, int]], bits: CacheBits, window: int | None
) -> None:
    cache = AttentionCache(bits) if window is None else WindowCache(window, bits=bits)
    boundary, at_boundary = cache.snapshot(), 0
    for rows, keep in blocks:
        at = cache.length
        if at + rows > TEXT[0].shape[2]:
            cache.restore(boundary)
            assert cache.length == at_boundary
            continue
        parts = [mx.array(side[:, :, at : at + rows]) for side in TEXT]
        for part in parts:
            part[:, :, keep:] += 7  # a draft that will not stand
        seen = cache.write(*parts)
        begin = at + rows - seen.keys.shape[2]
        assert begin <= max(0, at - (window or 2**30) + 1)
        cache.commit(keep)
        for mine, side in zip(seen, TEXT, strict=True):
            whole = mine[:, :, : at + keep - begin]
            assert mx.array_equal(whole, rounded(side, bits)[:, :, begin : at + keep]).item()
        if keep == rows:
            boundary, at_boundary = cache.snapshot(), cache.length


@pytest.mark.parametrize(("bits", "share"), [(8, 9 / 32), (4, 5 / 32)])
def test_bytes(bits: CacheBits, share: float) -> None:
    """A scale and a bias for 32 or 64 numbers beside their bits, of float32 here."""
    plain, packed = AttentionCache(), AttentionCache(bits)
    for cache in (plain, packed):
        cache.write(*(mx.concatenate([side[..., :32]] * 2, axis=-1) for side in TEXT))
        cache.commit(3)
    assert packed.nbytes == share * plain.nbytes
    assert packed.nbytes == sum(array.nbytes for array in packed.arrays())
    apart = mx.abs(packed.keys_and_values().keys - plain.keys_and_values().keys).max().item()
    assert 0 < apart < 8 / 2**bits


@pytest.mark.parametrize("bits", [16, 8])
def test_a_cache_takes_rows_of_keys_and_values_alike_only(bits):
    written, restored = AttentionCache(bits), AttentionCache(bits)
    written.write(TEXT[0][:, :, :5], TEXT[1][:, :, :5])
    written.commit(5)
    rows = written.rows(0, 5)
    restored.replace_rows(rows)
    assert restored.length == 5
    for others in ((), rows[:1], (*rows, rows[0]), (*rows[:-1], rows[-1][:, :, :4])):
        with pytest.raises(ValueError, match="keys and values"):
            AttentionCache(bits).replace_rows(others)
