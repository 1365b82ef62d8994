"""Same words through whole conversations at every depth: turns, edits, stops, regenerating."""

from dataclasses import replace

import pytest
from session_runs import PICKS, listen, session_of, thinking_folder, tiny_folder

import mlx_engine
from mlx_engine.values.options import GenerationOptions

LENGTH = 12
WAYS = {
    "greedy": replace(PICKS, temperature=0.0),
    "warm": PICKS,
    "free": replace(PICKS, temperature=1.0, logit_bias={}),
    "everything": replace(
        PICKS,
        temperature=1.1,
        top_k=12,
        top_p=0.95,
        min_p=0.02,
        repetition_penalty=1.2,
        presence_penalty=0.4,
        frequency_penalty=0.3,
    ),
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {
        "chatml": mlx_engine.load(tiny_folder(base / "chatml")),
        "thinking": mlx_engine.load(thinking_folder(base / "thinking")),
    }


def conversation(engine, sampling, depth):
    """All that a user may do, one after the other; each answer's tokens, text and reason."""
    session = session_of(engine, sampling, depth, max_tokens=LENGTH)
    answers = [listen(session, session.send("The quick fox"))]
    text = max(answers[0].text, answers[0].finished.thinking, key=len)
    answers.append(listen(session, session.send("Füchse 😀?")))
    answers.append(listen(session, session.regenerate()))
    stops = tuple(piece for piece in (text[4:7], text[9:11]) if piece)
    session.generation = GenerationOptions(max_tokens=LENGTH, stop=stops)
    answers.append(listen(session, session.edit(0, "The quick fox")))
    session.generation = GenerationOptions(max_tokens=LENGTH // 2)
    answers.append(listen(session, session.send("and?")))
    answers.append(listen(session, session.continue_answer()))
    session.system = "Be brief."
    answers.append(listen(session, session.send("Once more")))
    accepted = sum(said.finished.stats.accepted for said in answers)
    return [(said.tokens, said.text, said.reason) for said in answers], accepted


@pytest.fixture(scope="module")
def plain(engines):
    return {
        (kind, way): conversation(engine, sampling, 0)[0]
        for kind, engine in engines.items()
        for way, sampling in WAYS.items()
    }


@pytest.mark.parametrize("depth", range(1, 9))
def test_a_whole_conversation_at_every_depth(engines, plain, depth):
    """Each of the eight conversations occurs at one depth."""
    kind, way = [*plain][3 * depth % len(plain)]
    said, accepted = conversation(engines[kind], WAYS[way], depth)
    assert said == plain[kind, way], (kind, way)
    assert accepted > 1 or way == "greedy"


def test_the_comparison_means_something(plain):
    """Conversations differ by their settings, stop strings do stop, and answers are not empty."""
    assert len({str(said) for said in plain.values()}) == len(plain)
    reasons = {reason for said in plain.values() for _, _, reason in said}
    assert {"max-tokens", "stop-string"} <= reasons
    assert all(len(tokens) > 2 for said in plain.values() for tokens, _, _ in said[:3])
