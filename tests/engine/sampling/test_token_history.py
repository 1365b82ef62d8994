"""Counting tokens along committed and drafted ones."""

import mlx.core as mx
import numpy as np
import pytest

from mlx_engine.sampling.penalties import TokenHistory


def ints(*tokens: int) -> mx.array:
    return mx.array(tokens, dtype=mx.int32)


def test_each_row_counts_the_drafted_tokens_before_it() -> None:
    history = TokenHistory(5)
    history.begin([4])
    history.commit(ints(1, 1))
    history.commit(ints(2))
    counts = history.answer_counts(3, ints(3, 1, 1))
    assert np.array(counts).tolist() == [[0, 2, 1, 1, 0], [0, 3, 1, 1, 0], [0, 4, 1, 1, 0]]
    assert counts.dtype == mx.int32
    seen = np.array(history.seen_tokens(counts))
    assert seen.tolist() == [[False, True, True, True, True]] * 3


def test_begin_forgets_prompt_and_answer() -> None:
    history = TokenHistory(3)
    history.begin([0])
    history.commit(ints(1))
    history.begin([2])
    counts = history.answer_counts(1, ints())
    assert np.array(counts).tolist() == [[0, 0, 0]]
    assert np.array(history.seen_tokens(counts)).tolist() == [[False, False, True]]


def test_tokens_beyond_the_vocabulary_are_not_counted() -> None:
    history = TokenHistory(3)
    history.begin([5, 1])
    history.commit(ints(3, 900))
    history.commit(ints(2))
    counts = history.answer_counts(2, ints(7))
    assert np.array(counts).tolist() == [[0, 0, 1]] * 2
    assert np.array(history.seen_tokens(counts)).tolist() == [[False, True, True]] * 2


def test_too_few_drafted_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows need 2 drafted tokens, got 1"):
        TokenHistory(3).answer_counts(3, ints(1))
