"""An answer grows by batches: every character once, every drafted span where it belongs. It is kept
soon, but not with every word, and ends in turns of its own.
"""

import sqlite3
import threading
from collections.abc import Callable

import pytest
from chat_states import StatedChat
from hypothesis import given
from hypothesis import strategies as st

from app.state import answers as all_answers
from app.state.answers import Answers
from app.state.running_answer import RunningAnswer
from app.store.messages import Messages
from app.store.session_store import SessionStore, open_passing_store, open_store
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar, DraftedSpan
from app.values.errors import StoreFull
from app.worker.replies import AnswerEvents, AnswerFailed, Problem
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


def test_an_answer_that_turns_out_to_begin_with_a_thought_loses_its_marks():
    answer = RunningAnswer(1, 2)
    answer.take([TextPiece("A plan.", depth=2), TextPiece(" Words.")], now=0.0)
    answer.take([GenerationFinished("end", GenerationStats(), "Words.", "A plan.")], now=1.0)
    assert (answer.answer.text, answer.thinking.text) == ("Words.", "A plan.")
    assert not answer.answer.spans and not answer.thinking.spans


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
    number = store.messages.begin_answer(question.chat_id, question.id)
    answer = RunningAnswer(question.chat_id, number)
    answers.begin(answer, (), ChatSettings())
    return answer


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
    qtbot.waitUntil(lambda: store.messages.get(running.message_id).text == words)
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


def held(store: SessionStore) -> Callable[[], object]:
    """By another program; call the result to have it let go."""
    other = sqlite3.connect(store.database.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def full(store: SessionStore) -> Callable[[], object]:
    pages = store.database.rows("PRAGMA page_count")[0][0]
    store.database.rows(f"PRAGMA max_page_count = {pages}")
    return lambda: store.database.rows("PRAGMA max_page_count = 1000000")


def read_only(store: SessionStore) -> Callable[[], object]:
    store.database.rows("PRAGMA query_only = 1")
    return lambda: store.database.rows("PRAGMA query_only = 0")


LONG = "All of it. " * 3000
BUG = Problem("bug", "KeyError", "KeyError: 1.")


@pytest.mark.parametrize("trouble", [held, full, read_only])
@pytest.mark.parametrize("how", ["finished", "failed", "closed"])
def test_an_answer_that_ends_while_nothing_can_be_written_is_saved_later(
    qapp, qtbot, tmp_path, monkeypatch, trouble, how
):
    monkeypatch.setattr(all_answers, "TICK_MS", 50)
    store = open_store(tmp_path / "chats.db")
    answers = Answers(store, lambda request: None)
    question = store.messages.add(store.chats.create(ChatSettings()), None, "user", "Tell me.")
    number = store.messages.begin_answer(question.chat_id, question.id)
    answer = RunningAnswer(question.chat_id, number)
    answers.begin(answer, (), ChatSettings())
    ended, told, saved = list[object](), list[str](), list[str]()
    answers.ended.connect(lambda _, problem: ended.append(problem))
    answers.failed.connect(told.append)
    answers.mended.connect(saved.append)
    let_go = trouble(store)
    say(answers, answer, TextPiece(LONG))
    if how == "finished":
        say(answers, answer, GenerationFinished("end", GenerationStats(), LONG))
    elif how == "failed":
        answers.take(AnswerFailed(str(answer.chat_id), str(answer.message_id), BUG))
    if how == "closed":
        monkeypatch.setattr(all_answers, "PATIENCE_S", 0.0)
        assert answers.keep_all() == {answer.message_id: LONG}
        assert len(ended) == 1
        let_go()
    else:
        qtbot.waitUntil(lambda: bool(ended))
        qtbot.wait(200)
        assert ended == [BUG if how == "failed" else None]
        assert len(told) == 1 and told[0].endswith("The answer stays here until it is saved.")
        seen = list(store.messages.path(answer.chat_id))
        let_go()
        qtbot.waitUntil(lambda: saved == told)
        stored = list(Messages(store.database, store.pictures).path(answer.chat_id))
        assert stored == seen, "as it was read before it could be written"
        assert stored[1].message.text == LONG
        assert stored[1].message.state == ("stopped" if how == "failed" else "done")
    store.close()


def test_the_end_of_the_program_waits_for_a_file_that_is_held(qapp, tmp_path):
    store = open_store(tmp_path / "chats.db")
    answers = Answers(store, lambda request: None)
    question = store.messages.add(store.chats.create(ChatSettings()), None, "user", "Tell me.")
    number = store.messages.begin_answer(question.chat_id, question.id)
    answer = RunningAnswer(question.chat_id, number)
    answers.begin(answer, (), ChatSettings())
    let_go = held(store)
    say(answers, answer, TextPiece("Half"))
    timer = threading.Timer(0.3, let_go)
    timer.start()
    assert answers.keep_all() == {}
    kept = store.messages.get(answer.message_id)
    assert (kept.text, kept.problem) == ("Half", all_answers.CLOSED)
    store.close()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_question_is_stored_with_its_answer_or_not_at_all(qapp, qtbot, tmp_path, is_new):
    """Else it is asked twice: it stays in the composer, and stands in the chat."""
    store = open_store(tmp_path / "chats.db")
    one = StatedChat(store)
    if not is_new:
        one.chat.send("Before")
        one.answer(qtbot, "Yes.")
    before, asked = (one.chat.chat_id, one.texts, one.chat.title), len(one.asked)
    full(store)
    assert not one.chat.send(LONG)
    assert (one.chat.chat_id, one.texts, one.chat.title) == before and one.told
    assert len(one.asked) == asked and one.chat.running is None
    assert len(store.database.rows("SELECT * FROM message")) == len(before[1])
    assert len(store.database.rows("SELECT * FROM chat")) == (not is_new)
    one.close()
