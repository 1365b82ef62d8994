"""Models that think first: thinking is kept apart, and leaves history and caches together."""

from dataclasses import replace

import pytest
from session_runs import PICKS, listen, session_of, thinking_folder

import mlx_engine
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.options import GenerationOptions

LENGTH = 20


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return mlx_engine.load(thinking_folder(tmp_path_factory.mktemp("model") / "m"))


@pytest.fixture(scope="module")
def sampling(engine):
    """Thinks for a while, then most likely closes the block and answers."""
    (close,) = engine.tokenize("</think>")
    return replace(PICKS, logit_bias={**PICKS.logit_bias, close: 6.0})


def ask(engine, sampling, depth=3, text="hi", history=(), **more):
    session = session_of(engine, sampling, depth, max_tokens=LENGTH, **more)
    session.load_messages(history)
    return session, listen(session, session.send(text))


def test_thinking_is_kept_apart(engine, sampling):
    session, said = ask(engine, sampling)
    assert said.finished.thinking
    assert said.text
    assert "think>" not in said.text.partition("</think>")[0] + said.finished.thinking
    assert (said.shown("thinking"), said.shown()) == (said.finished.thinking, said.text)
    assert session.messages[-1] == Message("assistant", said.text, said.finished.thinking)


@pytest.mark.parametrize("depth", [0, 3])
def test_turns_equal_fresh_ones_and_reuse_what_they_can(engine, sampling, depth):
    """The template drops old thinking, so what was read must be left behind, but no more."""
    session, said = ask(engine, sampling, depth, "hi " * 30)
    for text in ("and more?", "go on"):
        history, before = session.messages, said
        said = listen(session, session.send(text))
        _, fresh = ask(engine, sampling, depth, text, history)
        assert (said.tokens, said.text) == (fresh.tokens, fresh.text)
        assert said.finished.thinking == fresh.finished.thinking
        reused = said.finished.stats.reused_tokens
        assert before.finished.stats.prompt_tokens - 24 < reused
        assert reused < before.finished.stats.prompt_tokens


def test_regenerating_reads_next_to_nothing(engine, sampling):
    session, said = ask(engine, sampling, text="hi " * 30)
    again = listen(session, session.regenerate())
    assert again.tokens == said.tokens
    assert again.finished.stats.reused_tokens > said.finished.stats.prompt_tokens - 24


def test_thinking_switched_off(engine, sampling):
    _, said = ask(engine, sampling, thinking=False)
    assert said.finished.thinking == ""
    _, plain = ask(engine, sampling, depth=0, thinking=False)
    assert said.tokens == plain.tokens


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_cut_before_in_and_after_the_marker(engine, sampling, cut):
    _, uncut = ask(engine, sampling)
    session = session_of(engine, sampling, max_tokens=cut)
    listen(session, session.send("hi"))
    session.generation = GenerationOptions(max_tokens=LENGTH - cut)
    said = listen(session, session.continue_answer())
    assert (said.text, said.finished.thinking) == (uncut.text, uncut.finished.thinking)


def test_walking_away_from_a_thought(engine, sampling):
    session = session_of(engine, sampling, max_tokens=LENGTH)
    for event in session.send("hi"):
        if isinstance(event, RoundFinished):
            break
    history = session.messages
    said = listen(session, session.send("well?"))
    _, fresh = ask(engine, sampling, text="well?", history=history)
    assert said.tokens == fresh.tokens


def test_a_loaded_thought_can_be_continued(engine, sampling):
    session = session_of(engine, sampling, max_tokens=6)
    session.load_messages([Message("user", "hi"), Message("assistant", "", "the fox")])
    said = listen(session, session.continue_answer())
    assert said.finished.thinking.startswith("the fox")
    session.load_messages([Message("user", "hi"), Message("assistant", "Yes", "the fox")])
    said = listen(session, session.continue_answer())
    assert said.text.startswith("Yes")
    assert said.finished.thinking == "the fox"
