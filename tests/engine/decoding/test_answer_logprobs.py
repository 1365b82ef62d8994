"""Log-probabilities of an answer's tokens, taken along the verify rows."""

import numpy as np
import pytest
from session_runs import thinking_folder

import mlx_engine
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

HOT = {"temperature": 2.0, "seed": 3, "repetition_penalty": 1.2, "logit_bias": {7: 2.0}}
QUESTION = "What does os.path.join do?"


def answered(engine, draft, sampling=HOT, top=4, **limits):
    session = engine.session(
        sampling=SamplingOptions(**sampling),
        draft=draft,
        generation=GenerationOptions(40, logprobs=top, **limits),
    )
    return list(session.send(QUESTION))


@pytest.mark.parametrize("draft", [DraftOptions(source="none"), DraftOptions(depth=3)])
@pytest.mark.parametrize("sampling", [HOT, {"temperature": 0}])
def test_they_are_those_of_the_models_logits(draft, sampling):
    """The model's own, whatever penalties, biases and temperature pick from."""
    with mlx_engine.load() as engine:
        events = answered(engine, draft, sampling)
        last, session = events[-1], engine.session()
        session.load_messages([Message("user", QUESTION)])
        prompt = session.prompt_tokens()
        expected = engine.logprobs([*prompt, *last.tokens], 4)
    found = [score for e in events if isinstance(e, RoundFinished) for score in e.logprobs]
    assert found == list(last.logprobs)
    assert [score.token for score in found] == list(last.tokens)
    rows = slice(len(prompt) - 1, None)
    np.testing.assert_allclose([s.logprob for s in found], expected.chosen[rows], atol=2e-3)
    tops = np.array([[other.logprob for other in score.likeliest] for score in found])
    np.testing.assert_allclose(tops, expected.top[rows], atol=2e-3)
    assert b"".join(score.text for score in found).decode() == last.text


def test_tokens_of_a_thought_are_told_apart_and_hidden_ones_left_out(tmp_path):
    with mlx_engine.load(thinking_folder(tmp_path / "m")) as engine:
        last = answered(engine, DraftOptions(depth=2), {"temperature": 3.0, "seed": 8})[-1]
        channels = [score.channel for score in last.logprobs]
        assert bool(last.thinking) == ("thinking" in channels)
        stop = last.text[:3] or last.thinking[:3]
        cut = answered(engine, DraftOptions(depth=2), {"temperature": 3.0, "seed": 8}, stop=stop)
        assert [s.token for s in cut[-1].logprobs] == list(cut[-1].tokens)


def test_nobody_asked_and_too_many():
    with mlx_engine.load() as engine:
        assert answered(engine, DraftOptions(), top=None)[-1].logprobs == ()
        assert {s.likeliest for s in answered(engine, DraftOptions(), top=0)[-1].logprobs} == {()}
    with pytest.raises(BadOption, match="logprobs=21"):
        GenerationOptions(logprobs=21)
