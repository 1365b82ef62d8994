"""Text with drafting is text without, for experts and latents, from folders and from GGUF."""

import itertools
from dataclasses import replace

import pytest
import tiny_nextn
from dialled_draft import DialledDraft
from plain_run import run
from session_runs import FEW_WORDS
from tiny_gguf import write_tiny_gguf_experts
from tiny_qwen_experts import KINDS, write_tiny_experts

import mlx_engine
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.options import DraftOptions, SamplingOptions

LENGTH = 20
PROMPT = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64]
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "sampled": SamplingOptions(temperature=0.9, top_k=40, seed=7),
}
DEPTHS = {"greedy": (1, 3), "sampled": (2, 8)}
"""Each in one of the ways."""

NEXTN = [(name, "few words") for name in tiny_nextn.TYPES]
"""The choice is among few words, so that a random head is right now and then."""


@pytest.fixture(
    scope="module", params=[*itertools.product(KINDS, ("folder", "gguf")), *NEXTN], ids="-".join
)
def made(request, tmp_path_factory):
    """An engine, and ways to pick tokens."""
    kind, form = request.param
    place = tmp_path_factory.mktemp("same")
    ways = WAYS
    if form == "folder":
        path = write_tiny_experts(place / "m", kind, experts="stacked", bits=4)
    elif form == "gguf":
        path = write_tiny_gguf_experts(place / "m.gguf", kind, joined_experts=True)
    else:
        path = tiny_nextn.publish(kind, place / "m", own=kind != tiny_nextn.TYPES[2]).folder
        ways = {way: replace(options, logit_bias=FEW_WORDS) for way, options in WAYS.items()}
    engine = mlx_engine.load(path)
    yield engine, ways
    engine.close()


@pytest.mark.parametrize("way", WAYS)
def test_text_with_the_head_is_text_without(made, way):
    engine, ways = made

    def said(depth):
        draft = DraftOptions(source="mtp" if depth else "none", depth=depth)
        return engine.generate(PROMPT, LENGTH, ways[way], draft, ignore_eos=True)

    plain, accepted = said(0), 0
    assert len(set(plain.tokens)) > 3
    for depth in DEPTHS[way]:
        drafted = said(depth)
        assert drafted.tokens == plain.tokens
        assert drafted.stats.drafted > 0
        accepted += drafted.stats.accepted
    assert accepted > 0 or way == "greedy" or ways is WAYS


@pytest.mark.parametrize("way", WAYS)
def test_so_it_is_where_rounds_are_begun_before_the_outcome_of_the_last_is_known(made, way):
    model, options = made[0].parts.model, made[1][way]
    found = []
    for looks_ahead in (False, True):
        source = MtpDraft(model.heads, DraftOptions())
        ran = run(
            model, PROMPT, source, 3, options=options, max_tokens=LENGTH, looks_ahead=looks_ahead
        )
        found.append((ran.tokens, ran.stats.accepted_by_depth))
    assert found[0] == found[1]


@pytest.mark.parametrize("way", WAYS)
def test_drafts_cut_at_every_place_change_nothing(made, way):
    """A random head is hardly ever right; here drafts are right now and then, as told."""
    model, options = made[0].parts.model, made[1][way]
    truth = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH).tokens
    for depth in DEPTHS[way]:
        right = itertools.cycle([depth, *range(depth)])
        source = DialledDraft([*PROMPT, *truth], right, model.vocabulary)
        ran = run(model, PROMPT, source, depth, options=options, max_tokens=LENGTH)
        assert ran.tokens == truth, depth
        assert ran.stats.accepted > 0
