"""Answers of the engine's loop: stop, change, continue, fail, and go on."""

import pytest
from scripted_engine import Answer, ScriptedEngine
from scripted_models import Learning, ScriptedModels, WorkerEngine
from served import ask, message_id_of, served

from app.values.chat_settings import ChatSettings
from app.worker.engine_worker import BRIEF
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    AnswerWithdrawn,
    CostsMeasured,
    LoadFailed,
    MemoryHeld,
    ModelChanged,
    ModelLoaded,
    Reply,
    TokensCounted,
    WorkerFailed,
)
from app.worker.requests import (
    Ask,
    ChangeSettings,
    CloseChat,
    CountTokens,
    LoadModel,
    MeasureCosts,
    StopAnswer,
    UnloadModel,
)
from mlx_engine.values.conversation import GenerationFinished, Message, RoundFinished
from mlx_engine.values.errors import NumericsError, OutOfMemory
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.picture import Picture

LONG = " ".join(["word"] * 3000)
SLOWLY = Answer(LONG, pause_s=0.002)


def models(*answers: Answer) -> ScriptedModels:
    return ScriptedModels({"m": WorkerEngine(list(answers))})


def engine_of(source: ScriptedModels) -> ScriptedEngine:
    return source.engines["m"]


def has_round(value: Reply) -> bool:
    return isinstance(value, AnswerEvents) and any(
        isinstance(event, RoundFinished) for event in value.events
    )


def test_a_model_is_let_go_after_its_answers_and_its_memory_is_told():
    source = models(Answer("Because."))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"), UnloadModel(), ask("And?", message_id="next"))
        room.until_answered("answer")
        room.until_a(AnswerFailed)
    held = [reply.nbytes for reply in room.replies if isinstance(reply, MemoryHeld)]
    weights = engine_of(source).description.nbytes
    assert held[0] == weights
    assert held[1] > weights, "with the cache of a chat"
    assert held[2:] == [0]
    assert engine_of(source).closed


def test_without_a_model_there_are_words():
    with served(models()) as room:
        room.put(ask("Why?"))
        failed = room.until_a(AnswerFailed)
    assert isinstance(failed, AnswerFailed)
    assert failed.problem.kind == "known"
    assert "No model" in failed.problem.words


def test_a_stopped_answer_goes_on_where_it_was():
    with served(models(SLOWLY, Answer(" and the rest"))) as room:
        room.put(LoadModel("m"), ask("Why?"))
        room.until(has_round)
        room.put(StopAnswer("chat"))
        said = room.until_answered("answer").text
        messages = (Message("user", "Why?"), Message("assistant", said))
        room.put(Ask("chat", "more", messages))
        assert room.until_answered("more").text == said + " and the rest"
    assert room.text("more") == " and the rest"


def test_a_chat_that_goes_on_as_it_stood_is_not_told_again():
    source = models(Answer("one"), Answer(" two"))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"))
        room.until_answered("answer")
        known = engine_of(source).sessions[0].turns
        room.put(Ask("chat", "more", tuple(known)))
        room.until_answered("more")
        assert engine_of(source).sessions[0].turns is known


def test_stop_withdraws_questions_of_that_chat_that_wait():
    with served(models(SLOWLY)) as room:
        room.put(LoadModel("m"), ask("Why?"))
        room.until(has_round)
        room.put(LoadModel("m"), ask("And?", "b", "b1"), ask("So?", "c", "c1"))
        room.put(StopAnswer("b"))
        room.until(lambda value: value == AnswerWithdrawn("b", "b1"))
        room.put(StopAnswer("chat"))
        assert room.until_answered("answer").reason == "stopped"
        assert room.until_answered("c1").text == "You said: So?"
    assert not room.events("b1")


def test_settings_changed_in_the_middle_reach_the_running_session():
    source = models(SLOWLY)
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?", settings=ChatSettings(draft=DraftOptions(depth=1))))
        room.until(has_round)
        room.put(ChangeSettings("chat", ChatSettings(draft=DraftOptions(depth=5))))
        room.put(StopAnswer("chat"))
        room.until_answered("answer")
        assert engine_of(source).sessions[0].draft.depth == 5


def test_settings_of_a_chat_that_waits_are_not_lost():
    source = models(Answer("first", pause_s=0.05), Answer("a b c"))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"), ask("And?", "b", "b1"))
        room.put(ChangeSettings("b", ChatSettings(system="Be brief.")))
        room.until_answered("b1")
        room.put(MeasureCosts())
        room.until_a(CostsMeasured)
    assert [session.system for session in engine_of(source).sessions] == [None, "Be brief."]


def test_history_is_given_once_and_then_kept():
    source = models(Answer("one"), Answer("two"), Answer("three"))
    before = (Message("user", "Hi"), Message("assistant", "Hello"))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?", before=before))
        room.until_answered("answer")
        longer = (*before, Message("user", "Why?"), Message("assistant", "one"))
        room.put(ask("And?", message_id="next", before=longer))
        room.until_answered("next")
        room.put(ask("Why?", message_id="again", before=before))
        room.until_answered("again")
    (session,) = engine_of(source).sessions
    assert session.messages == (*before, Message("user", "Why?"), Message("assistant", "three"))


def test_several_chats_are_answered_at_once_and_each_is_stopped_by_itself():
    with served(models(SLOWLY, SLOWLY, Answer("Short."))) as room:
        room.put(LoadModel("m"), ask("Why?", "a", "a1"), ask("And?", "b", "b1"))
        room.until(lambda value: has_round(value) and message_id_of(value) == "b1")
        room.put(ask("So?", "c", "c1"))
        assert room.until_answered("c1").text == "Short."
        room.put(StopAnswer("b"))
        assert room.until_answered("b1").reason == "stopped"
        before = len(room.events("a1"))
        room.until(lambda value: has_round(value) and message_id_of(value) == "a1")
        assert len(room.events("a1")) > before, "it goes on"
        room.put(CloseChat("a"))
        assert room.until_answered("a1").reason == "stopped"


def test_what_fails_in_one_chat_is_its_own():
    broken = Answer("one two three four", error=NumericsError("The model produced NaN."))
    with served(models(Answer("word " * 60, pause_s=0.005), broken)) as room:
        room.put(LoadModel("m"), ask("Why?", "a", "a1"), ask("And?", "b", "b1"))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed)
        assert failed.message_id == "b1"
        assert room.until_answered("a1").reason == "end"


def test_another_model_waits_for_every_answer_and_questions_behind_it_for_the_model():
    with served(models(SLOWLY, Answer("word " * 9, pause_s=0.01), Answer("New."))) as room:
        room.put(LoadModel("m"), ask("Why?", "a", "a1"), ask("And?", "b", "b1"))
        room.until(lambda value: has_round(value) and message_id_of(value) == "b1")
        room.put(LoadModel("m"), ask("So?", "c", "c1"))
        assert room.until_answered("b1").reason == "end"
        room.put(StopAnswer("a"))
        assert room.until_answered("a1").reason == "stopped"
        room.until_a(ModelLoaded)
        room.until_answered("c1")


def test_an_error_with_words_keeps_the_text_and_the_thread():
    half = "one two three four five six seven eight nine"
    broken = Answer(half, error=NumericsError("The model produced NaN: load it again."))
    with served(models(broken, Answer("Well."))) as room:
        room.put(LoadModel("m"), ask("Why?"))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed)
        assert (failed.problem.kind, failed.problem.code) == ("known", "NumericsError")
        assert failed.problem.words == "The model produced NaN: load it again."
        assert room.text("answer") == half
        room.put(ask("Why?", message_id="again"))
        assert room.until_answered("again").text == "Well."


class PanicError(BaseException):
    """As extensions in Rust raise it: no Exception."""


def test_a_panic_in_an_extension_ends_its_answer_or_load_alone():
    source = models(Answer("one two", error=PanicError("index out of bounds")), Answer("Well."))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed)
        assert (failed.problem.kind, failed.problem.code) == ("bug", "PanicError")
        room.put(ask("Why?", message_id="again"))
        assert room.until_answered("again").text == "Well."
        source.broken["m"] = PanicError("unwrap on a None")
        room.put(LoadModel("m"))
        assert room.until_a(LoadFailed).problem.code == "PanicError"
        source.forget_files = None  # no request should raise, but one may
        room.put(UnloadModel(), ask("Why?", message_id="last"))
        room.until_a(AnswerFailed)
        room.put(CloseChat("other"), LoadModel("gone"))
        room.until_a(WorkerFailed)


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemory("Memory ran out while answering; the conversation is kept. Close others."),
        RuntimeError("[metal::malloc] Unable to allocate 8589934592 bytes."),
    ],
)
def test_full_memory_is_told_keeps_the_text_and_frees_every_chat(error):
    half = "one two three four five six seven eight nine"
    source = models(Answer("Fine."), Answer(half, error=error), Answer("Well."), Answer("Good."))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Who?", "other", "first"), ask("Why?"))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed)
        assert (failed.problem.kind, failed.problem.code) == ("known", "OutOfMemory")
        assert "Memory ran out" in failed.problem.words
        assert "kept" in failed.problem.words and "Close" in failed.problem.words
        assert room.text("answer") == half
        room.put(ask("Why?", message_id="again"), ask("Who?", "other", "second"))
        assert room.until_answered("again").text == "Well."
        assert room.until_answered("second").text == "Good."
    assert len(engine_of(source).sessions) == 4


def test_a_bug_is_reported_with_its_traceback_and_the_chat_starts_anew():
    source = models(Answer("Half", error=KeyError("lost")), Answer("Well."))
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed)
        assert failed.problem.kind == "bug"
        assert failed.problem.words.startswith("Headstart made a mistake.")
        assert "KeyError: 'lost'" in failed.problem.details
        assert "scripted_engine.py" in failed.problem.details
        room.put(ask("Why?", message_id="again"))
        assert room.until_answered("again").text == "Well."
    assert len(engine_of(source).sessions) == 2


def test_a_closed_chat_stops_and_is_forgotten():
    source = models(SLOWLY)
    with served(source) as room:
        room.put(LoadModel("m"), ask("Why?"), ask("And?", message_id="next"))
        room.until(has_round)
        room.put(CloseChat("chat"), ask("Hello", message_id="new"))
        room.until(lambda value: value == AnswerWithdrawn("chat", "next"))
        assert room.until_answered("answer").reason == "stopped"
        room.until_answered("new")
    assert len(engine_of(source).sessions) == 2


def test_costs_are_measured_on_request():
    with served(models()) as room:
        room.put(MeasureCosts(), LoadModel("m"), MeasureCosts())
        assert room.until_a(CostsMeasured) == CostsMeasured((10.0, 11.0, 12.5), 1.5)
    assert not any(isinstance(value, WorkerFailed) for value in room.replies)


def test_what_is_found_out_while_nothing_else_is_to_do_is_told():
    with served(ScriptedModels({"m": Learning()})) as room:
        room.put(LoadModel("m"), MeasureCosts())
        changed = room.until_a(ModelChanged)
        assert isinstance(changed, ModelChanged)
        assert changed.description.numerics == "fast"


def test_a_question_goes_before_measuring_which_then_goes_on():
    engine = WorkerEngine(passes_left=40, pass_s=0.01)
    with served(ScriptedModels({"m": engine})) as room:
        room.put(LoadModel("m"), MeasureCosts())
        room.until_a(ModelLoaded)
        room.put(ask("Why?"))
        room.until_answered("answer")
        assert engine.passes_left > 0
        assert not any(isinstance(value, CostsMeasured) for value in room.replies)
        room.until_a(CostsMeasured)


def test_a_model_that_was_replaced_is_not_measured():
    old = WorkerEngine(passes_left=10**6, pass_s=0.001)
    with served(ScriptedModels({"old": old, "new": WorkerEngine()})) as room:
        room.put(LoadModel("old"), MeasureCosts(), LoadModel("new"), ask("Why?"))
        room.until_answered("answer")
        left = old.passes_left
        room.put(ask("And?", message_id="next"))
        room.until_answered("next")
        assert old.passes_left == left > 0
    assert not any(isinstance(value, CostsMeasured) for value in room.replies)


def test_measuring_does_not_hold_up_the_end():
    engine = WorkerEngine(passes_left=10**6, pass_s=0.001)
    with served(ScriptedModels({"m": engine})) as room:
        room.put(LoadModel("m"), MeasureCosts())
        room.until_a(ModelLoaded)
    assert engine.passes_left > 10**5


SEEN, UNSEEN = (Picture.from_bytes(b"", width, 4) for width in (3, 0))


def test_texts_are_counted_beside_a_running_answer_and_long_ones_after_it():
    with served(models(SLOWLY)) as room:
        room.put(LoadModel("m"), ask("Why?"))
        room.until(has_round)
        room.put(CountTokens(("a " * BRIEF,)), CountTokens(("one two", SEEN, UNSEEN)))
        counted = room.until_a(TokensCounted)
        assert counted == TokensCounted(("one two", SEEN, UNSEEN), (2, 12, None))
        assert not any(isinstance(event, GenerationFinished) for event in room.events("answer"))
        room.put(StopAnswer("chat"))
        room.until_answered("answer")
        long = room.until_a(TokensCounted)
        assert isinstance(long, TokensCounted)
        assert long.counts == (BRIEF,)


def test_a_failure_outside_of_answers_is_told_and_survived():
    engine = WorkerEngine(passes_left=1, pass_s=-1.0)
    with served(ScriptedModels({"m": engine})) as room:
        room.put(LoadModel("m"), MeasureCosts())
        failed = room.until_a(WorkerFailed)
        assert isinstance(failed, WorkerFailed)
        assert "ValueError" in failed.problem.details
        room.put(ask("Why?"))
        assert room.until_answered("answer").text == "You said: Why?"
