"""Drafts longer than eight tokens, of sources that make them cheaply: same words, fewer passes."""

import pytest
from session_runs import tiny_folder

import mlx_engine
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.record import PassCosts
from mlx_engine.values.options import MAX_DEPTH, DraftOptions, LoadOptions, SamplingOptions

FLAT = PassCosts((10.0,) * (DEEPEST + 1), 0.0)
FEW = PassCosts((10.0,) * (MAX_DEPTH + 1), 0.0)
LENGTH = 60
BIASED = SamplingOptions(temperature=0.8, seed=3, logit_bias={75: 60.0})
"""The text repeats itself."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("m") / "m")
    return mlx_engine.load(folder, options=LoadOptions(numerics="exact"))


@pytest.fixture
def steady(monkeypatch):
    """Rounds cost what was measured, whatever this machine does beside them."""
    monkeypatch.setattr(DepthPolicy, "learn_round", lambda *of: None)


def generated(engine, source, costs):
    engine._self_check._meter._costs, engine._self_check._meter._is_done = costs, True
    draft = DraftOptions(source=source)
    return engine.generate("a a a a a", LENGTH, BIASED, draft, ignore_eos=True)


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("source", ["prompt-lookup", "prompt-lookup+mtp"])
def test_they_keep_the_words_and_save_passes(engine, source):
    plain = generated(engine, "none", FLAT)
    eight, long = generated(engine, source, FEW), generated(engine, source, FLAT)
    assert plain.tokens == eight.tokens == long.tokens
    assert len(eight.stats.drafted_by_depth) <= MAX_DEPTH < len(long.stats.drafted_by_depth)
    assert long.stats.passes < eight.stats.passes < LENGTH / 3


@pytest.mark.usefixtures("steady")
def test_heads_draft_as_many_as_before(engine):
    assert len(generated(engine, "mtp", FLAT).stats.drafted_by_depth) <= MAX_DEPTH


def test_passes_of_long_drafts_are_measured_when_a_source_may_make_them(engine):
    fresh = mlx_engine.load(engine.description.path)
    assert len(fresh.pass_costs.verify_ms) == MAX_DEPTH + 1
    fresh.generate("a", 2, draft=DraftOptions(), ignore_eos=True)
    assert len(fresh.pass_costs.verify_ms) == MAX_DEPTH + 1
    fresh.generate("a", 2, draft=DraftOptions(source="prompt-lookup"), ignore_eos=True)
    found = fresh.pass_costs.verify_ms
    assert len(found) == DEEPEST + 1
    assert list(found) == sorted(found)
    fresh.close()
