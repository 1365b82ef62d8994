"""Drafts with the model's own multi-token-prediction head.

The head's memory pairs token x_k with the target's hidden state of position k-1. It is made from
TRUE hidden states only: those of a round's accepted rows are read in the same pass that makes the
next round's first draft, so a draft of k tokens costs k head passes. Rows of the chain (the head
reading its own states) are forgotten after each round.
"""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import CachesSnapshot
from mlx_engine.drafting.contract import Draft, Proposal, SourceSnapshot, empty_draft
from mlx_engine.models.contract import Adapter
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftRule

FLUSH_ROWS = 64
"""Rows that may wait for the next draft before they are read without one."""


class Rows(NamedTuple):
    """Rows for the head: tokens int [T] and the hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array


class MtpSnapshot(NamedTuple):
    """Head cache and the newest hidden state, which waits for its token."""

    length: int
    caches: CachesSnapshot
    newest: mx.array | None

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return self.caches.nbytes + (0 if self.newest is None else self.newest.nbytes)


class MtpDraft:
    """A single head that chains on its own hidden states.

    min_probability: a draft ends before the first token the head finds less likely (one host sync
    a token, only when set). rule: how the head's own tokens are chosen. Both may change between
    rounds.
    """

    limit = MAX_DEPTH

    def __init__(self, adapter: Adapter, rule: DraftRule, min_probability: float) -> None:
        assert adapter.mtp_depth > 0
        self._adapter = adapter
        self._caches = adapter.make_head_caches()
        self.rule = rule
        self.min_probability = min_probability
        self._newest: mx.array | None = None
        self._waiting: list[Rows] = []
        self._is_ahead = False
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
        if sum(rows.tokens.shape[0] for rows in self._waiting) >= FLUSH_ROWS:
            self._read_waiting()

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """A chain of `wanted.depth` tokens, lazy unless min_probability is set."""
        if wanted.depth == 0 or self._newest is None:
            return empty_draft()
        states = self._read([*self._waiting, Rows(mx.array([wanted.last]), self._newest)])
        self._waiting = []
        self._is_ahead = True
        boundary = self._caches.snapshot()
        drafted: list[mx.array] = []
        state = states[:, -1:]
        while True:
            token = self._choose(state, wanted.position, drafted, sampler)
            if token is None:
                break
            drafted.append(token)
            if len(drafted) == wanted.depth:
                break
            state = self._read([Rows(token, state)])
        self._caches.restore(boundary)
        return Draft(mx.concatenate(drafted)) if drafted else empty_draft()

    def _choose(
        self, state: mx.array, position: int, drafted: list[mx.array], sampler: Sampler
    ) -> mx.array | None:
        """The next token of the chain, int32 [1]; None when it is too unlikely."""
        prefix = mx.concatenate(drafted) if drafted else empty_draft().tokens
        logits = self._adapter.mtp_logits(state)[0]
        pick = sampler.pick if self.rule == "shared-noise" else sampler.pick_greedy
        token = pick(logits, position + len(drafted), prefix)
        if self.min_probability > 0:
            likely = sampler.probability(logits, token, prefix) >= self.min_probability
            if not likely.item():
                return None
        return token

    def _read(self, rows: list[Rows]) -> mx.array:
        """Run the head over rows and remember them; its states [1, T, H]."""
        tokens = mx.concatenate([part.tokens for part in rows])
        hidden = mx.concatenate([part.hidden for part in rows], axis=1)
        states = self._adapter.mtp_forward(tokens[None], hidden, self._caches)
        self._caches.keep(tokens.shape[0])
        return states

    def _read_waiting(self) -> None:
        if self._waiting:
            self._read(self._waiting)
            self._waiting = []
            mx.async_eval(self._caches.arrays())  # type: ignore[no-untyped-call]

    def snapshot(self) -> MtpSnapshot:
        """Everything observed, read into the head's cache; not between a draft and its round."""
        assert not self._is_ahead
        self._read_waiting()
        return MtpSnapshot(self._length, self._caches.snapshot(), self._newest)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, MtpSnapshot)
        self._caches.restore(snapshot.caches)
        self._newest = snapshot.newest
        self._waiting = []
        self._is_ahead = False
        self._length = snapshot.length

    def arrays(self) -> list[mx.array]:
        """Head cache and the newest hidden state."""
        return [*self._caches.arrays(), *([] if self._newest is None else [self._newest])]
