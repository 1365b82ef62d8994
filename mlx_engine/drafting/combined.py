"""A copy of earlier text where the match is long, a model's draft otherwise."""

import mlx.core as mx

from mlx_engine.drafting.contract import (
    Draft,
    DraftSource,
    Offer,
    Proposal,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.prompt_lookup import PromptLookupDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput


class CombinedDraft(DraftSource):
    """Both sources observe every token, whichever of them drafts; model: one with a model."""

    def __init__(self, model: DraftSource) -> None:
        super().__init__(model.options)
        self.lookup = PromptLookupDraft(model.options)
        self.model = model
        self.reads_hidden = model.reads_hidden
        self.target = model.target
        self._first: DraftedBy | None = None

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self.model.length

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.lookup.nbytes + self.model.nbytes

    @property
    def is_lost(self) -> bool:
        """Whether the model is."""
        return self.model.is_lost

    @property
    def output(self) -> DraftOutput | None:
        """Of the model."""
        return self.model.output

    def prepare(self) -> None:
        """Bring the model into memory. Raises EngineError."""
        self.model.prepare()

    def follow(self, options: DraftOptions) -> None:
        """What the model takes over."""
        self.model.follow(options)

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

    def snapshot(self) -> SourceSnapshot:
        """That of the model; of the text its length is enough."""
        return self.model.snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Both back to a snapshot."""
        self.lookup.restore(snapshot)
        self.model.restore(snapshot)

    def arrays(self) -> list[mx.array]:
        """Of both."""
        return [*self.lookup.arrays(), *self.model.arrays()]
