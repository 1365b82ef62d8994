"""An answer grows by batches: every character once, every drafted span where it belongs. It is kept
soon, but not with every word, and ends in turns of its own.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.control import answers as all_answers
from app.control.answers import Answers, RunningAnswer
from app.store.session_store import open_passing_store
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar, DraftedSpan
from app.values.errors import StoreFull
from app.worker.replies import AnswerEvents
from mlx_engine.values.conversation import (
    Event,
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
def test_spans_cover_exactly_what_was_drafted(pieces):
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
def test_the_final_text_is_the_engine_s(pieces, kept):
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece(text, "answer", depth) for text, depth in pieces], now=0.0)
    whole = answer.answer.text[:kept]
    answer.take([GenerationFinished("end", GenerationStats(), whole)], now=1.0)
    assert answer.answer.text == whole
    assert all(span.end <= len(whole) for span in answer.answer.spans)


def test_thinking_is_kept_apart_and_timed():
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece("Hm", "thinking", 1)], now=10.0)
    assert answer.thinking_seconds is None
    assert not answer.take([TextPiece(", so", "thinking")], now=11.0).ends_thinking
    assert answer.take([TextPiece("Yes")], now=13.0).ends_thinking
    assert not answer.take([TextPiece(".")], now=14.0).ends_thinking
    assert answer.thinking_seconds == 3.0
    assert (answer.thinking.text, answer.answer.text) == ("Hm, so", "Yes.")
    assert answer.thinking.spans == [DraftedSpan(0, 2, 1)]


def test_speed_counts_from_the_first_round_on():
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


def test_an_answer_that_goes_on_begins_with_what_there_is():
    answer = RunningAnswer(1, 2, AnswerSoFar("Once ", "Hm", [DraftedSpan(0, 5, 1)]))
    answer.take([TextPiece("upon", depth=1)], now=0.0)
    assert answer.answer.text == "Once upon"
    assert answer.answer.spans == [DraftedSpan(0, 9, 1)]


def test_thinking_that_goes_on_takes_longer():
    answer = RunningAnswer(1, 2, AnswerSoFar("", "Hm", (), 2.0))
    assert answer.thinking_seconds == 2.0
    answer.take([TextPiece(", so", "thinking")], now=10.0)
    assert answer.thinking_seconds is None
    assert answer.take([TextPiece("Yes")], now=13.0).ends_thinking
    assert answer.thinking_seconds == 5.0


@pytest.fixture
def store():
    store = open_passing_store("")
    yield store
    store.close()


@pytest.fixture
def answers(qapp, store):
    return Answers(store, lambda request: None)


@pytest.fixture
def running(store, answers):
    chat = store.chats.create(ChatSettings())
    question = store.messages.add(chat, None, "user", "Tell me.")
    return answers.ask(question, (), ChatSettings(), "Tiny")


@pytest.fixture
def saves(store, monkeypatch):
    """The texts that were written, the first time onto a full disk."""
    found, save = [], store.messages.save_partial

    def saved(message_id: int, so_far: AnswerSoFar) -> None:
        found.append(so_far.text)
        if len(found) == 1:
            raise StoreFull("The disk is full: make room.")
        save(message_id, so_far)

    monkeypatch.setattr(store.messages, "save_partial", saved)
    return found


def say(answers: Answers, answer: RunningAnswer, *events: Event) -> None:
    answers.take(AnswerEvents(str(answer.chat_id), str(answer.message_id), events))


def test_it_is_kept_soon_and_not_with_its_words(qtbot, store, answers, running, saves):
    told: list[str] = []
    answers.failed.connect(told.append)
    for _ in range(50):
        say(answers, running, TextPiece("word ", depth=1))
    assert saves == []
    words = "word " * 50
    qtbot.waitUntil(lambda: store.messages.get(running.message_id).text == words, timeout=20_000)
    assert saves == [words] * 2, "once more, as the disk was full"
    assert len(told) == 1
    assert store.messages.get(running.message_id).spans == (DraftedSpan(0, 250, 1),)
    qtbot.wait(3 * all_answers.TICK_MS)
    assert len(saves) == 2, "nothing is new"


def finish(answers: Answers, answer: RunningAnswer) -> None:
    end = GenerationFinished("end", GenerationStats(), "All of it.")
    say(answers, answer, TextPiece("All of it."), end)


def test_it_ends_after_the_turn_in_which_it_grew(qtbot, store, answers, running):
    def state() -> str:
        return store.messages.get(running.message_id).state

    states: list[str] = []
    answers.grown.connect(lambda *_: states.append(state()))
    answers.ended.connect(lambda *_: states.append(state()))
    with qtbot.waitSignal(answers.changed):
        finish(answers, running)
        assert states == ["partial"]
        assert answers.of_chat(running.chat_id) is running
    assert states == ["partial", "done"]
    assert answers.of_chat(running.chat_id) is None


@pytest.mark.parametrize("turns", [0, 1])
def test_one_that_has_finished_is_whole_when_the_program_ends(
    qtbot, store, answers, running, turns
):
    ended: list[object] = []
    answers.ended.connect(lambda *news: ended.append(news))
    finish(answers, running)
    if turns:
        qtbot.waitUntil(lambda: store.messages.get(running.message_id).state == "done")
    answers.keep_all()
    kept = store.messages.get(running.message_id)
    assert (kept.state, kept.problem, kept.text) == ("done", "", "All of it.")
    qtbot.wait(50)
    assert ended == [(running, None)]
