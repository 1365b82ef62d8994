"""A small model drafts what it would say itself, from true tokens, in as many passes as tokens."""

import mlx.core as mx
import numpy as np
from drafts_again import propose_again, tell
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import TinySizes, tiny_model

from mlx_engine.drafting.contract import DraftRequest
from mlx_engine.drafting.drafter import FLUSH_ROWS
from mlx_engine.drafting.drafters import SmallModelDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

VOCABULARY = 61
SMALL = tiny_model(8, TinySizes(layers=2), with_head=False)
TEXT = [int(t) for t in np.random.default_rng(4).integers(0, VOCABULARY, 2 * FLUSH_ROWS + 60)]


def alone(tokens, depth):
    """What the small model goes on with, each step reading everything anew."""
    tokens = list(tokens)
    for _ in range(depth):
        hidden = SMALL.forward(mx.array([tokens]), SMALL.make_caches())
        tokens.append(int(mx.argmax(SMALL.logits(hidden)[0, -1]).item()))
    return tokens[len(tokens) - depth :]


def observe(source, tokens):
    tell(source, mx.array(tokens, dtype=mx.int32), mx.zeros((1, len(tokens), 0)))


def propose(source, depth, vocabulary=VOCABULARY):
    sampler = Sampler(SamplingOptions(temperature=0), vocabulary, 0)
    last = TEXT[source.length]
    wanted = DraftRequest(depth, mx.array([last]), source.length + 1)
    return propose_again(source, wanted, sampler)


@settings(max_examples=15)
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=6),
    cut=st.integers(0, 5),
)
def test_drafts_after_any_history(steps, cut):
    source = SmallModelDraft(SMALL, VOCABULARY, DraftOptions())
    places = []
    for rows, depth in steps:
        places.append(source.snapshot())
        observe(source, TEXT[source.length : source.length + rows])
        if depth:
            draft = propose(source, depth)
            assert draft.tokens.tolist() == alone(TEXT[: source.length + 1], depth)
            assert draft.passes == depth
            observe(source, TEXT[source.length : source.length + 1])
    back = places[min(cut, len(places) - 1)]
    source.restore(back)
    assert source.length == back.length
    assert propose(source, 2).tokens.tolist() == alone(TEXT[: source.length + 1], 2)


def test_vocabularies_of_other_sizes():
    """Rows the small model lacks are never drafted; tokens it lacks are read as its last."""
    for vocabulary in (VOCABULARY - 5, VOCABULARY + 9):
        source = SmallModelDraft(SMALL, vocabulary, DraftOptions())
        observe(source, [*TEXT[:5], VOCABULARY + 8])
        draft = propose(source, 8, vocabulary)
        assert max(draft.tokens.tolist()) < min(vocabulary, VOCABULARY)


def test_a_parked_source_reads_now_and_then():
    source = SmallModelDraft(SMALL, VOCABULARY, DraftOptions())
    for token in TEXT[: FLUSH_ROWS - 1]:
        observe(source, [token])
    assert source.nbytes < 10_000
    before = source.nbytes
    observe(source, TEXT[FLUSH_ROWS - 1 : FLUSH_ROWS + 4])
    assert source.nbytes > before
