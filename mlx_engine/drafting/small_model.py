"""Drafts with a second, smaller model that has the same tokens.

Its caches stand after true tokens only: a round's accepted tokens and the newest are read in the
pass that makes the next round's first draft, so a draft of k tokens costs k passes. Rows of the
draft are forgotten after each round.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, Pending
from mlx_engine.drafting.chain import ModelDraft, draft_chain
from mlx_engine.drafting.contract import (
    DEEPEST,
    FEW_WAITING,
    FLUSH_ROWS,
    MOST_WAITING,
    Draft,
    Offer,
    Proposal,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.steps import Step, Steps, take_one
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import CacheBits, DraftOptions


class _Before(NamedTuple):
    """Where the last draft began: in the caches, and the tokens that it has read."""

    place: CachesSnapshot
    waiting: tuple[mx.array, ...]


class _Unsettled(NamedTuple):
    """Tokens of which as many are true as the device knows, the newest included; before: the draft
    whose rows were followed by them.
    """

    tokens: mx.array
    pending: Pending
    before: _Before | None


class SmallModelDraft(ModelDraft):
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
        super().__init__(options, model.make_caches(bits))
        self._model = model
        self._vocabulary = vocabulary
        self._waiting: tuple[mx.array, ...] = ()
        self._before: _Before | None = None
        self._unsettled: _Unsettled | None = None

    @property
    def can_pend(self) -> bool:
        """As its model."""
        return self._model.joint is not None

    @property
    def _own(self) -> LayerCaches:
        return self._caches[0]

    @property
    def _unread(self) -> int:
        return self.length - self._own.length

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T]; the hidden states are of no use."""
        super().observe(tokens, hidden)
        unread = tokens if self._before is None else tokens[1:]  # which the last draft has read
        if unread.shape[0]:
            self._waiting = (*self._waiting, unread)
        self._before = None
        if self._unread >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._read_waiting()

    def offers(self, last: mx.array) -> tuple[Offer, ...]:
        """A draft, anywhere."""
        del last
        return (Offer("model", limit=DEEPEST),)

    def steps(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens."""
        if wanted.depth == 0:
            return empty_draft()
        if self._unread > FEW_WAITING:
            yield from self._read(self._waiting)
            self._waiting = ()
        self._before = _Before(self._own.place(), self._waiting)
        if self._unsettled is None:
            state = yield from self._read([*self._waiting, wanted.last])
        else:
            state = yield from self._read([self._unsettled.tokens], self._unsettled.pending)
        self._waiting = ()
        true_tokens = self._own.place()
        draft = yield from draft_chain(self, state, wanted, sampler)
        self._own.restore(true_tokens)
        return draft

    def withdraw(self) -> None:
        """Let the tokens wait that the last draft has read, without the newest."""
        if self._before is not None:
            self._own.restore(self._before.place)
            self._waiting, self._before = self._before.waiting, None

    def pend(self, picked: mx.array, hidden: mx.array, pending: Pending) -> None:
        """After the last draft, which leaves nothing unread but what was picked."""
        del hidden
        self._unsettled, self._before = _Unsettled(picked, pending, self._before), None

    def settle(self, rows: int) -> None:
        """They were so many."""
        assert self._unsettled is not None
        tokens, self._unsettled = self._unsettled.tokens, None
        read = (tokens[: rows - 1],) if rows > 1 else ()
        self.length += rows
        if self._before is None:
            self._waiting = read
        else:
            self._own.settle(rows)
            self._before = self._before._replace(waiting=read)

    def recall(self) -> None:
        """Stand after the draft whose rows were verified."""
        assert self._unsettled is not None
        self.withdraw()
        self._before, self._unsettled = self._unsettled.before, None

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
        return self._read([token])

    def _read(self, parts: Sequence[mx.array], pending: Pending | None = None) -> Steps[mx.array]:
        """Read tokens and remember them, or so many; the state after the newest [1, 1, H]."""
        tokens = mx.concatenate(list(parts))
        known = mx.minimum(tokens, self._model.vocabulary - 1)
        model = self._model
        hidden = yield Step((known[None],), model.forward, model.joint, self._own)
        if pending is not None:
            self._own.pend(pending)
            return mx.take(hidden, pending.after(-1), axis=1)
        self._own.keep(tokens.shape[0])
        return hidden[:, -1:]

    def _read_waiting(self) -> None:
        if self._waiting:
            take_one(self._read(self._waiting))
            self._waiting = ()
            mx.async_eval(self._own.arrays())  # type: ignore[no-untyped-call]

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, read into the caches."""
        assert self._before is None
        self._read_waiting()
        return super().snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._waiting, self._before = (), None
