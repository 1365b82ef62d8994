"""Figures of a chat from its rounds, against sums by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.state.round_history import (
    POINTS,
    DepthRow,
    DraftingNow,
    LastAnswer,
    RoundHistory,
)
from app.store.rows import stats_from, stats_to_json
from app.window.drafting_view import (
    StripFigures,
    context_in_words,
    drafting_sentence,
    gain_in_words,
    reasons_in_words,
    summary,
)
from mlx_engine.values.conversation import PromptProgress
from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import AnswerTally, GenerationStats, RoundStats


def a_round(drafted=0, accepted=0, ms=10.0, why=None):
    return RoundStats(
        0, drafted, drafted, accepted, accepted + 1, ms / 4, ms / 2, ms / 8, why, accept_ms=ms / 8
    )


@given(
    rounds=st.lists(
        st.integers(0, 8).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k))), max_size=40
    )
)
def test_depth_rows(rounds):
    history = RoundHistory()
    history.add(a_round(drafted, accepted) for drafted, accepted in rounds)
    for row in history.depths:
        assert row.drafted == sum(drafted >= row.depth for drafted, _ in rounds)
        assert row.accepted == sum(accepted >= row.depth for _, accepted in rounds)
    assert len(history.depths) == max((drafted for drafted, _ in rounds), default=0)
    assert history.drafted == sum(drafted for drafted, _ in rounds)
    assert history.accepted == sum(accepted for _, accepted in rounds)


def test_gain_needs_both_kinds_of_rounds():
    history = RoundHistory()
    history.add([a_round(3, 2, ms=15)] * 4)
    assert history.gain is None
    history.add([a_round(ms=10)] * 7)
    assert history.gain is None
    history.add([a_round(ms=10)])
    assert history.gain is not None
    assert history.gain.plain == pytest.approx(100)
    assert history.gain.drafted == pytest.approx(200)
    assert gain_in_words(history) == (
        "200.0 tokens per second with drafting, 100.0 without: 2.00 times as fast."
    )


def test_recent_rounds_are_bounded():
    history = RoundHistory()
    history.add([a_round(2, 1)] * (2 * POINTS))
    assert history.depths[0] == DepthRow(1, 2 * POINTS, 2 * POINTS)
    assert history.tokens_per_pass == 2


def test_the_newest_reason_is_in_effect_and_all_are_listed():
    parked, off = Reason("parked-cost", "Too dear."), Reason("off", "Switched off.")
    history = RoundHistory()
    history.add([a_round(why=parked), a_round(why=off)])
    assert summary(history) == "Switched off."
    history.add([a_round(2, 2)])
    assert summary(history).startswith(
        "Guessing 2 tokens ahead now. 2 of 2 guesses were right in this"
    )
    assert reasons_in_words(history.reasons) == "Too dear.\nSwitched off."


def test_an_answer_without_a_word_says_nothing_new():
    history = RoundHistory()
    history.begin_answer()
    history.add([a_round(3, 2)])
    history.end_answer()
    history.begin_answer()
    history.end_answer()


def test_stages_add_up():
    history = RoundHistory()
    history.add([a_round(1, 1, ms=20)] * 3)
    assert (history.stages.draft_ms, history.stages.verify_ms) == (15, 30)
    assert (history.stages.accept_ms, history.stages.host_ms) == (7.5, 7.5)
    assert history.stages.total_ms == 60


def test_what_is_said_follows_the_answer_to_its_end():
    history = RoundHistory()
    assert (history.state, drafting_sentence(history)) == (None, "")
    history.begin_answer()
    assert (history.state, drafting_sentence(history)) == (
        DraftingNow(None),
        "Reading the prompt…",
    )
    history.add([a_round(3, 2), a_round(1, 1)])
    assert (history.state, drafting_sentence(history)) == (
        DraftingNow(1),
        "75% of guesses right",
    )
    history.end_answer()
    assert history.state == LastAnswer(3, 4, 3)
    assert " now" not in summary(history)
    history.begin_answer()
    assert history.depth_in_use == 0
    history.add([a_round(why=Reason("parked-cost", "Too dear."))])
    history.end_answer()
    assert summary(history).startswith("Last answer: Too dear.")


RESTS, ALL = "Drafting is paused: answers come faster without it here", "100% of guesses right"
SLOWER = "Answers come faster without drafting here"
PARKED = Reason("parked-cost", "Too dear.")


@pytest.mark.parametrize(
    ("depth", "why", "auto_depth", "sentence"),
    [
        (3, None, 2, ALL),
        (3, None, 0, SLOWER),
        (0, PARKED, None, RESTS),
        (0, Reason("parked-acceptance", "Too rare."), None, RESTS),
        (0, Reason("off", "Off."), None, ""),
        (0, None, 0, ""),
    ],
)
def test_the_strip_says_one_sentence_or_nothing(depth, why, auto_depth, sentence):
    """Also of an answer from before the program was started, of which the sums are known."""
    stats = RoundStats(0, depth, depth, 0, 1, 1.0, 1.0, 1.0, why, auto_depth)
    history, tally = RoundHistory(), AnswerTally(seed=0, rounds=[stats])
    history.add([stats])
    shown = drafting_sentence(history)
    assert shown == (sentence if sentence != ALL else "0% of guesses right")
    history.end_answer()
    assert drafting_sentence(history) == shown
    kept = stats_from(json.loads(stats_to_json(tally.stats())))
    assert drafting_sentence(RoundHistory([kept])) == shown


def test_nothing_is_called_faster_where_drafting_is_off():
    history = RoundHistory()
    history.add([a_round(3, 3, ms=5)] * 4 + [a_round(ms=20)] * 12)
    history.end_answer()
    assert "faster with drafting" in drafting_sentence(history)
    history.begin_answer()
    history.add([a_round(why=Reason("off", "Off."))])
    assert history.gain is not None and drafting_sentence(history) == ""
    history.end_answer()
    assert drafting_sentence(history) == ""


def test_an_answer_that_drafted_before_it_was_parked_is_not_called_slower():
    history = RoundHistory()
    history.add([a_round(3, 2), a_round(why=PARKED)])
    history.end_answer()


def test_answers_of_before_count_like_new_ones():
    drafted = GenerationStats(
        generated_tokens=30,
        drafted=30,
        accepted=20,
        drafted_by_depth=(10, 10, 10),
        accepted_by_depth=(9, 7, 4),
        passes=10,
        tokens_per_pass=3.0,
        tokens_per_second=60.0,
        verify_ms=400.0,
        accept_ms=100.0,
    )
    plain = GenerationStats(
        generated_tokens=20, passes=20, tokens_per_pass=1.0, tokens_per_second=40.0
    )
    history = RoundHistory([plain, drafted])
    assert history.depths == (DepthRow(1, 9, 10), DepthRow(2, 7, 10), DepthRow(3, 4, 10))
    assert history.tokens_per_pass == 3.0
    assert history.gain is not None
    assert history.gain.ratio == pytest.approx(1.5)
    assert history.stages.total_ms == 500
    assert history.state == LastAnswer(3, 30, 20)
    history.begin_answer()
    history.add([a_round(4, 4)] * 2)
    history.end_answer()
    assert history.depths[3] == DepthRow(4, 2, 2)


def test_words_of_the_strip():
    assert context_in_words(StripFigures(reading=PromptProgress(128, 2000))) == (
        "128 of 2,000 tokens read"
    )
    done = StripFigures(
        41.31, context_used=3100, context_length=32768, reading=PromptProgress(9, 10)
    )
    assert context_in_words(done) == "3,100 of 32,768 tokens"
    assert context_in_words(StripFigures()) == ""
    looking = StripFigures(reading=PromptProgress(9, 2000, encoded=1.5, pictures=6))
    assert context_in_words(looking) == "Looking at picture 2 of 6, 25%"
