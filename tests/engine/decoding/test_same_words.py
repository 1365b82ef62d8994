"""The master test: drafting never changes a token, whatever the source, depth and sampling."""

import itertools

import pytest
from dialled_draft import DialledDraft
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_run import CyclingDepth, run
from tiny_model import TinySizes, tiny_model

from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.options import DraftOptions, SamplingOptions

SIZES = TinySizes(layers=2, vocabulary=37)
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
LENGTH = 14

WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "plain": SamplingOptions(temperature=0.7),
    "hot": SamplingOptions(temperature=1.2),
    "top-k": SamplingOptions(temperature=1.2, top_k=4),
    "top-p": SamplingOptions(temperature=1.2, top_p=0.6),
    "min-p": SamplingOptions(temperature=1.2, min_p=0.2),
    "repetition": SamplingOptions(temperature=0.7, repetition_penalty=1.4),
    "presence": SamplingOptions(temperature=0.7, presence_penalty=1.5),
    "frequency": SamplingOptions(temperature=0.7, frequency_penalty=0.9),
    "greedy penalised": SamplingOptions(
        temperature=0, repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.5
    ),
    "bias": SamplingOptions(temperature=0.7, logit_bias={3: 2.5, 7: -100.0}),
    "everything": SamplingOptions(
        temperature=1.0,
        top_k=9,
        top_p=0.9,
        min_p=0.01,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.2,
        logit_bias={5: 1.0},
    ),
}


@pytest.fixture(scope="module")
def model():
    return tiny_model(5, SIZES)


@pytest.fixture(scope="module")
def plain(model):
    return {
        name: run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH)
        for name, options in WAYS.items()
    }


def pairs():
    """Two depths a way: every depth in three of the twelve ways.

    Of the first draft, while there is room for all of it, every other time all but the last token
    is right. Every way has either rule.
    """
    return [
        (way, (place + 4 * step) % 8 + 1, (place + step) % 2, ("shared-noise", "greedy")[step])
        for place, way in enumerate(WAYS)
        for step in range(2)
    ]


@pytest.mark.parametrize(("way", "depth", "wrong", "rule"), pairs())
def test_own_head_and_dialled_drafts_keep_the_words(model, plain, way, depth, wrong, rule):
    right = [depth - wrong, 0, 1, depth - 1 + wrong]
    options, truth = WAYS[way], plain[way].tokens
    sources = [
        MtpDraft(model.heads, DraftOptions(rule=rule)),
        DialledDraft([*PROMPT, *truth], itertools.cycle(right), 37),
    ]
    for source in sources:
        ran = run(model, PROMPT, source, depth, options=options, max_tokens=LENGTH)
        assert ran.tokens == truth
        assert ran.stats.drafted > 0


def test_the_comparison_means_something(plain):
    """Texts of different settings differ, so equal texts are no accident."""
    assert len({tuple(ran.tokens) for ran in plain.values()}) >= len(plain) - 2
    assert all(len(set(ran.tokens)) > 3 for ran in plain.values())


@settings(max_examples=40)
@given(
    depths=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    right=st.lists(st.integers(0, 8), min_size=1, max_size=12),
    way=st.sampled_from(["greedy", "hot", "everything"]),
    chunk=st.integers(1, 12),
    end=st.integers(-1, 36),
)
def test_every_accept_pattern(model, depths, right, way, chunk, end):
    """Any depth in any order, any number of accepted tokens, end tokens in mid-draft."""
    ends = {end} if end >= 0 else set()
    options = WAYS[way]
    truth = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH, end_ids=ends)
    source = DialledDraft([*PROMPT, *truth.tokens, *ends], itertools.cycle(right), 37)
    ran = run(
        model,
        PROMPT,
        source,
        CyclingDepth(depths),
        options=options,
        max_tokens=LENGTH,
        end_ids=ends,
        chunk=chunk,
    )
    assert ran.tokens == truth.tokens
    assert ran.sequence.tokens == truth.sequence.tokens


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_stop_pairs_in_mid_draft(model, plain, depth):
    truth = plain["hot"].tokens
    stop = {(truth[5], truth[6])}
    source = DialledDraft([*PROMPT, *truth], itertools.repeat(depth), 37)
    drafted = run(model, PROMPT, source, depth, options=WAYS["hot"], stop_pairs=stop)
    alone = run(model, PROMPT, NoDraft(), 0, options=WAYS["hot"], stop_pairs=stop)
    assert drafted.tokens == alone.tokens == truth[:7]
    assert drafted.sequence.tokens == alone.sequence.tokens


@pytest.mark.parametrize("depth", [0, 2, 5])
def test_turns_on_one_sequence_equal_a_fresh_one(model, depth):
    """A second turn on caches that drafting has used equals the same prompt read afresh."""
    options = WAYS["plain"]
    source = MtpDraft(model.heads, DraftOptions())
    first = run(model, PROMPT, source, depth, options=options)
    again = [*PROMPT, *first.tokens, 8, 3, 3, 1]
    turned = run(model, again, source, depth, options=options, sequence=first.sequence)
    afresh = run(model, again, NoDraft(), 0, options=options)
    assert turned.tokens == afresh.tokens
    assert turned.stats.reused_tokens == len(PROMPT) + len(first.tokens) - 1


@pytest.mark.parametrize("way", ["greedy", "hot", "everything"])
def test_suppressed_tokens_are_never_written(model, plain, way):
    """Nor is one that may not begin an answer its first; drafts of any of them are wrong."""
    truth = plain[way].tokens
    how = {"options": WAYS[way], "max_tokens": LENGTH}
    how |= {"suppressed": (truth[3], 9000), "first_suppressed": (truth[0],)}
    alone = run(model, PROMPT, NoDraft(), 0, **how)
    assert truth[3] not in alone.tokens and alone.tokens[0] != truth[0]
    for ahead in (False, True):
        for source in (
            MtpDraft(model.heads, DraftOptions()),
            DialledDraft([*PROMPT, *truth], itertools.cycle([3, 1]), 37),
        ):
            assert run(model, PROMPT, source, 3, looks_ahead=ahead, **how).tokens == alone.tokens


def test_min_probability_keeps_the_words(model, plain):
    for threshold in (0.05, 0.3, 0.9, 1.0):
        source = MtpDraft(model.heads, DraftOptions(min_probability=threshold))
        ran = run(model, PROMPT, source, 4, options=WAYS["hot"], max_tokens=LENGTH)
        assert ran.tokens == plain["hot"].tokens
