"""Scores of tokens along a drafted block: DFlash 2's candidate selector, DSpark's Markov head.

A block's rows know nothing of one another's tokens. These add to a row's logits what the token
before it says, so the tokens are picked one after the other, without another pass.
"""

from typing import Protocol

import mlx.core as mx
from typing_extensions import override

from mlx_engine.models.layer_specs import Shapes
from mlx_engine.models.layers import Embedding, Linear
from mlx_engine.models.weights import Part


class BlockChoice(Protocol):
    """Scores of a block's row, given the token before it."""

    def rescore_logits(self, logits: mx.array, state: mx.array, previous: mx.array) -> mx.array:
        """Logits [1, V], the row's state [1, H], the token before, int [1] -> scores [1, V]."""

    def confidence(self, state: mx.array, previous: mx.array) -> mx.array | None:
        """Probability [1] that the row's token is accepted; None where the model has no head."""


class CandidateSelector(BlockChoice):
    """DFlash 2's choice among the likeliest tokens of each row, by codebooks of token pairs.

    score(t) = logit(t) + sum(predecessor(token before) * project(state) * successor(t)) for the
    `candidates` likeliest tokens t, all others -inf.
    """

    def __init__(self, part: Part, candidates: int) -> None:
        self._candidates = candidates
        books = (part.matrix(name) for name in ("predecessor_codebook", "successor_codebook"))
        self._before, self._after = (Embedding.from_matrix(b, b.dtype, part.kernels) for b in books)
        self._project = Linear.read(part, "hidden_projection")

    @staticmethod
    def tensors(hidden: int, vocabulary: int, rank: int) -> Shapes:
        """Names and shapes of the weights of a candidate selector."""
        return {
            "predecessor_codebook.weight": (vocabulary, rank),
            "successor_codebook.weight": (vocabulary, rank),
            "hidden_projection.weight": (rank, hidden),
        }

    @override
    def rescore_logits(self, logits: mx.array, state: mx.array, previous: mx.array) -> mx.array:
        best = mx.argpartition(logits, -self._candidates, axis=-1)[:, -self._candidates :]
        pair = (self._before(previous) * self._project(state)).astype(mx.float32)
        edges = (pair[:, None] * self._after(best)).sum(axis=-1)
        found = mx.take_along_axis(logits, best, axis=-1) + edges
        return mx.put_along_axis(mx.full(logits.shape, -mx.inf), best, found, axis=-1)

    @override
    def confidence(self, state: mx.array, previous: mx.array) -> mx.array | None:
        del state, previous
        return None


class MarkovHead(BlockChoice):
    """DSpark's low-rank matrix of token pairs, added to logits, and its confidence head, if any.

    score(t) = logit(t) + w2(w1(token before))[t]. confidence: sigmoid of a projection of the state
    and, if `joined`, of w1(token before).
    """

    def __init__(self, part: Part, *, has_confidence: bool, joined: bool) -> None:
        first = part.matrix("markov_head.markov_w1")
        self._first = Embedding.from_matrix(first, first.dtype, part.kernels)
        self._second = Linear.read(part, "markov_head.markov_w2")
        self._sure = Linear.read(part, "confidence_head.proj") if has_confidence else None
        self._joined = joined

    @staticmethod
    def tensors(
        hidden: int, tokens: tuple[int, int], rank: int, *, has_confidence: bool, joined: bool
    ) -> Shapes:
        """Names and shapes of the weights of a Markov head and a confidence head.

        tokens: how many can stand before, and how many have logits.
        """
        names = ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")
        made: Shapes = {name: (rows, rank) for name, rows in zip(names, tokens, strict=True)}
        if has_confidence:
            made["confidence_head.proj.weight"] = (1, hidden + rank if joined else hidden)
            made["confidence_head.proj.bias"] = (1,)
        return made

    @override
    def rescore_logits(self, logits: mx.array, state: mx.array, previous: mx.array) -> mx.array:
        del state
        return logits + self._second(self._first(previous)).astype(mx.float32)

    @override
    def confidence(self, state: mx.array, previous: mx.array) -> mx.array | None:
        if self._sure is None:
            return None
        before = [self._first(previous).astype(state.dtype)] if self._joined else []
        read = mx.concatenate([state, *before], axis=-1)
        return mx.sigmoid(self._sure(read).astype(mx.float32))[:, 0]
