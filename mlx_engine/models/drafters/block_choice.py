"""Scores of tokens along a drafted block: DFlash 2's candidate selector, DSpark's Markov head.

A block's rows know nothing of one another's tokens. These add to a row's logits what the token
before it says, so the tokens are picked one after the other, without another pass. LiLiCorr's are
in lattice_choice.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import mlx.core as mx
from typing_extensions import override

from mlx_engine.models.layer_specs import Shapes
from mlx_engine.models.layers import Embedding, Linear
from mlx_engine.models.weights import Part

RowScores = Callable[[int, mx.array], mx.array]
"""A row of a block and the token before it, int [1] -> scores of the row's tokens, [1, V]."""


class BlockChoice(ABC):
    """Scores of a block's rows, each given the token before it.

    reads_whole_block: whether they depend on all rows, and on what the target yielded last.
    """

    reads_whole_block = False

    @abstractmethod
    def score_block(self, logits: mx.array, states: mx.array, anchor: mx.array | None) -> RowScores:
        """Logits [R, V] and states [R, H] of a block's rows -> a function that scores a row.

        anchor: the target's newest joined features [1, 1, H], None where they are not known.
        """

    def confidence(self, state: mx.array, previous: mx.array) -> mx.array | None:
        """Probability [1] that a row's token is accepted; None where the model has no head for it.

        state: of the row, [1, H]. previous: the token before, int [1].
        """
        del state, previous
        return None


class IndependentRows(BlockChoice):
    """The first DFlash's choice: scores of a row are its logits, and no earlier token counts."""

    @override
    def score_block(self, logits: mx.array, states: mx.array, anchor: mx.array | None) -> RowScores:
        del states, anchor
        return lambda row, _: logits[row : row + 1]


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
    def score_block(self, logits: mx.array, states: mx.array, anchor: mx.array | None) -> RowScores:
        del anchor
        best = mx.argpartition(logits, -self._candidates, axis=-1)[:, -self._candidates :]
        found, after = mx.take_along_axis(logits, best, axis=-1), self._after(best)
        projected = self._project(states)

        def score_row(row: int, previous: mx.array) -> mx.array:
            pair = (self._before(previous) * projected[row]).astype(mx.float32)
            scores = found[row : row + 1] + (pair * after[row]).sum(axis=-1)
            unlikely = mx.full((1, logits.shape[-1]), -mx.inf)
            return mx.put_along_axis(unlikely, best[row : row + 1], scores, axis=-1)

        return score_row


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
    def score_block(self, logits: mx.array, states: mx.array, anchor: mx.array | None) -> RowScores:
        del states, anchor

        def score_row(row: int, previous: mx.array) -> mx.array:
            pairs = self._second(self._first(previous)).astype(mx.float32)
            return logits[row : row + 1] + pairs

        return score_row

    @override
    def confidence(self, state: mx.array, previous: mx.array) -> mx.array | None:
        if self._sure is None:
            return None
        before = [self._first(previous).astype(state.dtype)] if self._joined else []
        read = mx.concatenate([state, *before], axis=-1)
        return mx.sigmoid(self._sure(read).astype(mx.float32))[:, 0]
