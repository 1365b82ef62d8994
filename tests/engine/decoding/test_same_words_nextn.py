"""Text with drafting is text without for trunks of mlx-lm's classes with NextN heads."""

import itertools

import pytest
from dialled_draft import DialledDraft
from plain_run import run
from session_runs import FEW_WORDS
from tiny_nextn import TYPES, publish

import mlx_engine
from mlx_engine.drafting.contract import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.options import DraftOptions, SamplingOptions

LENGTH = 20
PROMPT = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64]
WAYS = {
    "greedy": SamplingOptions(temperature=0, logit_bias=FEW_WORDS),
    "sampled": SamplingOptions(temperature=0.9, top_k=40, seed=7, logit_bias=FEW_WORDS),
}


@pytest.fixture(scope="module", params=TYPES)
def engine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("same") / "m"
    engine = mlx_engine.load(publish(request.param, folder, own=request.param != TYPES[2]).folder)
    yield engine
    engine.close()


@pytest.mark.parametrize("way", WAYS)
def test_text_with_the_head_is_text_without(engine, way):
    """The choice is among few words, so that a random head is right now and then."""

    def said(depth):
        draft = DraftOptions(source="mtp" if depth else "none", depth=depth)
        return engine.generate(
            PROMPT, max_tokens=LENGTH, sampling=WAYS[way], draft=draft, ignore_eos=True
        )

    plain, accepted = said(0), 0
    assert len(set(plain.tokens)) > 3
    for depth in (1, 2, 3, 4):
        drafted = said(depth)
        assert drafted.tokens == plain.tokens
        assert drafted.stats.drafted > 0
        accepted += drafted.stats.accepted
    assert accepted > 0 or way == "greedy"


@pytest.mark.parametrize("way", WAYS)
def test_so_it_is_where_rounds_are_begun_before_the_outcome_of_the_last_is_known(engine, way):
    model, options = engine.parts.model, WAYS[way]
    found = []
    for looks_ahead in (False, True):
        source = MtpDraft((model, *model.later_heads), DraftOptions())
        ran = run(
            model, PROMPT, source, 3, options=options, max_tokens=LENGTH, looks_ahead=looks_ahead
        )
        found.append((ran.tokens, ran.stats.accepted_by_depth))
    assert found[0] == found[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_drafts_cut_at_every_place_change_nothing(engine, depth, way):
    model, options = engine.parts.model, WAYS[way]
    truth = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH).tokens
    right = itertools.cycle(range(depth + 1))
    source = DialledDraft([*PROMPT, *truth], right, model.vocabulary)
    ran = run(model, PROMPT, source, depth, options=options, max_tokens=LENGTH)
    assert ran.tokens == truth
    assert ran.stats.accepted > 0
