"""Who drafts next, and how deep: from what is on offer and what each source has shown so far."""

from collections.abc import Callable, Sequence
from typing import Literal

from mlx_engine.drafting.contract import Offer
from mlx_engine.drafting.draft_length import Choice, PayingLength
from mlx_engine.drafting.round_costs import PassCosts
from mlx_engine.values.options import MAX_DEPTH, DraftedBy
from mlx_engine.values.reason import Reason


class Learned:
    """A paying length for each source, kept for as long as its texts are alike.

    costs: of passes on this machine. small_share: what a pass of the small model costs, as a share
    of one of the target; bytes tell it well enough until rounds are played.
    """

    def __init__(self, costs: Callable[[], PassCosts], small_share: float = 0.0) -> None:
        self._costs = costs
        self._small_share = small_share
        self._used: PassCosts | None = None
        self._lengths: dict[DraftedBy, PayingLength] = {}

    def prepare(self) -> None:
        """Measure, if need be; costs measured since the last answer replace presumed ones."""
        costs = self._costs()
        if costs != self._used:
            self._used = costs
            for by, length in self._lengths.items():
                length.recost(self._of_source(costs, by))

    def of(self, by: DraftedBy) -> PayingLength:
        """What is known of a source."""
        if self._used is None:
            self.prepare()
        assert self._used is not None
        if by not in self._lengths:
            self._lengths[by] = PayingLength(self._of_source(self._used, by), MAX_DEPTH)
        return self._lengths[by]

    def played_plain(self, milliseconds: float) -> None:
        """A plain round costs the same whoever might have drafted."""
        for length in self._lengths.values():
            length.took(0, milliseconds)

    def _of_source(self, costs: PassCosts, by: DraftedBy) -> PassCosts:
        if by == "mtp":
            return costs
        share = self._small_share if by == "model" else 0.0
        return PassCosts(costs.verify_ms, share * costs.verify_ms[0])


class RoundPlan:
    """The DraftLength of one round: `depth` is the user's, "auto" for what pays most.

    nothing: why there may be no offer.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        learned: Learned,
        depth: int | Literal["auto"],
        nothing: Reason,
    ) -> None:
        self._offers = offers
        self._learned = learned
        self._depth = depth
        self._nothing = nothing
        self._by: DraftedBy | None = None

    def next(self) -> Choice:
        """A copy of a long piece if it pays, else the offer that promises most."""
        if not self._offers:
            return Choice(0, self._nothing)
        offer = self._offers[0]
        if self._depth == "auto" and not (offer.is_long and self._best(offer)):
            offer = max(self._offers, key=self._gain)
        self._by = offer.by
        length = self._learned.of(offer.by)
        if self._depth == "auto":
            return length.next(offer.chance, offer.limit)._replace(by=offer.by)
        depth = min(self._depth, offer.limit)
        why = _too_deep(offer.limit) if depth < self._depth else None
        return Choice(depth, why, self._best(offer), offer.by)

    def learn(self, drafted: int, accepted: int) -> None:
        """For the source that drafted."""
        if self._by is not None:
            self._learned.of(self._by).learn(drafted, accepted)

    def took(self, drafted: int, milliseconds: float) -> None:
        """For the source that drafted; a plain round for all."""
        if drafted and self._by is not None:
            self._learned.of(self._by).took(drafted, milliseconds)
        else:
            self._learned.played_plain(milliseconds)

    def _best(self, offer: Offer) -> int:
        return self._learned.of(offer.by).best(offer.chance, offer.limit)

    def _gain(self, offer: Offer) -> float:
        return max(self._learned.of(offer.by).gains(offer.chance, offer.limit))


def _too_deep(limit: int) -> Reason:
    tokens = "1 token" if limit == 1 else f"{limit} tokens"
    return Reason("source-limit", f"{tokens} at a time is the most that can be drafted here.")
