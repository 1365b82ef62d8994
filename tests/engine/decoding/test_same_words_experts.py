"""Text with drafting is text without for models with experts, from folders and from GGUF."""

import itertools
from pathlib import Path

import pytest
from dialled_draft import DialledDraft
from plain_run import run
from tiny_gguf import write_tiny_gguf_experts
from tiny_qwen_experts import KINDS, write_tiny_experts

import mlx_engine
from mlx_engine.drafting.contract import NoDraft
from mlx_engine.values.options import DraftOptions, SamplingOptions

LENGTH = 16
PROMPT = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64]
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "sampled": SamplingOptions(temperature=0.9, top_k=40, seed=7),
}


@pytest.fixture(scope="module", params=list(itertools.product(KINDS, ("folder", "gguf"))))
def engine(request, tmp_path_factory):
    kind, form = request.param
    place: Path = tmp_path_factory.mktemp("same")
    if form == "folder":
        path = write_tiny_experts(place / "m", kind, experts="stacked", bits=4)
    else:
        path = write_tiny_gguf_experts(place / "m.gguf", kind, joined_experts=True)
    engine = mlx_engine.load(path)
    yield engine
    engine.close()


@pytest.mark.parametrize("way", WAYS)
def test_text_with_the_head_is_text_without(engine, way):
    def tokens(depth):
        draft = DraftOptions(source="mtp" if depth else "none", depth=depth)
        return engine.generate(
            PROMPT, max_tokens=LENGTH, sampling=WAYS[way], draft=draft, ignore_eos=True
        )

    plain = tokens(0)
    assert len(set(plain.tokens)) > 3
    for depth in (1, 2, 3, 4):
        drafted = tokens(depth)
        assert drafted.tokens == plain.tokens
        assert drafted.stats.drafted > 0


@pytest.mark.parametrize("way", WAYS)
def test_drafts_that_stand_change_nothing(engine, way):
    """A random head is hardly ever right; here drafts are right now and then, as told."""
    model, options = engine.parts.model, WAYS[way]
    truth = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH).tokens
    for depth in (1, 2, 3, 4):
        right = itertools.cycle([depth, 0, 1, depth - 1])
        source = DialledDraft([*PROMPT, *truth], right, model.vocabulary)
        ran = run(model, PROMPT, source, depth, options=options, max_tokens=LENGTH)
        assert ran.tokens == truth
        assert ran.stats.accepted > 0
