"""The whole worker with the built-in model: load, ask, change, stop, continue, fail, end."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from served import Served, ask, is_end, message_id_of, served

from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.model_in_use import ModelSource
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    OldestDropped,
    Reply,
)
from app.worker.requests import Ask, CancelLoad, ChangeSettings, CloseChat, LoadModel, StopAnswer
from mlx_engine.values.conversation import Message, PromptProgress, RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, LoadOptions

if TYPE_CHECKING:
    pass

POCKET = Path(__file__).parents[3] / "assets" / "pocket_model"
pytestmark = pytest.mark.skipif(
    not (POCKET / "model.safetensors").is_file(), reason="the built-in model is not here"
)
QUESTION = "What is Headstart?"


def settings(depth: int, max_tokens: int = 40) -> ChatSettings:
    """Goes on and on, for there is no end token to stop it."""
    return ChatSettings(
        sampling=SamplingChoice(temperature=0.7, seed=5),
        draft=DraftOptions(depth=depth),
        generation=GenerationOptions(max_tokens=max_tokens, ignore_eos=True),
    )


@pytest.fixture(scope="module")
def room():
    with served(ModelSource()) as made:
        made.put(LoadModel(None))
        made.until_a(ModelLoaded)
        yield made


def has_round_of(message_id: str, value: Reply) -> bool:
    return (
        isinstance(value, AnswerEvents)
        and value.message_id == message_id
        and any(isinstance(event, RoundFinished) for event in value.events)
    )


def ask_and_stop(room: Served, chat_id: str, message_id: str) -> str:
    """Stop after the first round; the text so far."""
    room.put(ask(QUESTION, chat_id, message_id, settings(1, 2000)))
    room.until(lambda value: has_round_of(message_id, value))
    room.put(StopAnswer(chat_id))
    finished = room.until_answered(message_id)
    assert finished.reason == "stopped"
    return finished.text


def test_a_depth_changed_in_the_middle_applies_and_changes_no_word(room):
    room.put(ask(QUESTION, "changed", "changed 1", settings(0)))
    room.until(lambda value: has_round_of("changed 1", value))
    room.put(ChangeSettings("changed", settings(2)))
    text = room.until_answered("changed 1").text
    depths = room.depths("changed 1")
    assert (depths[0], depths[-1]) == (0, 2)
    room.put(ask(QUESTION, "plain", "plain 1", settings(0)))
    assert room.until_answered("plain 1").text == text
    assert room.text("plain 1") == text


def test_stop_and_continue(room):
    said = ask_and_stop(room, "stopped", "stopped 1")
    messages = (Message("user", QUESTION), Message("assistant", said))
    room.put(Ask("stopped", "stopped 2", messages, settings(1, 10)))
    whole = room.until_answered("stopped 2").text
    assert whole.startswith(said)
    assert whole == said + room.text("stopped 2")
    progress = [e for e in room.events("stopped 2") if isinstance(e, PromptProgress)]
    assert progress[-1].reused >= progress[-1].total - 2


def test_a_second_chat_does_not_disturb_the_first(room):
    room.put(ask(QUESTION, "first", "first 1", settings(1, 12)))
    said = room.until_answered("first 1").text
    room.put(ask("Who are you?", "second", "second 1", settings(1, 5)))
    room.until_answered("second 1")
    messages = (Message("user", QUESTION), Message("assistant", said), Message("user", "And?"))
    room.put(Ask("first", "first 2", messages, settings(1, 5)))
    room.until_answered("first 2")
    progress = [e for e in room.events("first 2") if isinstance(e, PromptProgress)]
    assert progress[-1].reused > 10


def test_an_error_has_words_and_the_chat_goes_on(room):
    room.put(ask("   ", "empty", "empty 1", settings(1)))
    failed = room.until(lambda value: message_id_of(value) == "empty 1")
    assert isinstance(failed, AnswerFailed)
    assert (failed.problem.kind, failed.problem.code) == ("known", "BadPrompt")
    room.put(ask(QUESTION, "empty", "empty 2", settings(1, 5)))
    assert room.until_answered("empty 2").text


def test_failed_and_cancelled_loads_leave_the_model(room, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    room.put(LoadModel(str(tmp_path / "model.gguf")))
    failed = room.until_a(LoadFailed)
    assert isinstance(failed, LoadFailed)
    assert failed.problem.kind == "known"
    room.put(LoadModel(str(POCKET)), CancelLoad())
    room.until_a(LoadCancelled)
    room.put(ask(QUESTION, "still", "still 1", settings(1, 5)))
    assert room.until_answered("still 1").text


def test_loading_again_replaces_the_model(room):
    room.put(LoadModel(str(POCKET)))
    progress = room.until(lambda value: isinstance(value, LoadProgress) and value.total > 0)
    assert isinstance(progress, LoadProgress)
    room.until_a(ModelLoaded)
    room.put(ask(QUESTION, "anew", "anew 1", settings(1, 5)))
    assert room.until_answered("anew 1").text


def test_the_end_comes_quickly_in_the_middle_of_an_answer():
    with served(ModelSource()) as room:
        room.put(LoadModel(None), ask(QUESTION, "last", "last 1", settings(1, 5000)))
        room.until(lambda value: has_round_of("last 1", value))
        started = time.perf_counter()
    assert time.perf_counter() - started < 10
    assert not any(is_end(value) for value in room.replies)


def test_files_of_a_chat_go_with_it_whatever_model_is_in_use(tmp_path):
    folder = tmp_path / "prompts"
    source = ModelSource(None, folder, lambda: 10**9)
    with served(source) as room:
        room.put(LoadModel(None))
        room.until_a(ModelLoaded)
        room.put(Ask("1", "2", (Message("user", QUESTION + " Tell me all." * 20),), settings(1)))
        room.until_answered("2")
    assert any(folder.iterdir())
    with served(source) as room:
        room.put(CloseChat("1"))
        room.put(LoadModel(None))
        room.until_a(ModelLoaded)
    assert not any(folder.iterdir())


def test_after_a_restart_a_chat_reads_only_what_is_new(tmp_path):
    folder = tmp_path / "prompts"
    question, next_one = Message("user", QUESTION + " Tell me all." * 20), Message("user", "Why?")
    messages: tuple[Message, ...] = (question,)
    reused = []
    for bytes_kept in (10**9, 10**9, 0):
        with served(ModelSource(None, folder, lambda kept=bytes_kept: kept)) as room:
            room.put(LoadModel(None))
            room.until_a(ModelLoaded)
            room.put(Ask("1", "2", messages, settings(1, 8)))
            finished = room.until_answered("2")
            reused.append(finished.stats.reused_tokens)
            if len(messages) == 1:
                messages = (question, Message("assistant", finished.text), next_one)
    assert reused[0] == reused[2] == 0
    assert reused[1] > 60
    assert not any(folder.iterdir()), "where nothing is to be kept, nothing stays"


@pytest.mark.parametrize("said", ["", "That is"])
def test_a_context_that_is_ten_times_full_is_made_room_in_at_once(said):
    """With room for an answer; what was read for it is not read again at the next question."""
    texts = [f"{n}: {'Tell me all of it. ' * 12}" for n in range(30)]
    roles = ("user", "assistant")
    long = [Message(roles[n % 2], text) for n, text in enumerate([*texts, QUESTION])]
    messages = (*long, Message("assistant", said))
    with served(ModelSource()) as room:
        room.put(LoadModel(None, LoadOptions(context_length=256)))
        room.until_a(ModelLoaded)
        room.put(Ask("1", "too long", tuple(long), settings(1, 10)))
        failed = room.until_a(AnswerFailed)
        assert isinstance(failed, AnswerFailed) and failed.problem.code == "PromptTooLong"
        room.put(Ask("1", "fits", messages, settings(1, 10), drops_oldest=True))
        dropped = room.until_a(OldestDropped)
        assert isinstance(dropped, OldestDropped) and dropped.message_id == "fits"
        assert dropped.count % 2 == 0 and 24 < dropped.count <= 30
        finished = room.until_answered("fits")
        assert finished.reason == "max-tokens" and finished.text.startswith(said)
        assert finished.stats.prompt_tokens <= 128 + len(said)
        more = (Message("assistant", finished.text), Message("user", "And?"))
        room.put(Ask("1", "next", (*long[dropped.count :], *more), settings(1, 10)))
        assert room.until_answered("next").stats.reused_tokens > 20
