"""Heads in turns: every draft equals one made without memory; words stay; depth ends with heads."""

import itertools
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
from dialled_draft import DialledDraft
from drafts_again import propose_again, tell
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_run import run
from session_runs import FEW_WORDS
from tiny_stacks import HEADS, VOCABULARY, WINDOW, write_stack

import mlx_engine
from mlx_engine.drafting.contract import DraftRequest
from mlx_engine.drafting.drafter import FLUSH_ROWS, NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

CHAINED = ("mimo_v2_flash", "step3p5")
TEXT = [int(t) for t in np.random.default_rng(4).integers(0, VOCABULARY, 2 * FLUSH_ROWS + 30)]
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
LENGTH = 3 * WINDOW
WAYS = {
    "greedy": SamplingOptions(temperature=0, logit_bias=FEW_WORDS),
    "hot": SamplingOptions(temperature=1.1, repetition_penalty=1.2, logit_bias=FEW_WORDS),
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    @cache
    def get(kind):
        engine = mlx_engine.load(write_stack(tmp_path_factory.mktemp("tiny") / kind, kind))
        engine.draft_logits(TEXT[:4])  # the heads are read
        return engine

    return get


@pytest.fixture(scope="module")
def models(engines):
    return lambda kind: engines(kind).parts.model


@pytest.fixture(scope="module")
def hidden(models):
    @cache
    def get(kind):
        model = models(kind)
        return model.forward(mx.array([TEXT]), model.make_caches())

    return get


def source_for(model, rule="greedy"):
    return MtpDraft(model.heads, DraftOptions(rule=rule))


def chain(model, hidden, length, depth):
    """The draft after TEXT[:length], each head by one pass over everything, no memory."""
    tokens, states = TEXT[1 : length + 1], hidden[:, :length]
    drafted = []
    for head in model.heads[:depth]:
        out = head.mtp_forward(mx.array([tokens]), states, head.make_head_caches())
        drafted.append(int(mx.argmax(head.mtp_logits(out)[0, -1]).item()))
        tokens = [*tokens, drafted[-1]]
        states = mx.concatenate([states, out[:, -1:]], axis=1)
    return drafted


def propose(source, length, depth):
    sampler = Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)
    wanted = DraftRequest(depth, mx.array(TEXT[length : length + 1]), length + 1)
    return propose_again(source, wanted, sampler)


@pytest.mark.parametrize("kind", CHAINED)
@settings(max_examples=12)
@given(steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=8))
def test_drafts_after_any_history(models, hidden, kind, steps):
    """Rounds of any size and depth, windows full or not; heads that rested catch up."""
    model, source = models(kind), source_for(models(kind))
    for rows, depth in steps:
        start = source.length
        tell(source, mx.array(TEXT[start : start + rows]), hidden(kind)[:, start : start + rows])
        draft = propose(source, source.length, depth)
        assert draft.tokens.tolist() == chain(model, hidden(kind), source.length, depth)
        assert draft.passes == draft.tokens.size == min(depth, 3)


@pytest.mark.parametrize("kind", CHAINED)
@pytest.mark.parametrize("length", [5, 40, FLUSH_ROWS + 20])
def test_going_back_to_a_snapshot(models, hidden, kind, length):
    model, source = models(kind), source_for(models(kind))

    def read(start, end):
        for row in range(start, end, 7):
            block = slice(row, min(row + 7, end))
            tell(source, mx.array(TEXT[block]), hidden(kind)[:, block])

    read(0, length)
    boundary = source.snapshot()
    propose(source, length, 2)
    read(length, length + 30)
    source.restore(boundary)
    assert source.length == length
    for end in (length, length + 9):
        read(source.length, end)
        draft = propose(source, end, 3)
        assert draft.tokens.tolist() == chain(model, hidden(kind), end, 3)


@pytest.mark.parametrize("kind", CHAINED)
def test_going_back_while_it_rests_each_head_has_its_own_rows_to_read(models, hidden, kind):
    """The first one has read what a draft of one token left to the others."""
    model, source, states = models(kind), source_for(models(kind)), hidden(kind)
    tell(source, mx.array(TEXT[:9]), states[:, :9])
    propose(source, 9, 1)
    tell(source, mx.array(TEXT[9:11]), states[:, 9:11])
    source.is_paused = True
    tell(source, mx.array(TEXT[11:12]), states[:, 11:12])
    boundary = source.snapshot()
    tell(source, mx.array(TEXT[12:16]), states[:, 12:16])
    source.restore(boundary)
    assert propose(source, 12, 3).tokens.tolist() == chain(model, states, 12, 3)


@pytest.mark.parametrize("kind", CHAINED)
def test_heads_that_rest_wait_for_a_bounded_number_of_rows(models, hidden, kind):
    source = source_for(models(kind))
    for row in range(FLUSH_ROWS + 8):
        tell(source, mx.array(TEXT[row : row + 1]), hidden(kind)[:, row : row + 1])
        if row < FLUSH_ROWS + 7:
            propose(source, row + 1, 1)
    lengths = [memory.caches.length for memory in source._memories[1:]]
    assert min(lengths) >= FLUSH_ROWS - 1
    assert propose(source, source.length, 3).tokens.tolist() == chain(
        models(kind), hidden(kind), source.length, 3
    )


@pytest.fixture(scope="module")
def plain(models):
    @cache
    def get(kind, way):
        options = WAYS[way]
        return run(models(kind), PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH).tokens

    return get


@pytest.mark.parametrize(
    ("depth", "way"), [(1, "hot"), (2, "greedy"), (3, "hot"), (4, "greedy"), (4, "hot")]
)
@pytest.mark.parametrize("kind", HEADS)
def test_drafts_keep_the_words(models, plain, kind, depth, way):
    model = models(kind)
    source = source_for(model, "shared-noise")
    ran = run(model, PROMPT, source, depth, options=WAYS[way], max_tokens=LENGTH)
    assert ran.tokens == plain(kind, way)
    again = source_for(model, "shared-noise")
    ahead = run(model, PROMPT, again, depth, options=WAYS[way], max_tokens=LENGTH, looks_ahead=True)
    assert ahead.tokens == ran.tokens
    assert ahead.stats.accepted_by_depth == ran.stats.accepted_by_depth
    deepest = depth if kind == "mimo" else min(depth, HEADS[kind])
    assert len(ran.stats.drafted_by_depth) == deepest
    assert ran.stats.drafted > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", HEADS)
def test_words_stay_at_every_number_of_accepted_tokens(models, plain, kind, way):
    truth = plain(kind, way)
    right = itertools.cycle(range(5))
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    ran = run(models(kind), PROMPT, source, 4, options=WAYS[way], max_tokens=LENGTH)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted


@pytest.mark.parametrize("output", ["full", "4-bit", "frequent"])
@pytest.mark.parametrize("kind", HEADS)
def test_generated_text_with_other_output_heads(engines, kind, output):
    engine = engines(kind)
    options = {"max_tokens": 20, "sampling": WAYS["greedy"]}
    wanted = engine.generate(PROMPT, draft=DraftOptions(source="none"), **options)
    draft = DraftOptions(depth=4, output=output, vocabulary=256)
    found = engine.generate(PROMPT, draft=draft, **options)
    assert found.tokens == wanted.tokens
    assert found.stats.drafted > 0


def test_heads_with_one_matrix_share_its_copy(models, engines):
    for kind, copies in (("mimo_v2_flash", 1), ("step3p5", 3)):
        made = engines(kind).parts.drafting.outputs.output_heads(DraftOptions(output="4-bit"))
        assert (len(made), len(set(made))) == (3, copies)
        again = engines(kind).parts.drafting.outputs.output_heads(DraftOptions(output="4-bit"))
        assert all(one is other for one, other in zip(made, again, strict=True))
        states = mx.ones((1, 1, models(kind).hidden_size))
        for output, head in zip(made, models(kind).heads, strict=True):
            found = np.array(output.logits(head, states))
            assert np.abs(found - np.array(head.mtp_logits(states))).max() < 2.0
