"""Calls that cannot be: two answers at once, another thread, a closed engine."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from session_runs import (
    goes_on_as_a_fresh_one,
    listen,
    session_of,
)

import mlx_engine
from mlx_engine.values.conversation import (
    GenerationFinished,
    Message,
)
from mlx_engine.values.errors import EngineMisuse


def test_one_answer_at_a_time(engine):
    session = session_of(engine)
    running = session.send("hi")
    next(running)
    begun = session.messages
    others = [session.send("two"), session.regenerate(), session.edit(0, "x")]
    for other in others:
        with pytest.raises(EngineMisuse, match="still running"):
            next(other)
    with pytest.raises(EngineMisuse, match="still running"):
        session.load_messages([])
    assert session.messages == begun
    said = listen(session, running)
    assert said.tokens == listen(session, session.regenerate()).tokens


def test_two_sessions_at_once_do_not_mix(engine):
    pair = [session_of(engine), session_of(engine, depth=0)]
    running = [session.send(text) for session, text in zip(pair, ("hi", "dog"), strict=True)]
    for _ in itertools.zip_longest(*running):
        pass
    for session, text in zip(pair, ("hi", "dog"), strict=True):
        alone = session_of(engine)
        assert listen(alone, alone.send(text)).tokens == session.tokens


def test_finished_means_finished(engine):
    """Whoever hears the last event sees the messages, and may ask again at once."""
    session = session_of(engine)
    for event in session.send("hi"):
        if isinstance(event, GenerationFinished):
            assert session.messages[-1] == Message("assistant", event.text)
            inner = listen(session, session.send("and again"))
            after = session.messages
    assert session.messages == after
    assert after[-1].text == inner.text


def elsewhere(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_another_thread_is_refused(engine):
    session = session_of(engine)
    listen(session, session.send("hi"))
    before = session.messages
    calls = [
        lambda: next(session.send("two")),
        lambda: next(session.regenerate()),
        lambda: next(session.continue_answer()),
        lambda: next(session.edit(0, "x")),
        lambda: session.load_messages([]),
        engine.session,
        lambda: engine.generate([1]),
        lambda: engine.logits([1]),
        lambda: engine.draft_logits([1]),
        lambda: engine.tokenize("a"),
        lambda: engine.detokenize([1]),
        engine.close,
    ]
    for call in calls:
        with pytest.raises(EngineMisuse, match="thread"):
            elsewhere(call)
    assert session.messages == before
    assert listen(session, session.send("two")).tokens


def test_a_running_answer_cannot_move_to_another_thread(engine):
    session = session_of(engine)
    running = session.send("hi")
    next(running)
    with pytest.raises(EngineMisuse, match="thread"):
        elsewhere(lambda: next(running))
    goes_on_as_a_fresh_one(engine, session)


def test_a_closed_engine_is_refused(folder):
    engine = mlx_engine.load(folder)
    session = session_of(engine)
    listen(session, session.send("hi"))
    other = session_of(engine)
    running = other.send("hi")
    next(running)
    engine.close()
    engine.close()
    calls = [
        lambda: next(running),
        lambda: next(session.send("two")),
        lambda: next(session.regenerate()),
        lambda: next(session.continue_answer()),
        lambda: next(session.edit(0, "x")),
        lambda: session.load_messages([]),
        lambda: setattr(session, "template_arguments", {"enable_thinking": False}),
        engine.session,
        lambda: engine.generate("a"),
        lambda: engine.logits([1]),
        lambda: engine.draft_logits([1]),
        lambda: engine.tokenize("a"),
        lambda: engine.detokenize([1]),
        lambda: engine.pass_costs,
    ]
    for call in calls:
        with pytest.raises(EngineMisuse, match="closed"):
            call()
    session.stop()
    assert len(session.messages) == 2
    assert session.stats.generated_tokens
    assert session.tokens
    assert session.draft.depth == 3
    with pytest.raises(EngineMisuse, match="closed"):
        _ = session.why_not_drafting
    assert engine.description.layers == 2
