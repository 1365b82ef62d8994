"""Drafts with a set number of right tokens, for tests and benchmarks."""

from collections.abc import Iterator, Sequence

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, DraftOffer, DraftRequest
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.sampling.sampler import Sampler


class DialledDraft(NoDraft):
    """Knows the text (tokens by position) and is right for as many tokens a round as told.

    right: for each round, how many of the first drafted tokens are the true ones; the next is
    wrong for certain. Past the end of `truth`, or of `right`, every token is wrong.
    """

    def __init__(self, truth: Sequence[int], right: Iterator[int], vocabulary: int) -> None:
        super().__init__()
        self._truth = truth
        self._right = right
        self._vocabulary = vocabulary

    def draft_offers(self, newest: int, forced: int = 0) -> tuple[DraftOffer, ...]:
        """A draft, as from a small model."""
        del newest
        return (DraftOffer("model"),)

    def draft(self, wanted: DraftRequest, sampler: Sampler) -> Draft:
        """`wanted.depth` tokens, the first few of them right."""
        del sampler
        right = next(self._right, 0)
        tokens = [self._token(wanted.position + n, n < right) for n in range(wanted.depth)]
        return Draft(mx.array(tokens, dtype=mx.int32))

    def _token(self, position: int, is_right: bool) -> int:
        true = self._truth[position] if position < len(self._truth) else 0
        return true if is_right else (true + 1) % self._vocabulary
