"""Drafts with DFlash: all tokens of a draft in one pass over a block of masks."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import CachesSnapshot
from mlx_engine.drafting.chain import Picking, draft_chain
from mlx_engine.drafting.contract import Draft, Offer, Proposal, SourceSnapshot, empty_draft
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftRule

FLUSH_ROWS = 64
"""Tokens that may wait for the next draft before what they mean is computed without one."""


class BlockSnapshot(NamedTuple):
    """What each layer remembers at a boundary."""

    caches: CachesSnapshot

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self.caches.length

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return self.caches.nbytes


class BlockDraft:
    """A block for every draft; picking may change between rounds."""

    def __init__(
        self, drafter: DFlash, rule: DraftRule = "shared-noise", min_probability: float = 0.0
    ) -> None:
        self._drafter = drafter
        self._caches = drafter.make_caches()
        self._waiting: list[mx.array] = []
        self.limit = min(MAX_DEPTH, drafter.most)
        self.picking = Picking(rule, min_probability)

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self._caches.length + self._unread

    @property
    def _unread(self) -> int:
        return sum(features.shape[1] for features in self._waiting)

    @property
    def nbytes(self) -> int:
        """Bytes of what the layers remember."""
        return self._caches.nbytes

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T]; hidden [1, T, H and features]."""
        del tokens
        self._waiting.append(self._drafter.target.features(hidden))
        if self._unread >= FLUSH_ROWS:
            self._read_waiting()
            mx.async_eval(self._caches.arrays())  # type: ignore[no-untyped-call]

    def offers(self, last: int) -> tuple[Offer, ...]:
        """A block, at any place but the very first."""
        del last
        return (Offer("model", limit=self.limit),) if self.length else ()

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """`wanted.depth` tokens of one block, lazy unless min_probability is set."""
        if wanted.depth == 0 or not self.length:
            return empty_draft()
        self._read_waiting()
        states = self._drafter.block(mx.array([wanted.last]), self._caches)
        few = wanted._replace(depth=min(wanted.depth, self.limit))
        draft = draft_chain(self, states, few, sampler, self.picking)
        return draft._replace(passes=1)

    def draft_logits(self, state: mx.array) -> mx.array:
        """Of the first of the states [1, rows left, H], [1, V]."""
        return self._drafter.logits(state[:, :1]).squeeze(0)

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """The states left; what was drafted does not change them."""
        del token
        return state[:, 1:]

    def _read_waiting(self) -> None:
        if self._waiting:
            self._drafter.remember(mx.concatenate(self._waiting, axis=1), self._caches)
            self._waiting = []

    def snapshot(self) -> BlockSnapshot:
        """Everything observed, read into the caches."""
        self._read_waiting()
        return BlockSnapshot(self._caches.snapshot())

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, BlockSnapshot)
        self._caches.restore(snapshot.caches)
        self._waiting = []

    def arrays(self) -> list[mx.array]:
        """What is remembered, and what waits."""
        return [*self._caches.arrays(), *self._waiting]
