"""Which tokens a conversation holds so far, counted on the device for the penalties."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np


class TokenHistory:
    """The prompt's tokens and how often the answer used each token.

    Token ids from `vocabulary` on (rows of padding in an embedding) are never picked: not counted.
    """

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self.begin(())

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget everything, then take the prompt."""
        tokens = np.asarray(prompt, dtype=np.int64)
        counts = np.bincount(tokens, minlength=self._vocabulary)[: self._vocabulary]
        self._in_prompt = mx.array(counts > 0)
        self._in_answer = mx.array(np.zeros(self._vocabulary, dtype=np.int32))

    def commit(self, tokens: Sequence[int]) -> None:
        """Count tokens of the answer."""
        known = [token for token in tokens if token < self._vocabulary]
        if known:
            self._in_answer = self._in_answer.at[mx.array(known)].add(1)

    def answer_counts(self, rows: int, prefix: mx.array) -> mx.array:
        """Uses in the answer plus the drafted prefix before each row, int32 [rows, V].

        prefix: int32 [P], P >= rows - 1; row i sees its first P - (rows - 1) + i tokens.
        """
        shared = prefix.shape[0] - (rows - 1)
        if shared < 0:
            raise ValueError(f"{rows} rows need {rows - 1} drafted tokens, got {prefix.shape[0]}")
        drafted = (prefix[:, None] == mx.arange(self._vocabulary)).astype(mx.int32)
        first = self._in_answer + mx.sum(drafted[:shared], axis=0)
        return mx.cumsum(mx.concatenate([first[None], drafted[shared:]]), axis=0)

    def seen(self, answer_counts: mx.array) -> mx.array:
        """Tokens in prompt or answer, bool [R, V], for counts as `answer_counts` gives them."""
        return self._in_prompt | (answer_counts > 0)
