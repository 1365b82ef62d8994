"""Drafts with a second, smaller model that has the same tokens.

Its caches stand after true tokens only: a round's accepted tokens and the newest are read in the
pass that makes the next round's first draft, so a draft of k tokens costs k passes. Rows of the
draft are forgotten after each round.
"""

from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import JointCaches
from mlx_engine.drafting.chain import draft_chain
from mlx_engine.drafting.contract import (
    DEEPEST,
    FEW_WAITING,
    FLUSH_ROWS,
    MOST_WAITING,
    Draft,
    Offer,
    Proposal,
    Rows,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.head_memory import HeadMemory, MemoryDraft
from mlx_engine.drafting.steps import Step, Steps, take_one
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import CacheBits, DraftOptions


@dataclass(frozen=True, slots=True)
class _Forward:
    """A whole model in the place of a head: the target's hidden states are of no use to it."""

    model: Model

    def __call__(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """Tokens [1, T] -> its states; those of the target that it lacks are others to it."""
        del hidden
        known = mx.minimum(tokens, self.model.vocabulary - 1)
        if isinstance(caches, LayerCaches):
            return self.model.forward(known, caches)
        assert self.model.joint is not None
        return self.model.joint(known, caches)


class SmallModelDraft(MemoryDraft):
    """Goes on from the small model's own tokens.

    vocabulary: rows of the target's logits; the small model may have more or fewer unused ones.
    bits: of its keys and values. UnsupportedModel for a small model that cannot take back what the
    target rejects.
    """

    def __init__(
        self, model: Model, vocabulary: int, options: DraftOptions, bits: CacheBits = 16
    ) -> None:
        if model.plain_only is not None:
            raise UnsupportedModel(
                "This draft model cannot draft: some of its layers keep a block of tokens whole or "
                "not at all, and the target rejects parts of blocks. Give another draft model."
            )
        can_join = model.joint is not None
        self._memory = HeadMemory(_Forward(model), model.make_caches(bits), can_join=can_join)
        super().__init__(options, [self._memory])
        self._model = model
        self._vocabulary = vocabulary

    @property
    def can_pend(self) -> bool:
        """As its model."""
        return self._model.joint is not None

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T]; the hidden states are of no use."""
        super().observe(tokens, hidden)
        unread = tokens[1:] if self._before else tokens  # the first the last draft has read
        if unread.shape[0]:
            self._memory.wait(_rows(unread))
        self._before = []
        if self._memory.unread >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._read_waiting()

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, anywhere."""
        del newest
        return (Offer("model", limit=DEEPEST),)

    def steps(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens."""
        if wanted.depth == 0:
            return empty_draft()
        memory = self._memory
        if memory.unread > FEW_WAITING:
            yield from memory.read()
        self._before = [memory.place()]
        if self._unsettled is None:
            memory.wait(_rows(wanted.last))
        states = yield from memory.read()
        true_tokens = memory.caches.place()
        draft = yield from draft_chain(self, states[:, -1:], wanted, sampler)
        memory.caches.restore(true_tokens)
        return draft

    def pend(self, picked: mx.array, hidden: mx.array, pending: RowCount) -> None:
        """After the last draft, which leaves nothing unread but what was picked."""
        del hidden
        super().pend(picked, _rows(picked).hidden, pending)

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """Logits [1, V] of the target's vocabulary; what the small model lacks is -inf."""
        found = yield Step((state,), self._model.logits, self._model.logits)
        logits = found.squeeze(0)
        missing = self._vocabulary - logits.shape[1]
        if missing <= 0:
            return logits[:, : self._vocabulary]
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)

    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """The state after one more token."""
        del state
        self._memory.wait_only([_rows(token)])
        return self._memory.read()

    def _read_waiting(self) -> None:
        if self._memory.unread:
            take_one(self._memory.read())
            mx.async_eval(self._memory.caches.arrays())  # type: ignore[no-untyped-call]

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, read into the caches."""
        assert not self._before
        self._read_waiting()
        return super().snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._memory.wait_only([])
        self._before = []


def _rows(tokens: mx.array) -> Rows:
    """Without hidden states."""
    return Rows(tokens, mx.zeros((1, tokens.shape[0], 0)))
