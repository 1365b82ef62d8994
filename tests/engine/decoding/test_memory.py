"""Live memory follows the caches and nothing else: no graph, round or abandoned answer stays."""

import gc
import itertools

import mlx.core as mx
import pytest
from plain_run import CyclingLength, run
from session_runs import session_of, tiny_folder
from tiny_adapter import TinySizes, tiny_adapter

import mlx_engine
from mlx_engine.drafting.dialled_draft import DialledDraft
from mlx_engine.drafting.mtp_draft import MtpDraft
from mlx_engine.values.events import RoundFinished
from mlx_engine.values.options import GenerationOptions, SamplingOptions

PROMPT = [5, 1, 30, 17, 2]
SLACK = 64 * 1024
"""Bytes a round may hold: hidden states and inputs of its few rows."""


def live():
    gc.collect()
    return mx.get_active_memory()


@pytest.mark.parametrize("kind", ["head", "dialled"])
@pytest.mark.parametrize("with_penalties", [False, True])
def test_300_rounds_hold_no_more_than_the_caches(kind, with_penalties):
    adapter = tiny_adapter(3, TinySizes(layers=2, vocabulary=37))
    penalties = {"frequency_penalty": 0.2, "repetition_penalty": 1.1} if with_penalties else {}
    options = SamplingOptions(temperature=1.0, **penalties)
    before = live()
    source = (
        MtpDraft(adapter, "shared-noise", 0.0)
        if kind == "head"
        else DialledDraft([], itertools.repeat(0), 37)
    )
    ran = run(adapter, PROMPT, source, CyclingLength([3, 0, 8, 1]), options=options, max_tokens=400)
    assert ran.stats.passes > 250
    grown = live() - before
    assert grown <= ran.track.nbytes + SLACK
    assert ran.track.nbytes <= grown + SLACK, "what is counted is what is held"
    del ran, source
    assert live() - before <= SLACK


def test_sessions_that_are_left_give_their_memory_back(tmp_path):
    engine = mlx_engine.load(tiny_folder(tmp_path / "m"))
    for event in session_of(engine).send("warm up"):
        del event
    before = live()
    held = []
    for _ in range(4):
        session = session_of(engine, max_tokens=40)
        for number, event in enumerate(session.send("The quick brown fox " * 5)):
            if isinstance(event, RoundFinished) and number > 12:
                break
        del session, event
        held.append(live() - before)
    assert max(held) <= SLACK


def test_turns_hold_a_bounded_number_of_states(tmp_path):
    """After many turns and regenerations live bytes are those of the newest conversation."""
    engine = mlx_engine.load(tiny_folder(tmp_path / "m"))
    session = session_of(engine, max_tokens=4)
    sizes = []
    for turn in range(10):
        for _ in session.send("go"):
            pass
        for _ in range(3):
            for _ in session.regenerate():
                pass
        if turn >= 6:
            sizes.append(live())
    session.generation = GenerationOptions(max_tokens=1)
    attention = 2 * 2 * 32 * 4 * 2 * 256  # two layers' keys and values, one growth step
    assert sizes[-1] - sizes[0] <= attention + SLACK


def test_a_closed_engine_lets_its_model_go(tmp_path):
    folder = tiny_folder(tmp_path / "m")
    before = live()
    engine = mlx_engine.load(folder)
    weights = engine.description.nbytes
    assert live() - before >= weights
    session = session_of(engine)
    for _ in session.send("hi"):
        pass
    engine.close()
    assert live() - before <= weights // 10
