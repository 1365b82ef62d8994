"""A copy of earlier text where the match is long, a model's draft otherwise."""

from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.drafting.chain import Picking
from mlx_engine.drafting.contract import (
    Draft,
    DraftSource,
    Offer,
    Proposal,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.prompt_lookup_draft import PromptLookupDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftedBy


class ModelSource(DraftSource, Protocol):
    """A source that picks its tokens with a model."""

    picking: Picking


class CombinedSnapshot(NamedTuple):
    """Both memories at one boundary."""

    length: int
    lookup: SourceSnapshot
    model: SourceSnapshot

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return self.lookup.nbytes + self.model.nbytes


class CombinedDraft:
    """Both sources observe every token, whichever of them drafts."""

    def __init__(self, model: ModelSource) -> None:
        self.lookup = PromptLookupDraft()
        self.model = model
        self._first: DraftedBy | None = None

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self.model.length

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.lookup.nbytes + self.model.nbytes

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Tell both."""
        self.lookup.observe(tokens, hidden)
        self.model.observe(tokens, hidden)

    def offers(self, last: int) -> tuple[Offer, ...]:
        """The copy first where its match is long, else last."""
        copies, models = self.lookup.offers(last), self.model.offers(last)
        is_long = any(copy.is_long for copy in copies)
        both = (*copies, *models) if is_long else (*models, *copies)
        self._first = both[0].by if both else None
        return both

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """By whose offer was taken, or was the first."""
        by = wanted.by or self._first
        if by is None:
            return empty_draft()
        source = self.lookup if by == "prompt-lookup" else self.model
        return source.propose(wanted, sampler)

    def snapshot(self) -> CombinedSnapshot:
        """Both memories."""
        return CombinedSnapshot(self.length, self.lookup.snapshot(), self.model.snapshot())

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Both back to a boundary."""
        assert isinstance(snapshot, CombinedSnapshot)
        self.lookup.restore(snapshot.lookup)
        self.model.restore(snapshot.model)

    def arrays(self) -> list[mx.array]:
        """Of both."""
        return [*self.lookup.arrays(), *self.model.arrays()]
