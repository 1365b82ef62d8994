"""Drafts with a multi-token-prediction head: the model's own, or one like it.

The head's memory pairs token x_k with the target's hidden state of position k-1. It is made from
TRUE hidden states only: those of a round's accepted rows are read in the same pass that makes the
next round's first draft, so a draft of k tokens costs k head passes. Rows of the chain (the head
reading its own states) are forgotten after each round.
"""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import CachesSnapshot
from mlx_engine.drafting.chain import Picking, draft_chain
from mlx_engine.drafting.contract import Draft, Offer, Proposal, SourceSnapshot, empty_draft
from mlx_engine.drafting.draft_output import DraftOutputHead, FullOutput
from mlx_engine.models.contract import MtpHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftRule

FLUSH_ROWS = 64
"""Rows that may wait for the next draft before they are read without one."""

DEFERRED_ROWS = 2048
"""Rows kept for a head that has not drafted yet, before it gives this conversation up."""


class Rows(NamedTuple):
    """Rows for the head: tokens int [T] and the hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array


class MtpSnapshot(NamedTuple):
    """Head cache and the newest hidden state, which waits for its token."""

    length: int
    caches: CachesSnapshot
    newest: mx.array | None
    waiting: tuple[Rows, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        held = self.caches.nbytes + sum(rows.hidden.nbytes for rows in self.waiting)
        return held + (0 if self.newest is None else self.newest.nbytes)


class MtpDraft:
    """A single head that chains on its own hidden states.

    picking and output (its output head) may change between rounds. deferred: the head is not
    touched before the first draft, for which rows are kept; is_lost: they have become too many.
    by: whose drafts these are, "model" for a head that was published apart.
    """

    limit = MAX_DEPTH

    def __init__(
        self,
        head: MtpHead,
        rule: DraftRule = "shared-noise",
        min_probability: float = 0.0,
        *,
        deferred: bool = False,
        by: DraftedBy = "mtp",
    ) -> None:
        self._head = head
        self._caches = head.make_head_caches()
        self.by: DraftedBy = by
        self.picking = Picking(rule, min_probability)
        self.output: DraftOutputHead = FullOutput(head)
        self._newest: mx.array | None = None
        self._waiting: list[Rows] = []
        self._is_ahead = False
        self._is_deferred = deferred
        self.is_lost = False
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of the head's cache."""
        return self._caches.nbytes

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T] and their hidden states [1, T, H]."""
        if self._newest is None or self._is_ahead:
            # the very first token has no state before it; or the last draft has read its row
            rows = Rows(tokens[1:], hidden[:, :-1])
        else:
            rows = Rows(tokens, mx.concatenate([self._newest, hidden[:, :-1]], axis=1))
        if rows.tokens.shape[0]:
            self._waiting.append(rows)
        self._newest = hidden[:, -1:]
        self._is_ahead = False
        self._length += tokens.shape[0]
        self.output.saw(tokens)
        count = sum(rows.tokens.shape[0] for rows in self._waiting)
        if self._is_deferred:
            self._give_up(is_too_much=count > DEFERRED_ROWS)
        elif count >= FLUSH_ROWS:
            self._read_waiting()

    def _give_up(self, *, is_too_much: bool) -> None:
        if is_too_much or self.is_lost:
            self.is_lost = True
            self._waiting = []

    def offers(self, last: int) -> tuple[Offer, ...]:
        """A chain, at any place but the very first."""
        del last
        return () if self._newest is None or self.is_lost else (Offer(self.by, limit=self.limit),)

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """A chain of `wanted.depth` tokens, lazy unless min_probability is set."""
        if wanted.depth == 0 or self._newest is None or self.is_lost:
            return empty_draft()
        self._is_deferred = False
        states = self._read([*self._waiting, Rows(mx.array([wanted.last]), self._newest)])
        self._waiting = []
        self._is_ahead = True
        boundary = self._caches.snapshot()
        draft = draft_chain(self, states[:, -1:], wanted, sampler, self.picking)
        self._caches.restore(boundary)
        return draft

    def draft_logits(self, state: mx.array) -> mx.array:
        """The head's state [1, 1, H] through its output head, [1, V]."""
        return self.output.logits(state).squeeze(0)

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """One more step on the head's own state."""
        return self._read([Rows(token, state)])

    def _read(self, rows: list[Rows]) -> mx.array:
        """Run the head over rows and remember them; its states [1, T, H]."""
        tokens = mx.concatenate([part.tokens for part in rows])
        hidden = mx.concatenate([part.hidden for part in rows], axis=1)
        states = self._head.mtp_forward(tokens[None], hidden, self._caches)
        self._caches.keep(tokens.shape[0])
        return states

    def _read_waiting(self) -> None:
        if self._waiting:
            self._read(self._waiting)
            self._waiting = []
            mx.async_eval(self._caches.arrays())  # type: ignore[no-untyped-call]

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, read into the head's cache; not between a draft and its round."""
        assert not self._is_ahead
        if not self._is_deferred:
            self._read_waiting()
        caches = self._caches.snapshot()
        return MtpSnapshot(self._length, caches, self._newest, tuple(self._waiting))

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, MtpSnapshot)
        self._caches.restore(snapshot.caches)
        self._newest = snapshot.newest
        self._waiting = list(snapshot.waiting)
        self._is_ahead = False
        self._length = snapshot.length

    def arrays(self) -> list[mx.array]:
        """Head cache and the newest hidden state."""
        waiting = [rows.hidden for rows in self._waiting] if self._is_deferred else []
        newest = [] if self._newest is None else [self._newest]
        return [*self._caches.arrays(), *waiting, *newest]
