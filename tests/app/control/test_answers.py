"""An answer grows by batches: every character once, every drafted span where it belongs."""

from hypothesis import given
from hypothesis import strategies as st

from app.control.answers import RunningAnswer
from app.values.chats import AnswerSoFar, DraftedSpan
from mlx_engine.values.conversation import (
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import GenerationStats, RoundStats

PIECES = st.lists(st.tuples(st.text(max_size=6), st.integers(0, 4)), max_size=30)


def round_of(emitted: int) -> RoundFinished:
    return RoundFinished(RoundStats(0, 2, 2, emitted - 1, emitted, 1.0, 9.0, 0.5))


@given(PIECES)
def test_spans_cover_exactly_what_was_drafted(pieces: list[tuple[str, int]]) -> None:
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece(text, "answer", depth) for text, depth in pieces], now=0.0)
    assert answer.answer.text == "".join(text for text, _ in pieces)
    depths = [depth for text, depth in pieces for _ in text]
    covered = [0] * len(depths)
    for span in answer.answer.spans:
        assert span.start < span.end
        covered[span.start : span.end] = [span.depth] * (span.end - span.start)
    assert covered == depths


@given(PIECES, st.integers(0, 20))
def test_the_final_text_is_the_engine_s(pieces: list[tuple[str, int]], kept: int) -> None:
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece(text, "answer", depth) for text, depth in pieces], now=0.0)
    whole = answer.answer.text[:kept]
    answer.take([GenerationFinished("end", GenerationStats(), whole)], now=1.0)
    assert answer.answer.text == whole
    assert all(span.end <= len(whole) for span in answer.answer.spans)


def test_thinking_is_kept_apart_and_timed() -> None:
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece("Hm", "thinking", 1)], now=10.0)
    assert answer.thinking_seconds is None
    assert not answer.take([TextPiece(", so", "thinking")], now=11.0).ends_thinking
    assert answer.take([TextPiece("Yes")], now=13.0).ends_thinking
    assert not answer.take([TextPiece(".")], now=14.0).ends_thinking
    assert answer.thinking_seconds == 3.0
    assert (answer.thinking.text, answer.answer.text) == ("Hm, so", "Yes.")
    assert answer.thinking.spans == [DraftedSpan(0, 2, 1)]


def test_speed_counts_from_the_first_round_on() -> None:
    answer = RunningAnswer(1, 2)
    answer.take([PromptProgress(5, 5)], now=0.0)
    assert answer.is_reading
    answer.take([round_of(3)], now=10.0)
    assert answer.tokens_per_second is None
    answer.take([round_of(3), round_of(3)], now=12.0)
    assert answer.tokens_per_second == 3.0
    assert not answer.is_reading
    assert answer.context_used == 11
    answer.take([PromptProgress(4, 9)], now=12.5)
    assert answer.is_reading
    assert answer.context_used == 11, "a draft model reads what was said"
    answer.take([round_of(0)], now=12.6)
    assert not answer.is_reading
    stats = GenerationStats(tokens_per_second=41.0)
    answer.take([GenerationFinished("end", stats, "")], now=13.0)
    assert answer.tokens_per_second == 41.0


def test_an_answer_that_goes_on_begins_with_what_there_is() -> None:
    answer = RunningAnswer(1, 2, AnswerSoFar("Once ", "Hm", [DraftedSpan(0, 5, 1)]))
    answer.take([TextPiece("upon", depth=1)], now=0.0)
    assert answer.answer.text == "Once upon"
    assert answer.answer.spans == [DraftedSpan(0, 9, 1)]


def test_thinking_that_goes_on_takes_longer() -> None:
    answer = RunningAnswer(1, 2, AnswerSoFar("", "Hm", (), 2.0))
    assert answer.thinking_seconds == 2.0
    answer.take([TextPiece(", so", "thinking")], now=10.0)
    assert answer.thinking_seconds is None
    assert answer.take([TextPiece("Yes")], now=13.0).ends_thinking
    assert answer.thinking_seconds == 5.0
