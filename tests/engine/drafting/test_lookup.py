"""Prompt lookup copies earlier text, goes back exactly, and does not waste rows on chance."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_engine.drafting.contract import DraftRequest, TargetRows
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.lookup import LEAST_CHANCE, LONG, SHORT, HitRates, NgramMap, PromptLookup
from mlx_engine.drafting.record import PassCosts
from mlx_engine.values.errors import Reason

COSTS = PassCosts(tuple(10 * (1 + 0.1 * row) for row in range(9)), 1.0)
TEXTS = st.one_of(
    st.lists(st.integers(0, 1), min_size=6, max_size=24),
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
)


def told(tokens):
    source = NoDraft()
    source.lookup = PromptLookup()
    tell(source, tokens)
    return source


def tell(source, tokens):
    rows = TargetRows(mx.array(tokens, dtype=mx.int32), mx.zeros((1, len(tokens), 0)))
    source.commit(rows, len(tokens))
    source.append(tokens)


def proposed(source, last, depth=4):
    request = DraftRequest(depth, mx.array([last]), source.length + 1)
    return source.draft_by_lookup(request).tokens.tolist()


def newest_match(text):
    """By comparing everything with everything: how long, and where."""
    for length in (LONG, SHORT):
        for place in range(len(text) - 1, length - 1, -1):
            if text[place - length : place] == text[-length:]:
                return (length, place)
    return None


@settings(max_examples=100)
@given(text=TEXTS)
def test_the_newest_place_of_the_longer_match(text):
    tokens = NgramMap()
    tokens.extend_match(text[:-1])
    match = tokens.find_match(text[-1])
    assert newest_match(text) == (None if match is None else (match.length, match.place))


@settings(max_examples=100)
@given(text=TEXTS, depth=st.integers(1, 8))
def test_a_proposal_is_a_copy_of_earlier_text(text, depth):
    """What is proposed followed the same tokens before, or goes round in its own copy."""
    tokens = proposed(told(text[:-1]), text[-1], depth)
    if not tokens:
        assert newest_match(text) is None
        return
    assert len(tokens) == depth
    whole = [*text, *tokens]
    end = len(text)
    assert any(
        whole[end - SHORT : end] == whole[place - SHORT : place]
        and whole[place : place + depth] == tokens
        for place in range(SHORT, end)
    )


@settings(max_examples=100)
@given(text=TEXTS, other=TEXTS, cut=st.integers(0, 60))
def test_going_back_leaves_nothing_behind(text, other, cut):
    cut = min(cut, len(text))
    source, fresh = told(text[:cut]), told([*text[:cut], *other])
    boundary = source.snapshot()
    tell(source, text[cut:])
    source.restore(boundary)
    assert source.length == cut
    tell(source, other)
    for last in range(4):
        assert proposed(source, last) == proposed(fresh, last)
    assert vars(source.lookup.ngrams) == vars(fresh.lookup.ngrams)


def test_a_round_without_a_draft_leaves_its_newest_token_alone():
    """It may be on its way, and whoever asks for it waits."""
    assert told([1, 2, 3, 1, 2]).draft_by_lookup(DraftRequest(0, None, 7)).tokens.size == 0


def test_a_length_that_fails_is_paused_until_it_comes_true():
    rates = HitRates()
    assert rates.acceptance_chance(SHORT) >= LEAST_CHANCE
    rates.add_guess(SHORT, is_hit=False)
    assert rates.acceptance_chance(SHORT) < LEAST_CHANCE
    for _ in range(3):
        rates.add_guess(SHORT, is_hit=True)
    assert rates.acceptance_chance(SHORT) >= LEAST_CHANCE
    # longer matches are believed to be as good, until they show otherwise
    assert rates.acceptance_chance(LONG) >= LEAST_CHANCE
    for _ in range(3):
        rates.add_guess(LONG, is_hit=False)
    assert rates.acceptance_chance(LONG) < LEAST_CHANCE <= rates.acceptance_chance(SHORT)


def play(text, start, depth):
    """Rows checked, and passes, for text[start:], at a pinned depth or "auto"."""
    policy, nothing = DepthPolicy(lambda: COSTS), Reason("no-match", "Nothing.")
    source, at, rows, passes = told(text[: start - 1]), start - 1, 0, 0
    while at < len(text) - 1:
        choice = policy.plan_round(source.draft_offers(text[at]), depth, nothing)
        drafted = proposed(source, text[at], choice.depth)
        stood = 0
        while stood < len(drafted) and text[at + 1 : at + 2 + stood] == drafted[: stood + 1]:
            stood += 1
        tell(source, text[at : at + stood + 1])
        policy.learn_round(choice, len(drafted), stood, COSTS.verify_ms[len(drafted)])
        at += stood + 1
        rows, passes = rows + 1 + len(drafted), passes + 1
    return rows, passes


@pytest.mark.parametrize("vocabulary", [5, 8, 40])
def test_random_text_costs_hardly_any_rows(vocabulary):
    text = [int(t) for t in np.random.default_rng(vocabulary).integers(0, vocabulary, 1500)]
    for depth in (1, "auto"):
        rows, passes = play(text, 200, depth)
        assert rows <= 1.05 * passes


def test_copied_text_with_edits_takes_few_passes():
    draw = np.random.default_rng(3)
    first = [int(t) for t in draw.integers(0, 500, 400)]
    again = [t if draw.random() > 0.04 else int(draw.integers(0, 500)) for t in first]
    for depth in (8, "auto"):
        _, passes = play([*first, *again], len(first), depth)
        assert len(again) / passes > 2.2
