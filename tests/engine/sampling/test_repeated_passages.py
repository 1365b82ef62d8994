"""Penalties of repeated passages and excluded top choices, against plain slow definitions."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_engine.built_in_model import built_in_model
from mlx_engine.sampling.penalties import LONGEST_REPEAT, RepeatedSequences, exclude_top_choices
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import SamplingOptions

VOCABULARY = 6
TOKENS = st.lists(st.integers(0, VOCABULARY - 1), max_size=40)


def dry(tokens, options, breaking):
    """What llama.cpp's DRY subtracts from each token's logit, place by place."""
    last = options.dry_penalty_last_n
    tokens = tokens if last < 0 else tokens[max(0, len(tokens) - last) :]
    longest = dict.fromkeys(range(VOCABULARY), 0)
    for place in range(1, len(tokens)):
        length = 0
        while (
            length < min(place, LONGEST_REPEAT)
            and tokens[place - 1 - length] == tokens[-1 - length]
            and tokens[-1 - length] not in breaking
        ):
            length += 1
        longest[tokens[place]] = max(longest[tokens[place]], length)
    least = options.dry_allowed_length
    return [
        options.dry_multiplier * options.dry_base ** (n - least) if n >= least else 0.0
        for n in longest.values()
    ]


@given(
    prompt=TOKENS,
    answer=TOKENS,
    drafted=st.lists(st.integers(0, 1), max_size=4),
    least=st.integers(1, 4),
    last=st.sampled_from((-1, 1, 2, 7, 1000)),
    breaking=st.sets(st.integers(0, VOCABULARY - 1), max_size=2),
)
def test_each_row_is_penalised_for_its_own_past(prompt, answer, drafted, least, last, breaking):
    options = SamplingOptions(dry_multiplier=0.8, dry_allowed_length=least, dry_penalty_last_n=last)
    repeated = RepeatedSequences(options, VOCABULARY, breaking)
    repeated.begin([9, 9])
    repeated.begin(prompt)
    repeated.commit(answer)
    rows = repeated.repeat_penalties(drafted)
    for number, row in enumerate(rows):
        past = [*prompt, *answer, *drafted[:number]]
        np.testing.assert_allclose(row, dry(past, options, breaking), rtol=1e-5)


def test_a_token_that_would_repeat_a_passage_is_not_picked():
    options = SamplingOptions(temperature=0, dry_multiplier=5.0)
    sampler = Sampler(options, VOCABULARY, 0, sequence_breakers=lambda texts: {5})
    sampler.begin([1, 2, 3, 4, 1, 2])
    logits = mx.array([[0.0, 0, 0, 3, 2.9, 0]] * 2)
    drafted = sampler.truncate_draft(mx.array([3], dtype=mx.int32))
    assert sampler.pick(sampler.with_grammar_bias(logits), 6, drafted).tolist() == [4, 3]
    sampler.commit(mx.array([5], dtype=mx.int32), 1)
    assert sampler.depends_on_tokens
    nothing = sampler.truncate_draft(mx.zeros((0,), dtype=mx.int32))
    assert sampler.pick(sampler.with_grammar_bias(logits[:1]), 7, nothing).tolist() == [3]


def test_breaking_tokens_are_those_whose_text_has_a_breaker():
    tokenizer = read_tokenizer(built_in_model())
    found = tokenizer.tokens_with(("\n", ":"))
    assert found == {
        token
        for token in range(tokenizer.vocabulary)
        if token not in tokenizer.special_ids
        and any(text in tokenizer.decode([token]) for text in ("\n", ":"))
    }
    assert found
    assert tokenizer.tokens_with(()) == frozenset()


@given(
    logits=st.lists(st.integers(-40, 40), min_size=2, max_size=8, unique=True),
    threshold=st.floats(0, 1),
    forbidden=st.integers(0, 1),
)
def test_all_top_choices_but_the_least_likely_are_excluded(logits, threshold, forbidden):
    row = np.array(logits, dtype=np.float32) / 8
    row[:forbidden] = -np.inf
    shares = np.exp(row.astype(np.float64) - row.max())
    shares /= shares.sum()
    if np.abs(shares - threshold).min() < 1e-5:
        return
    likely = (token for token in range(len(row)) if shares[token] >= threshold and shares[token])
    top = sorted(likely, key=lambda token: shares[token])
    expected = row.copy()
    expected[top[1:]] = -np.inf
    found = exclude_top_choices(mx.array(np.stack([row, row])), threshold, mx.array([True, False]))
    np.testing.assert_array_equal(np.array(found), np.stack([expected, row]))


def test_top_choices_are_excluded_as_often_as_asked():
    options = SamplingOptions(temperature=1.0, xtc_probability=0.3, xtc_threshold=0.2)
    logits = mx.array([[2.0, 1.9, -9.0, -9.0, -9.0, -9.0]] * 4000)
    nothing = mx.zeros((3999,), dtype=mx.int32)
    picked = np.array(Sampler(options, VOCABULARY, 3).pick(logits, 0, nothing))
    likely = np.exp(2.0) / (np.exp(2.0) + np.exp(1.9))
    assert abs(np.mean(picked == 0) - 0.7 * likely) < 0.03
    alone = Sampler(options, VOCABULARY, 3)
    one_by_one = [alone.pick(logits[:1], n, nothing[:0]).item() for n in range(40)]
    assert one_by_one == picked[:40].tolist()
    greedy = SamplingOptions(temperature=0, xtc_probability=1.0, xtc_threshold=0.2)
    assert Sampler(greedy, VOCABULARY, 3).pick(logits[:1], 0, nothing[:0]).item() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"xtc_probability": 1.5}, "xtc_probability=1.5 is not possible: use 0"),
        ({"xtc_threshold": -1}, "xtc_threshold="),
        ({"dry_multiplier": -1}, "dry_multiplier="),
        ({"dry_base": 0.5}, "dry_base="),
        ({"dry_allowed_length": 0}, "dry_allowed_length="),
        ({"dry_penalty_last_n": -2}, "dry_penalty_last_n="),
        ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers="),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises(BadOption, match=words):
        SamplingOptions(**options)
