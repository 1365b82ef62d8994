"""The texts that drafting emits have the distribution of the model, counted against enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from plain_run import run
from table_model import TableModel

from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.options import DraftOptions, SamplingOptions

VOCABULARY, BLOCK = 4, 2
PROMPT = [0, 0, 0]


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(11)
    logits = rng.normal(0, 1.2, (VOCABULARY + 1, VOCABULARY))
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def enumerate_blocks(tables, options):
    """Exact probability of every block of two tokens, float64."""

    def law(row):
        scaled = row / options.temperature
        if options.top_k:
            scaled = np.where(scaled >= np.sort(scaled)[-options.top_k], scaled, -np.inf)
        shares, rest = softmax(scaled), softmax(scaled)
        top = sorted(s for s in shares if s >= options.xtc_threshold)[1:]
        rest[np.isin(shares, top)] = 0
        often = options.xtc_probability
        return (1 - often) * shares + often * rest / rest.sum()

    first, then = law(tables[0]), [law(row) for row in tables[1:]]
    pairs = itertools.product(range(VOCABULARY), repeat=BLOCK)
    return {(a, b): first[a] * then[a][b] for a, b in pairs}


def chi_square(counts, expected):
    """Statistic over its degrees of freedom, as a normal deviate (Wilson and Hilferty 1931)."""
    seen = expected > 0
    assert counts[~seen].sum() == 0
    statistic = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
    freedom = seen.sum() - 1
    cube = (statistic / freedom) ** (1 / 3)
    return (cube - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))


@pytest.mark.parametrize(
    ("options", "blocks", "depth", "rule", "blur"),
    [
        (SamplingOptions(temperature=1.0), 5_000, 8, "shared-noise", 0.1),
        (SamplingOptions(temperature=0.7, top_k=3), 1_500, 3, "greedy", 0.4),
        (
            SamplingOptions(temperature=1.0, top_k=3, xtc_probability=0.6, xtc_threshold=0.15),
            3_000,
            3,
            "shared-noise",
            0.1,
        ),
    ],
)
def test_blocks_are_drawn_as_enumerated(tables, options, blocks, depth, rule, blur):
    """Up to 10,000 tokens in blocks of two; the second law is cut to three tokens.

    Against slightly different probabilities the count of a few of them is far off already.
    """
    model = TableModel(tables[0], tables[1:], BLOCK, blur)
    ran = run(
        model,
        PROMPT,
        MtpDraft(model.heads, DraftOptions(rule=rule)),
        depth,
        options=options,
        max_tokens=BLOCK * blocks + 1,
        context_length=10**7,
        seed=2024,
    )
    first = (-len(PROMPT)) % BLOCK
    emitted = np.array(ran.tokens[first : first + BLOCK * blocks]).reshape(-1, BLOCK)
    assert len(emitted) == blocks
    law = enumerate_blocks(tables, options)
    assert abs(chi_square(*counted(emitted, law))) < 2
    wrong = enumerate_blocks(tables, replace(options, temperature=0.8 * options.temperature))
    assert chi_square(*counted(emitted[:2000], wrong)) > 4
    assert 0.3 < ran.stats.accepted_by_depth[0] / ran.stats.drafted_by_depth[0] < 0.999


def counted(emitted, law):
    """How often each block came, and how often it should have come."""
    counts = np.array([(emitted == pair).all(-1).sum() for pair in law])
    return counts, len(emitted) * np.array(list(law.values()))
