"""Whatever cuts an answer short, what was said stays, and the session goes on like a fresh one."""

import gc
import itertools
import threading

import pytest
from session_runs import (
    failing_engine,
    goes_on_as_a_fresh_one,
    listen,
    session_of,
    thinking_folder,
)

import mlx_engine
from mlx_engine.values.conversation import (
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import GenerationOptions

LONG = "The lazy dog sleeps. " * 22


@pytest.mark.parametrize("from_thread", [True, False])
@pytest.mark.parametrize("depth", [0, 3])
def test_stop_between_rounds(engine, from_thread, depth):
    session = session_of(engine, depth=depth, max_tokens=200)
    rounds = 0

    def stop_at_third(event):
        nonlocal rounds
        rounds += isinstance(event, RoundFinished)
        if isinstance(event, TextPiece) and rounds == 2:
            stop(session, from_thread)

    said = listen(session, session.send("hi"), stop_at_third)
    assert said.reason == "stopped"
    assert len(said.rounds) == 3
    assert session.messages[-1] == Message("assistant", said.text)
    session.generation = GenerationOptions(max_tokens=12)
    goes_on_as_a_fresh_one(engine, session)


def stop(session, from_thread):
    if not from_thread:
        session.stop()
        return
    thread = threading.Thread(target=session.stop)
    thread.start()
    thread.join()


def test_stop_from_a_thread_at_any_moment(engine):
    session = session_of(engine, max_tokens=None)
    session.generation = GenerationOptions(ignore_eos=True)
    thread = threading.Timer(0.15, session.stop)
    thread.start()
    said = listen(session, session.send("hi"))
    thread.join()
    assert said.reason == "stopped"
    session.generation = GenerationOptions(max_tokens=12)
    goes_on_as_a_fresh_one(engine, session)


@pytest.fixture(scope="module")
def of_long(engine):
    """What is said to LONG."""
    session = session_of(engine)
    return listen(session, session.send(LONG)).tokens


@pytest.mark.parametrize(("after", "from_thread"), [(0, True), (1, False), (2, True), (3, False)])
def test_stop_in_the_prompt_is_obeyed_within_a_chunk(engine, of_long, from_thread, after):
    session = session_of(engine)
    seen = itertools.count()

    def stop_at(event):
        if isinstance(event, PromptProgress) and next(seen) == after:
            stop(session, from_thread)

    said = listen(session, session.send(LONG), stop_at)
    assert (said.reason, said.text, said.rounds) == ("stopped", "", ())
    assert len(said.progress) == after + 1
    assert session.messages == (Message("user", LONG),)
    again = listen(session, session.continue_answer())
    assert again.finished.stats.reused_tokens == said.progress[-1].done
    assert again.tokens == of_long


def test_stop_while_idle_is_forgotten(engine):
    session = session_of(engine)
    session.stop()
    assert listen(session, session.send("hi")).reason != "stopped"
    session.stop()
    assert listen(session, session.regenerate()).reason != "stopped"


@pytest.mark.parametrize("kind", [PromptProgress, TextPiece, RoundFinished])
@pytest.mark.parametrize("depth", [0, 4])
def test_walking_away_keeps_what_was_said(engine, kind, depth):
    session = session_of(engine, depth=depth, max_tokens=30)
    shown, seen = "", 0
    for event in session.send("hi"):
        shown += event.text if isinstance(event, TextPiece) else ""
        seen += isinstance(event, kind)
        if seen == 3 or (kind is PromptProgress and seen):
            break
    gc.collect()
    said = session.messages[1:]
    # a round's text is final before its first piece is handed out
    assert "".join(message.text for message in said).startswith(shown)
    session.generation = GenerationOptions(max_tokens=12)
    goes_on_as_a_fresh_one(engine, session)


def test_walking_away_then_continuing_gives_the_uncut_answer(engine):
    whole = session_of(engine, max_tokens=20)
    uncut = listen(whole, whole.send("hi"))
    session = session_of(engine, max_tokens=20)
    for event in session.send("hi"):
        if isinstance(event, RoundFinished) and session.stats.passes == 3:
            break
    session.generation = GenerationOptions(max_tokens=20 - len(session.tokens))
    assert listen(session, session.continue_answer()).text == uncut.text


@pytest.fixture(scope="module")
def faulty(folder):
    """An engine that has answered, and the model in it."""
    engine, model = failing_engine(folder)
    session = session_of(engine)
    listen(session, session.send("before"))
    return engine, model


@pytest.fixture
def failing(faulty):
    """The same for a test, with nothing read and no faults."""
    engine, model = faulty
    model.faults = iter(())
    engine.forget_conversations()
    return engine, model


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", [0, 2, 5])
def test_numbers_that_are_none(failing, spoiled, where):
    """In the prompt's chunks (0) and in the rounds; the session goes on, re-reading everything."""
    engine, model = failing
    session = session_of(engine)
    model.faults = itertools.chain([None] * where, itertools.repeat(spoiled))
    with pytest.raises(NumericsError, match="NaN or infinity at position"):
        listen(session, session.send("The quick brown fox"))
    assert session.messages[0] == Message("user", "The quick brown fox")
    assert len(session.messages) == 1 + bool(session.tokens)
    model.faults = iter(())
    said = goes_on_as_a_fresh_one(engine, session)
    assert said.finished.stats.reused_tokens == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("from MLX")])
@pytest.mark.parametrize("where", [0, 1, 3, 6])
def test_errors_out_of_nowhere(failing, error, where):
    """Raised inside a pass, when caches hold a block nobody has kept."""
    engine, model = failing
    session = session_of(engine)
    listen(session, session.send("before"))
    model.faults = iter([*[None] * where, error])
    with pytest.raises(type(error)):
        listen(session, session.send("The quick brown fox"))
    model.faults = iter(())
    goes_on_as_a_fresh_one(engine, session)
    listen(session, session.regenerate())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("from MLX")])
def test_an_answer_broken_off_by_an_error_can_be_continued(failing, error):
    """From caches read anew: those that an error has left behind may be of any state."""
    engine, model = failing
    whole = session_of(engine, max_tokens=20)
    uncut = listen(whole, whole.send("hi"))
    session = session_of(engine, max_tokens=20)
    model.faults = iter([*[None] * 5, error])
    with pytest.raises(type(error)):
        listen(session, session.send("hi"))
    said = len(session.tokens)
    assert 0 < said < 20
    session.generation = GenerationOptions(max_tokens=20 - said)
    again = listen(session, session.continue_answer())
    assert (again.text, again.tokens) == (uncut.text, uncut.tokens)
    assert again.finished.stats.reused_tokens == 0


def test_stopping_while_thinking_and_going_on(tmp_path):
    engine = mlx_engine.load(thinking_folder(tmp_path / "m"))
    whole = session_of(engine, max_tokens=14)
    uncut = listen(whole, whole.send("hi"))
    assert uncut.finished.thinking
    session = session_of(engine, max_tokens=14)

    def stop_soon(event):
        if isinstance(event, RoundFinished):
            session.stop()

    first = listen(session, session.send("hi"), stop_soon)
    assert (first.reason, len(first.rounds)) == ("stopped", 1)
    session.generation = GenerationOptions(max_tokens=14 - len(session.tokens))
    second = listen(session, session.continue_answer())
    assert (second.text, second.finished.thinking) == (uncut.text, uncut.finished.thinking)


def test_what_is_measured_behind_an_answer_gives_way(folder, monkeypatch):
    monkeypatch.setattr("mlx_engine.self_check.between_answers.LONGEST_S", 3600.0)
    waits, asked = [False, False, True], []

    def is_awaited():
        asked.append(len(asked))
        return waits[len(asked) - 1]

    engine = mlx_engine.load(folder)
    engine.give_way_to(is_awaited)
    session = session_of(engine, max_tokens=4)
    assert listen(session, session.send("hi")).reason == "max-tokens"
    assert asked == [0, 1, 2], "the third is not run any more"
    engine.close()
