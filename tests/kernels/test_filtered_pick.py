"""Filters against float64 written from the contract, and the kernel that picks under them."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_launchers import kernel_launcher
from sampling_reference import is_close_call, kept_tokens, softmax

from metal_kernels.filtered_pick import (
    SamplingFilters,
    apply_temperature,
    filter_tempered,
    filtered_pick,
    reference,
)

FEW = SamplingFilters(0.7, top_k=50, top_p=0.8, min_p=0.02)
SIZES = st.sampled_from([1, 2, 5, 257])


def one_row(row: list[float] | np.ndarray) -> mx.array:
    return mx.array(np.asarray(row, dtype=np.float32)[None])


def kept_by(row: list[float] | np.ndarray, **filters: float) -> set[int]:
    filtered = np.array(
        filter_tempered(apply_temperature(one_row(row), 1.0), SamplingFilters(1.0, **filters))
    )
    return set(np.flatnonzero(np.isfinite(filtered[0])).tolist())


@st.composite
def rows(draw: st.DrawFn) -> np.ndarray:
    """Logits on a coarse grid (many ties) or a fine one, exact in float32."""
    size = draw(SIZES)
    grid, seed = draw(st.sampled_from([1, 8, 65536])), draw(st.integers(0, 2**31))
    spread = draw(st.sampled_from([0.0, 1.0, 4.0]))
    return np.round(np.random.default_rng(seed).normal(size=size) * spread * grid) / grid


@settings(max_examples=120)
@given(
    rows(),
    st.sampled_from([0, 1, 2, 3, 40, 256, 1000]),
    st.sampled_from([1.0, 0.01, 0.3, 0.501, 0.9, 0.9873]),
    st.sampled_from([0.0, 0.051, 0.47, 0.99]),
)
def test_filters_keep_what_the_contract_says(
    row: np.ndarray, top_k: int, top_p: float, min_p: float
) -> None:
    assume(not is_close_call(row, top_p, min_p))
    expected = kept_tokens(row, top_k, top_p, min_p)
    assert kept_by(row, top_k=top_k, top_p=top_p, min_p=min_p) == expected
    assert int(row.argmax()) in expected


@settings(max_examples=50)
@given(rows(), st.sampled_from([3, 40]), st.sampled_from([0.3, 0.9]), st.sampled_from([0.05, 0.5]))
def test_together_they_keep_what_each_keeps(
    row: np.ndarray, top_k: int, top_p: float, min_p: float
) -> None:
    each = kept_by(row, top_k=top_k) & kept_by(row, top_p=top_p) & kept_by(row, min_p=min_p)
    assert kept_by(row, top_k=top_k, top_p=top_p, min_p=min_p) == each


def test_nucleus_is_judged_on_the_full_softmax() -> None:
    """On the two highest alone, renormalised, the first would reach 0.6 by itself."""
    row = np.log([0.4, 0.25, 0.2, 0.15])
    assert kept_by(row, top_k=2, top_p=0.6) == {0, 1}


def test_the_token_that_crosses_top_p_stays() -> None:
    row = np.log([0.2, 0.5, 0.3])
    assert kept_by(row, top_p=0.51) == {1, 2}
    assert kept_by(row, top_p=0.49) == {1}


def test_ties_go_to_lower_token_ids() -> None:
    assert kept_by([1, 2, 1, 2, 1], top_k=1) == {1}
    assert kept_by([1, 2, 1, 2, 1], top_k=3) == {0, 1, 3}
    assert kept_by([0] * 10, top_p=0.35) == {0, 1, 2, 3}
    assert kept_by([0] * 10, min_p=0.99) == set(range(10))


def test_nucleus_of_a_flat_large_vocabulary_is_not_lost_in_rounding() -> None:
    """248,320 equal shares added up in float32 drift by far more than this."""
    assert abs(len(kept_by(np.zeros(248_320), top_p=0.9)) / (0.9 * 248_320) - 1) < 1e-6


@pytest.mark.parametrize("size", [7, 32_771, 151_936, 262_144])
@pytest.mark.parametrize("top_p", [1e-6, 0.95, 0.999999])
def test_the_nucleus_of_a_real_vocabulary_is_that_of_float64(size: int, top_p: float) -> None:
    """The fewest that reach top_p."""
    row = (np.random.default_rng(size).normal(size=size) * 3).astype(np.float32)
    row[[1, size // 2]] = -np.inf
    shares = softmax(row.astype(np.float64))
    kept = np.isfinite(
        np.array(
            filter_tempered(apply_temperature(one_row(row), 1.0), SamplingFilters(1, 0, top_p))
        )
    )
    mass, least = shares[kept[0]].sum(), shares[kept[0]].min()
    assert mass >= top_p - 1e-8 and mass - least < top_p + 1e-8
    assert least >= shares[~kept[0]].max()
    assert not kept[0, 1]


def test_kept_logits_are_untouched_and_rows_are_apart() -> None:
    tempered = apply_temperature(
        mx.array(np.random.default_rng(1).normal(size=(6, 257)).astype(np.float32)), 0.7
    )
    block = filter_tempered(tempered, FEW)
    for row in range(6):
        alone = filter_tempered(tempered[row : row + 1], FEW)
        assert mx.array_equal(alone[0], block[row]).item()
    kept = np.isfinite(np.array(block))
    assert (np.array(block)[kept] == np.array(tempered)[kept]).all()
    assert 6 <= kept.sum() < 6 * 51


@pytest.mark.parametrize("size", [1, 2, 5, 257])
@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 10.0])
def test_temper_changes_the_softmax_as_it_should(size: int, temperature: float) -> None:
    row = np.random.default_rng(size).normal(size=size).astype(np.float32) * 5
    tempered = np.array(apply_temperature(one_row(row), temperature))
    assert tempered.dtype == np.float32 and tempered.max() == 0
    true = softmax(row.astype(np.float64) / temperature)
    np.testing.assert_allclose(softmax(tempered[0].astype(np.float64)), true, rtol=2e-5)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-45, 5e-324])
def test_the_coldest_temperatures_leave_only_the_likeliest(temperature: float) -> None:
    tempered = np.array(apply_temperature(mx.array([[30.0, 29.0, -700.0, 30.0]]), temperature))
    assert tempered[0, 0] == tempered[0, 3] == 0
    assert (tempered[0, 1:3] <= -999).all() and not np.isnan(tempered).any()


@pytest.mark.parametrize("filters", [{"top_p": 1e-50}, {"min_p": 1 - 1e-12}, {"top_k": 1}])
def test_the_likeliest_token_always_stays(filters: dict[str, float]) -> None:
    assert kept_by([1.0, 3.0, 2.0], **filters) == {1}


def keys(rows: int) -> mx.array:
    bits = np.random.default_rng(rows).integers(0, 2**32, (rows, 2), dtype=np.uint32)
    return mx.array(bits)


@pytest.mark.parametrize(
    "filters",
    [
        SamplingFilters(3.0, top_k=6),
        SamplingFilters(3.0, top_p=0.04),
        SamplingFilters(3.0, min_p=0.65),
        SamplingFilters(4.0, top_k=9, top_p=0.035, min_p=0.1),
    ],
)
@pytest.mark.parametrize("grid", [2, 65536])
def test_the_kernel_picks_all_that_is_kept_and_nothing_else(
    filters: SamplingFilters, grid: int
) -> None:
    """With many ties at the last place, and with none."""
    row = np.round(np.random.default_rng(3).normal(size=257) * grid) / grid
    rows = mx.broadcast_to(one_row(row), (90, 257))
    picked = filtered_pick(rows, keys(90), filters.kernel_settings(), kernel_launcher(check=False))
    kept = kept_tokens(row / filters.temperature, *filters[1:])
    assert set(picked.tolist()) == kept and 4 < len(kept) < 12
    assert picked.tolist() == reference(rows, keys(90), filters).tolist()


@pytest.mark.parametrize("size", [1, 7, 32_771, 151_936])
@pytest.mark.parametrize(
    "filters", [SamplingFilters(0.6, 20, 0.95), SamplingFilters(1.0, 0, 0.999999)]
)
def test_the_kernel_picks_what_the_reference_does(size: int, filters: SamplingFilters) -> None:
    """Two rows, of which one is as coarse as bfloat16 and has logits of -inf, as drafts have."""
    logits = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32) * 3
    logits[1] = np.where(np.arange(size) % 5 == 4, -np.inf, np.round(logits[1] * 16) / 16)
    block, launcher = mx.array(logits), kernel_launcher(check=size < 1000)
    picked = filtered_pick(block, keys(2), filters.kernel_settings(), launcher)
    assert picked.tolist() == reference(block, keys(2), filters).tolist()
    alone = filtered_pick(block[1:], keys(2)[1:], filters.kernel_settings(), launcher)
    assert alone.item() == picked[1].item()


@pytest.mark.parametrize(
    "filters", [SamplingFilters(1.0, top_k=40), SamplingFilters(1.0, top_p=0.9)]
)
def test_zeros_of_both_signs_are_equally_likely(filters: SamplingFilters) -> None:
    """Of a row's largest logits, a thread meets first -0.0, then 0.0 (or the other way round)."""
    row = np.full(1300, -20.0, dtype=np.float32)
    row[:20], row[512:532] = -0.0, 0.0
    row[40:50], row[552:562] = 0.0, -0.0
    rows = mx.broadcast_to(one_row(row), (90, 1300))
    picked = filtered_pick(rows, keys(90), filters.kernel_settings(), kernel_launcher(check=False))
    assert picked.tolist() == reference(rows, keys(90), filters).tolist()
    assert len(set(picked.tolist())) > 30


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_rows_that_are_no_numbers_are_told(bad: float) -> None:
    logits = mx.array(np.random.default_rng(1).normal(size=(3, 700)).astype(np.float32))
    logits[1, 650] = bad
    settings = SamplingFilters(1.0, top_p=0.9).kernel_settings(lowest_logit=-3e38)
    picked = filtered_pick(logits, keys(3), settings, kernel_launcher())
    assert [token < 0 for token in picked.tolist()] == [False, True, False]
    nothing = mx.full((1, 700), -mx.inf)
    lenient = SamplingFilters(1.0, top_k=3).kernel_settings()
    assert filtered_pick(nothing, keys(1), lenient, kernel_launcher()).item() == -1
