"""Proposes nothing: plain decoding."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, Offer, Proposal, SourceSnapshot, empty_draft
from mlx_engine.sampling.sampler import Sampler


class LengthSnapshot(NamedTuple):
    """For sources whose memory is the number of tokens."""

    length: int
    nbytes: int = 0


class NoDraft:
    """Counts tokens and holds nothing."""

    nbytes = 0

    def __init__(self, length: int = 0) -> None:
        self._length = length

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self._length

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Count; the hidden states are of no use."""
        del hidden
        self._length += tokens.shape[0]

    def offers(self, last: int) -> tuple[Offer, ...]:
        """Nothing."""
        del last
        return ()

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Nothing."""
        del wanted, sampler
        return empty_draft()

    def snapshot(self) -> LengthSnapshot:
        """The count."""
        return LengthSnapshot(self._length)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Back to a count."""
        self._length = snapshot.length

    def arrays(self) -> list[mx.array]:
        """None."""
        return []
