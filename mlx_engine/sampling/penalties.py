"""Penalties for tokens that a conversation has used, and the exclusion of the likeliest ones."""

from collections.abc import Collection, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.cache.contract import RowCount
from mlx_engine.values.options import SamplingOptions

LONGEST_REPEAT = 50
"""Tokens of a repeated passage that count at most; the penalty is beyond all logits by then."""


def repetition_penalty(logits: mx.array, seen_tokens: mx.array, penalty: float) -> mx.array:
    """Divide positive and multiply negative logits of seen tokens (CTRL, Keskar et al. 2019).

    seen_tokens: bool [R, V] or [V].
    """
    penalised = mx.where(logits > 0, logits / penalty, logits * penalty)
    return mx.where(seen_tokens, penalised, logits)


def presence_and_frequency_penalty(
    logits: mx.array, counts: mx.array, presence_penalty: float, frequency_penalty: float
) -> mx.array:
    """Subtract presence and frequency penalties from logits of tokens that the answer used.

    `presence_penalty` is subtracted once, `frequency_penalty` for each use; counts: int32 [R, V].
    """
    return logits - presence_penalty * (counts > 0) - frequency_penalty * counts


class TokenHistory:
    """Tokens that penalties depend on: those of the prompt, and the answer's with their counts.

    Token ids from `vocabulary` on (rows of padding in an embedding) are never picked: not counted.
    """

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self.begin(())

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget all counted tokens, then take those of a new prompt."""
        tokens = np.asarray(prompt, dtype=np.int64)
        counts = np.bincount(tokens, minlength=self._vocabulary)[: self._vocabulary]
        self._in_prompt = mx.array(counts > 0)
        self._in_answer = mx.zeros((self._vocabulary + 1,), dtype=mx.int32)  # the last: of no use

    def commit(self, tokens: mx.array, count: RowCount | None = None) -> None:
        """Count the first `count` of the answer's new tokens int32 [T], or all of them; lazy."""
        if count is not None:
            tokens = mx.where(mx.arange(count.most) < count.rows, tokens, self._vocabulary)
        known = mx.minimum(tokens, self._vocabulary)
        self._in_answer = self._in_answer.at[known].add(1)

    def answer_counts(self, rows: int, prefix: mx.array) -> mx.array:
        """How often each token is in the answer and the draft before each row, int32 [rows, V].

        prefix: drafted tokens int32 [P], P >= rows - 1; row i sees its first P - (rows - 1) + i.
        """
        shared = prefix.shape[0] - (rows - 1)
        if shared < 0:
            raise ValueError(f"{rows} rows need {rows - 1} drafted tokens, got {prefix.shape[0]}")
        drafted = (prefix[:, None] == mx.arange(self._vocabulary)).astype(mx.int32)
        first = self._in_answer[:-1] + mx.sum(drafted[:shared], axis=0)
        return mx.cumsum(mx.concatenate([first[None], drafted[shared:]]), axis=0)

    def seen_tokens(self, answer_counts: mx.array) -> mx.array:
        """Which tokens were in prompt or answer, bool [R, V]; takes counts of `answer_counts`."""
        return self._in_prompt | (answer_counts > 0)


class RepeatedSequences:
    """Penalises tokens that would prolong a passage which has stood in the conversation before.

    DRY by p-e-w (https://github.com/oobabooga/text-generation-webui/pull/5677), as llama.cpp has
    it: where the newest n tokens have stood before, the token that followed them there is penalised
    by multiplier * base ** (n - allowed_length), for the longest n of at least allowed_length. No
    passage reaches across a breaking token.
    """

    def __init__(
        self, options: SamplingOptions, vocabulary: int, sequence_breakers: Collection[int]
    ) -> None:
        self._options = options
        self._vocabulary = vocabulary
        self._breaking = np.array(sorted(sequence_breakers), dtype=np.int64)
        self._tokens: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget all tokens, then take those of a new prompt."""
        self._tokens = list(prompt)

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens of the answer."""
        self._tokens += tokens

    def repeat_penalties(self, drafted_tokens: Sequence[int]) -> NDArray[np.float32]:
        """Penalties to subtract after the conversation and each of n drafted tokens, [n + 1, V]."""
        rows = np.zeros((len(drafted_tokens) + 1, self._vocabulary), dtype=np.float32)
        tokens, options = np.array([*self._tokens, *drafted_tokens], dtype=np.int64), self._options
        for number, row in enumerate(rows):
            end = len(self._tokens) + number
            last = options.dry_penalty_last_n
            found = self._repeat_lengths(tokens[0 if last < 0 else max(0, end - last) : end])
            for token, length in found.items():
                if token < self._vocabulary:
                    power = options.dry_base ** (length - options.dry_allowed_length)
                    row[token] = options.dry_multiplier * power
        return rows

    def _repeat_lengths(self, tokens: NDArray[np.int64]) -> dict[int, int]:
        """Tokens that would prolong a repeated passage -> the length of the longest one."""
        breaks = np.flatnonzero(np.isin(tokens[-LONGEST_REPEAT:][::-1], self._breaking))
        longest = min(int(breaks[0]) if len(breaks) else LONGEST_REPEAT, len(tokens) - 1)
        ends, found = np.arange(len(tokens) - 1), dict[int, int]()
        for length in range(1, longest + 1):
            ends = ends[ends >= length - 1]
            ends = ends[tokens[ends - length + 1] == tokens[-length]]
            if not len(ends):
                break
            if length >= self._options.dry_allowed_length:
                found |= dict.fromkeys(tokens[ends + 1].tolist(), length)
        return found


def exclude_top_choices(logits: mx.array, threshold: float, may_exclude: mx.array) -> mx.array:
    """Set all tokens of at least this probability but the least likely of them to -inf.

    XTC by p-e-w (https://github.com/oobabooga/text-generation-webui/pull/6335). logits [R, V];
    may_exclude: in which rows they are excluded, bool [R].
    """
    shares = mx.softmax(logits, axis=-1)
    is_top = (shares >= threshold) & (shares > 0)
    least = mx.min(mx.where(is_top, shares, mx.inf), axis=-1, keepdims=True)
    return mx.where(is_top & (shares > least) & may_exclude[:, None], -mx.inf, logits)
