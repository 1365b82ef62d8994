"""The built-in model, from load to answer: the same words at every depth, and drafts that stand."""

import itertools
import json
from pathlib import Path
from typing import NamedTuple

import pytest
from session_runs import listen, session_of

import mlx_engine
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

HELD_OUT = Path(__file__).parents[2] / "assets" / "pocket_model" / "held_out.json"
LENGTH = 10

TWISTS = {
    "nothing": {},
    "top-k": {"top_k": 20},
    "top-p": {"top_p": 0.9},
    "min-p": {"min_p": 0.05},
    "repetition": {"repetition_penalty": 1.15},
    "frequency": {"frequency_penalty": 0.4, "presence_penalty": 0.2},
    "bias": {"logit_bias": {10: 3.0, 11: -100.0}},
}


class Case(NamedTuple):
    """One conversation: `turns` questions of held_out.json from `question` on."""

    question: int
    depth: int
    temperature: float
    twist: str
    turns: int


def cases():
    """12 of them: every second depth at each temperature; filters and numbers of turns go round."""
    twists, turns = itertools.cycle(TWISTS), itertools.cycle((1, 1, 2))
    pairs = itertools.product((0.0, 0.7, 1.2), range(1, 9))
    grid = [(warmth, depth) for warmth, depth in pairs if (depth + (warmth == 0.7)) % 2]
    return [
        Case(11 * n, depth, temperature, next(twists), next(turns))
        for n, (temperature, depth) in enumerate(grid)
    ]


@pytest.fixture(scope="module")
def engine():
    return mlx_engine.load()


@pytest.fixture(scope="module")
def questions():
    return [row["question"] for row in json.loads(HELD_OUT.read_text(encoding="utf-8"))]


def test_it_is_exact_here_and_has_its_head(engine):
    assert engine.description.numerics == "exact"
    assert engine.description.mtp_heads == 1
    assert engine.description.mtp is None
    assert "rows-differ" not in {reason.code for reason in engine.description.declined}


def test_drafted_words_are_the_plain_words(engine, questions):
    accepted = drafted = 0
    for case in cases():
        asked = [questions[(case.question + turn) % len(questions)] for turn in range(case.turns)]
        sampling = SamplingOptions(
            temperature=case.temperature, seed=case.question, **TWISTS[case.twist]
        )
        pair = [session_of(engine, sampling, depth, LENGTH) for depth in (0, case.depth)]
        for question in asked:
            plain, fast = (listen(session, session.send(question)) for session in pair)
            assert fast.tokens == plain.tokens, case
            assert (fast.text, fast.reason) == (plain.text, plain.reason), case
            drafted += fast.finished.stats.drafted
            accepted += fast.finished.stats.accepted
    assert accepted > 0
    # random drafts would stand once in three thousand; a head that is out of step, hardly more
    assert accepted > 0.05 * drafted


def test_the_draft_rule_changes_no_word(engine, questions):
    for number in range(3):
        sampling = SamplingOptions(temperature=1.2, seed=number)
        shared, greedy = (
            engine.generate(questions[number], LENGTH, sampling, DraftOptions(depth=2, rule=rule))
            for rule in ("shared-noise", "greedy")
        )
        assert shared.tokens == greedy.tokens


def test_auto_depth_runs_and_explains_itself(engine, questions):
    session = engine.session(
        sampling=SamplingOptions(temperature=0.0),
        draft=DraftOptions(depth="auto"),
        generation=GenerationOptions(max_tokens=60),
    )
    for question in questions[:3]:
        said = listen(session, session.send(question))
        for round_ in said.rounds:
            assert (round_.why is None) == (round_.depth > 0)
            assert round_.why is None or (round_.why.code and round_.why.words.endswith("."))


def test_a_conversation_reads_only_what_is_new(engine, questions):
    session = session_of(engine, depth=2, max_tokens=LENGTH)
    first = listen(session, session.send(questions[0]))
    second = listen(session, session.send(questions[1]))
    stats = second.finished.stats
    assert stats.reused_tokens >= first.finished.stats.prompt_tokens - 24
    assert session.messages[-1].text == second.text


def test_the_head_knows_the_model_it_came_with(engine, questions):
    """What the head says of token t+2 agrees with the trunk far more often than by chance."""
    made = engine.generate(questions[3], 60, SamplingOptions(temperature=0), ignore_eos=True)
    tokens = [*engine.tokenize(questions[3]), *made.tokens]
    trunk = engine.logits(tokens).argmax(-1)[1:]
    head = engine.draft_logits(tokens)[0].argmax(-1)
    assert (trunk == head).mean() > 0.2
