"""Filters and penalties against float64 written from the contract."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampling_reference import is_close_call, kept_tokens, penalised_row, softmax

from mlx_engine.sampling.logit_filters import (
    filter_tempered,
    presence_and_frequency_penalty,
    repetition_penalty,
    temper,
)
from mlx_engine.values.options import SamplingOptions

SIZES = st.sampled_from([1, 2, 5, 257])


def one_row(row: list[float] | np.ndarray) -> mx.array:
    return mx.array(np.asarray(row, dtype=np.float32)[None])


def kept_by(row: list[float] | np.ndarray, **filters: float) -> set[int]:
    filtered = np.array(filter_tempered(temper(one_row(row), 1.0), **filters))
    return set(np.flatnonzero(np.isfinite(filtered[0])).tolist())


@st.composite
def rows(draw: st.DrawFn) -> np.ndarray:
    """Logits on a coarse grid (many ties) or a fine one, exact in float32."""
    size = draw(SIZES)
    grid, seed = draw(st.sampled_from([1, 8, 65536])), draw(st.integers(0, 2**31))
    spread = draw(st.sampled_from([0.0, 1.0, 4.0]))
    return np.round(np.random.default_rng(seed).normal(size=size) * spread * grid) / grid


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=50, deadline=None)
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
    assert abs(len(kept_by(np.zeros(248_320), top_p=0.9)) / (0.9 * 248_320) - 1) < 1e-4


def test_kept_logits_are_untouched_and_rows_are_apart() -> None:
    tempered = temper(
        mx.array(np.random.default_rng(1).normal(size=(6, 257)).astype(np.float32)), 0.7
    )
    block = filter_tempered(tempered, top_k=50, top_p=0.8, min_p=0.02)
    for row in range(6):
        alone = filter_tempered(tempered[row : row + 1], top_k=50, top_p=0.8, min_p=0.02)
        assert mx.array_equal(alone[0], block[row]).item()
    kept = np.isfinite(np.array(block))
    assert (np.array(block)[kept] == np.array(tempered)[kept]).all()
    assert 6 <= kept.sum() < 6 * 51


@pytest.mark.parametrize("size", [1, 2, 5, 257])
@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 10.0])
def test_temper_changes_the_softmax_as_it_should(size: int, temperature: float) -> None:
    row = np.random.default_rng(size).normal(size=size).astype(np.float32) * 5
    tempered = np.array(temper(one_row(row), temperature))
    assert tempered.dtype == np.float32 and tempered.max() == 0
    true = softmax(row.astype(np.float64) / temperature)
    np.testing.assert_allclose(softmax(tempered[0].astype(np.float64)), true, rtol=2e-5)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-45, 5e-324])
def test_the_coldest_temperatures_leave_only_the_likeliest(temperature: float) -> None:
    tempered = np.array(temper(mx.array([[30.0, 29.0, -700.0, 30.0]]), temperature))
    assert tempered[0, 0] == tempered[0, 3] == 0
    assert (tempered[0, 1:3] <= -999).all() and not np.isnan(tempered).any()


@settings(max_examples=100, deadline=None)
@given(
    SIZES,
    st.integers(0, 2**31),
    st.sampled_from([0.5, 1.0, 1.3]),
    st.sampled_from([-1.0, 0.0, 0.6]),
    st.sampled_from([-0.5, 0.0, 0.4]),
)
def test_penalties(
    size: int, seed: int, repetition: float, presence: float, frequency: float
) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(size=size).astype(np.float32) * 3
    prompt, answer = rng.integers(0, size, size=3).tolist(), rng.integers(0, size, size=5).tolist()
    counts = mx.array(np.bincount(answer, minlength=size).astype(np.int32))[None]
    seen = mx.array(np.isin(np.arange(size), prompt + answer))
    penalised = presence_and_frequency_penalty(
        repetition_penalty(one_row(row), seen, repetition), counts, presence, frequency
    )
    options = SamplingOptions(
        repetition_penalty=repetition, presence_penalty=presence, frequency_penalty=frequency
    )
    expected = penalised_row(row, prompt, answer, options)
    assert penalised.dtype == mx.float32
    np.testing.assert_allclose(np.array(penalised)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filters", [{"top_p": 1e-50}, {"min_p": 1 - 1e-12}, {"top_k": 1}])
def test_the_likeliest_token_always_stays(filters: dict[str, float]) -> None:
    assert kept_by([1.0, 3.0, 2.0], **filters) == {1}
