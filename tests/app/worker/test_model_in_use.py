"""Loads: progress, cancel, failure, and the model in use meanwhile."""

from dataclasses import replace

import pytest
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from served import Served, ask, served

from app.worker.replies import (
    AnswerEvents,
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    Reply,
    WorkerFailed,
)
from app.worker.requests import CancelLoad, CloseChat, LoadModel, StopAnswer
from mlx_engine.values.conversation import GenerationFinished
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import LoadOptions

GB = 10**9
SLOW = 0.01


def two_models(broken: dict[str, Exception] | None = None, pause_s: float = 0) -> ScriptedModels:
    engines = {name: WorkerEngine([], described(name, 20 * GB)) for name in ("old", "new")}
    return ScriptedModels(dict(engines), broken or {}, pause_s=pause_s)


def outcome(room: Served, path: str) -> Reply:
    ends = (ModelLoaded, LoadFailed, LoadCancelled)
    return room.until(lambda value: isinstance(value, ends) and value.path == path)


def unloaded(room: Served) -> bool:
    return any(isinstance(value, ModelUnloaded) for value in room.replies)


def is_answered(room: Served, model: str, source: ScriptedModels) -> bool:
    """Whether the next answer comes from this model."""
    before = len(source.engines[model].sessions)
    room.put(ask("Why?", f"asks {model}", f"from {model}"))
    room.until_answered(f"from {model}")
    return len(source.engines[model].sessions) == before + 1


def test_progress_grows_to_the_size_of_the_model():
    with served(two_models()) as room:
        room.put(LoadModel("new"))
        loaded = outcome(room, "new")
    assert isinstance(loaded, ModelLoaded)
    assert loaded.description.name == "new"
    steps = [value for value in room.replies if isinstance(value, LoadProgress)]
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[0].total == 0
    assert (steps[-1].done, steps[-1].total) == (20 * GB, 20 * GB)


def test_an_engine_gives_way_to_whatever_waits():
    source = two_models()
    with served(source) as room:
        room.put(LoadModel("new"))
        outcome(room, "new")
        is_awaited = source.engines["new"].is_awaited
        assert is_awaited is not None and not is_awaited()
    assert is_awaited()


def test_another_model_takes_over_once_it_is_loaded():
    source = two_models()
    with served(source) as room:
        room.put(LoadModel("old"), LoadModel("new"))
        outcome(room, "new")
        assert source.engines["old"].closed
        assert is_answered(room, "new", source)
        assert not unloaded(room)


def test_a_load_that_fails_leaves_the_model_in_use():
    source = two_models({"new": BadModelFile("new: damaged. Get it again.")})
    with served(source) as room:
        room.put(LoadModel("old"), LoadModel("new"), LoadModel("nowhere"))
        failed = outcome(room, "new")
        assert isinstance(failed, LoadFailed)
        assert (failed.problem.kind, failed.problem.words) == (
            "known",
            "new: damaged. Get it again.",
        )
        missing = outcome(room, "nowhere")
        assert isinstance(missing, LoadFailed)
        assert missing.problem.code == "ModelNotFound"
        assert is_answered(room, "old", source)


@pytest.mark.parametrize("memory_bytes", [64 * GB, 30 * GB])
def test_a_model_that_cannot_be_closed_holds_up_no_other(monkeypatch, memory_bytes):
    """Its mistake is told, and the window does not wait for the load for ever."""
    source = two_models()

    def close() -> None:
        raise OSError("the file is gone")

    with served(source, memory_bytes=memory_bytes) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        with monkeypatch.context() as patch:
            patch.setattr(type(source.engines["old"]), "close", lambda engine: close())
            room.put(LoadModel("new"))
            assert isinstance(outcome(room, "new"), ModelLoaded)
        told = [value for value in room.replies if isinstance(value, WorkerFailed)]
        assert "the file is gone" in told[0].problem.details
        assert is_answered(room, "new", source)


def test_a_model_that_cannot_be_taken_into_use_is_a_failed_load(monkeypatch):
    """Else the window waits for it for ever."""
    source = two_models()

    def give_way(engine: object, is_awaited: object) -> None:
        raise OSError("the device is gone")

    with served(source) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        monkeypatch.setattr(type(source.engines["old"]), "give_way_to", give_way)
        room.put(LoadModel("new"))
        failed = outcome(room, "new")
        assert isinstance(failed, LoadFailed) and "the device is gone" in failed.problem.details
        assert is_answered(room, "old", source)


def test_a_bug_in_a_load_is_reported():
    source = two_models({"new": ZeroDivisionError("oops")})
    with served(source) as room:
        room.put(LoadModel("old"), LoadModel("new"))
        failed = outcome(room, "new")
        assert isinstance(failed, LoadFailed)
        assert failed.problem.kind == "bug"
        assert "ZeroDivisionError: oops" in failed.problem.details
        assert is_answered(room, "old", source)


def test_models_that_do_not_fit_together_are_swapped_with_a_word():
    source = two_models()
    source.before_load = lambda: closed_by_then.append(source.engines["old"].closed)
    closed_by_then: list[bool] = []
    with served(source, memory_bytes=30 * GB) as room:
        room.put(LoadModel("old"), LoadModel("new"))
        said = room.until_a(ModelUnloaded)
        assert isinstance(said, ModelUnloaded)
        assert "old was closed first" in said.words
        outcome(room, "new")
        assert closed_by_then == [False, True]
        assert is_answered(room, "new", source)


def test_a_draft_model_counts_when_room_is_made():
    source = two_models()
    source.engines["small"] = WorkerEngine([], described("small", 5 * GB))
    with_small = LoadOptions(draft_model="small")
    with served(source, memory_bytes=42 * GB) as room:
        room.put(LoadModel("old"), LoadModel("new", options=with_small))
        outcome(room, "new")
        assert unloaded(room)
        room.replies.clear()
        room.put(LoadModel("old"))
        outcome(room, "old")
        assert unloaded(room), "the one of the model in use counts too"
        room.replies.clear()
        room.put(LoadModel("new"))
        outcome(room, "new")
        assert not unloaded(room)


def test_caches_of_chats_go_before_the_model_does():
    source = two_models()
    old = source.engines["old"]
    old.answers = [Answer("Yes.", prompt_tokens=3_000_000)]
    with served(source, memory_bytes=42 * GB) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        assert is_answered(room, "old", source)
        assert old.conversations_nbytes > 0
        source.before_load = lambda: gone.append(old.conversations_nbytes == 0)
        gone: list[bool] = []
        room.put(LoadModel("new"))
        outcome(room, "new")
        assert gone == [True] and not unloaded(room)


def test_what_cannot_be_loaded_at_all_closes_nothing():
    source = two_models()
    with served(source, memory_bytes=30 * GB) as room:
        room.put(LoadModel("old"), LoadModel("nowhere"))
        outcome(room, "nowhere")
        assert not unloaded(room)
        assert is_answered(room, "old", source)


def test_a_model_of_the_hub_is_fetched_in_sight_and_can_be_stopped():
    source = two_models()
    source.on_hub, source.pause_s = frozenset({"new"}), 0.05
    with served(source) as room:
        room.put(LoadModel("new"))
        assert isinstance(outcome(room, "new"), ModelLoaded)
        steps = [value for value in room.replies if isinstance(value, LoadProgress)]
        fetched = [step.done for step in steps if step.fetches]
        assert len(fetched) > 1 and fetched == sorted(fetched)
        room.replies.clear()
        room.put(LoadModel("new"))
        room.until(lambda value: isinstance(value, LoadProgress) and value.fetches)
        room.put(CancelLoad())
        assert isinstance(outcome(room, "new"), LoadCancelled)
    assert source.loaded == ["new"]


def test_a_load_is_cancelled_in_the_middle():
    source = two_models(pause_s=SLOW)
    with served(source) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        source.slices = 1000
        room.put(LoadModel("new"))
        room.until(lambda value: isinstance(value, LoadProgress) and value.done > 0)
        room.put(CancelLoad())
        assert outcome(room, "new") == LoadCancelled("new")
        assert source.loaded == ["old"]
        assert is_answered(room, "old", source)


def test_a_cancel_reaches_a_load_that_waits_for_an_answer():
    source = two_models()
    source.engines["old"].answers = [Answer("word " * 500, pause_s=0.002)]
    with served(source, memory_bytes=30 * GB) as room:
        room.put(LoadModel("old"), ask("Why?"))
        room.until_a(AnswerEvents)
        room.put(LoadModel("new"), CancelLoad())
        assert outcome(room, "new") == LoadCancelled("new")
        assert not any(isinstance(event, GenerationFinished) for event in room.events("answer"))
        room.put(StopAnswer("chat"))
        room.until_answered("answer")
        assert not unloaded(room)
        assert is_answered(room, "old", source)


def test_a_cancel_before_the_first_byte_closes_nothing():
    source = two_models(pause_s=SLOW)
    with served(source, memory_bytes=30 * GB) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        source.before_inspect = lambda: room.put(CancelLoad())
        room.put(LoadModel("new"))
        assert outcome(room, "new") == LoadCancelled("new")
        assert not unloaded(room)


def test_a_cancel_that_comes_too_late_harms_nothing():
    source = two_models()
    with served(source) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        room.put(CancelLoad(), LoadModel("new"))
        assert isinstance(outcome(room, "new"), ModelLoaded)


def test_a_chat_closed_during_a_load_is_read_anew():
    source = two_models({"new": BadModelFile("new: damaged.")}, pause_s=SLOW)
    with served(source) as room:
        room.put(LoadModel("old"), ask("Why?"))
        room.until_answered("answer")
        room.put(LoadModel("new"), CloseChat("chat"))
        outcome(room, "new")
        room.put(ask("Why?", message_id="again"))
        room.until_answered("again")
    assert len(source.engines["old"].sessions) == 2


def test_progress_is_told_thirty_times_a_second_at_most():
    source = two_models(pause_s=0.001)
    source.slices = 300
    with served(source) as room:
        room.put(LoadModel("new"))
        outcome(room, "new")
    at = [
        time
        for time, reply in zip(room.times, room.replies, strict=False)
        if isinstance(reply, LoadProgress)
    ]
    assert 3 < len(at) <= 30 * (at[-1] - at[0]) + 4


def test_what_does_not_fit_is_refused_while_the_model_in_use_stays():
    source = two_models()
    source.engines["huge"] = WorkerEngine([], described("huge", 60 * GB))
    with served(source, memory_bytes=50 * GB) as room:
        room.put(LoadModel("old"))
        outcome(room, "old")
        room.put(LoadModel("huge"))
        failed = outcome(room, "huge")
        assert isinstance(failed, LoadFailed)
        assert failed.problem.code == "DoesNotFit"
        assert "60 GB model" in failed.problem.words
        assert not unloaded(room)
        assert is_answered(room, "old", source)
        room.put(LoadModel("huge", LoadOptions(anyway=True)))
        assert isinstance(outcome(room, "huge"), ModelLoaded)
    source.engines["huge"] = WorkerEngine([], described("huge", 1_200 * GB))
    with served(source, memory_bytes=50 * GB) as room:
        room.put(LoadModel("huge", LoadOptions(anyway=True)))
        failed = outcome(room, "huge")
        assert isinstance(failed, LoadFailed)
        assert "far too large for this computer" in failed.problem.words


def test_a_model_is_planned_as_this_machine_holds_it():
    """The card and the refusal say one sum: that of a machine with or without a GPU."""
    huge = described("huge", 40 * GB)
    elsewhere = replace(huge, nbytes=60 * GB)
    source = two_models()
    source.engines["huge"] = WorkerEngine([], replace(huge, without_metal=elsewhere))
    with served(source, memory_bytes=50 * GB) as room:
        room.put(LoadModel("huge"))
        failed = outcome(room, "huge")
        assert isinstance(failed, LoadFailed)
        assert "60 GB model" in failed.problem.words
    with served(source, memory_bytes=50 * GB, gpu_bytes=50 * GB) as room:
        room.put(LoadModel("huge"))
        assert isinstance(outcome(room, "huge"), ModelLoaded)
