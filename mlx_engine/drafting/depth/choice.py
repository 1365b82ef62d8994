"""Who drafts next, and how deep: from what is on offer, what rounds cost and what was accepted."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil
from operator import mul
from typing import Literal, NamedTuple

from mlx_engine.drafting.contract import Offer
from mlx_engine.drafting.depth.costs import PassCosts, RoundCosts
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import MAX_DEPTH, DraftedBy

WORTH_IT = 1.02
"""Drafting must promise this much more than plain decoding: measurements are not exact."""

PROBE_LOSS = 0.01
"""Share of the time a parked chat may spend on drafts that fail."""

PROBE_EVERY = 16
"""Plain rounds between two such drafts, at least."""

PROBE_AT_LAST = 256
"""The same where no draft seems to pay: costs may have been measured in a bad moment."""

MEMORY = 0.95
"""Weight of the past in the running acceptance: about the last 20 rounds that reached a depth."""

FADING = 0.99
"""The same for depths a round did not reach: what is known of them grows old more slowly."""

FIRST_GUESS = 0.9
"""Acceptance assumed before anything was drafted: trying costs little, and tells."""

FIRST_WEIGHT = 4.0
"""Rounds the first guess is worth, so that one unlucky draft does not park a chat."""

DEEPER_WEIGHT = 2.0
"""Rounds that the guess is worth that a depth is as good as the one before it."""

MEASURING = Reason(
    "measuring-plain", "One round without a draft, to see what drafting gains in this chat."
)


class Acceptance:
    """Running chance that a draft's d-th token is accepted, given that those before it were.

    A depth that has hardly been tried, or not for long, is taken to be as good as the one before.
    is_measured: whether any draft has been seen; before that all of it is a guess.
    """

    def __init__(self) -> None:
        unknown = [0.0] * (MAX_DEPTH - 1)
        self._accepted = [FIRST_GUESS * FIRST_WEIGHT, *unknown]
        self._tried = [FIRST_WEIGHT, *unknown]
        self.is_measured = False

    def add(self, drafted: int, accepted: int) -> None:
        """A round reached depth d when the d - 1 tokens before it were accepted."""
        self.is_measured = True
        reached = min(drafted, accepted + 1)
        for depth in range(MAX_DEPTH):
            weight = MEMORY if depth < reached else FADING
            self._accepted[depth] = weight * self._accepted[depth] + (depth < accepted)
            self._tried[depth] = weight * self._tried[depth] + (depth < reached)

    def by_depth(self) -> list[float]:
        """[d-1] -> conditional acceptance of the d-th token."""
        chances = [self._accepted[0] / self._tried[0]]
        for accepted, tried in zip(self._accepted[1:], self._tried[1:], strict=True):
            chances.append((accepted + DEEPER_WEIGHT * chances[-1]) / (tried + DEEPER_WEIGHT))
        return chances

    def expected(self) -> list[float]:
        """[k] -> tokens a round of depth k emits on average: 1 + a1 + a1*a2 + ..."""
        return list(accumulate(accumulate(self.by_depth(), mul), initial=1.0))


class Choice(NamedTuple):
    """A depth, and why it is less than what was asked for.

    auto: what would pay, when the depth is pinned. by: who is to draft, None for whoever offers.
    """

    depth: int
    why: Reason | None
    auto: int | None = None
    by: DraftedBy | None = None


class AdaptiveDepth:
    """The depth with the best expected tokens per second; 0 when drafting does not pay.

    Speculative decoding's usual trade (Leviathan et al. 2023, section 3.3) with measured costs.
    """

    def __init__(self, costs: PassCosts, limit: int) -> None:
        self._costs = RoundCosts(costs)
        self._limit = min(limit, self._costs.deepest)
        self.acceptance = Acceptance()
        self._rest = self._probe_interval()

    def recost(self, costs: PassCosts) -> None:
        """Begin the costs anew; what is known of acceptance stays."""
        self._costs = RoundCosts(costs)

    def gains(self, chance: float | None = None, limit: int = MAX_DEPTH) -> list[float]:
        """[k] -> expected tokens per second at depth k over those of plain decoding.

        chance: that a token is accepted, where the source knows better than past rounds. limit: the
        deepest draft to be had.
        """
        if chance is None:
            return self._gains(self.acceptance.expected())[: limit + 1]
        tokens = [sum(chance**n for n in range(k + 1)) for k in range(MAX_DEPTH + 1)]
        return self._gains(tokens)[: limit + 1]

    def best(self, chance: float | None = None, limit: int = MAX_DEPTH) -> int:
        """The depth that pays most by what is known now; 0 when none does."""
        gains = self.gains(chance, limit)
        best = gains.index(max(gains))
        return best if gains[best] >= WORTH_IT else 0

    def next(self, chance: float | None = None, limit: int = MAX_DEPTH) -> Choice:
        """The best depth now, or a round to learn from; a known chance needs no probing."""
        best = self.best(chance, limit)
        if best > 0:
            return Choice(0, MEASURING) if self._costs.wants_plain else Choice(best, None)
        if chance is not None:
            return Choice(0, self._why_parked())
        if self._rest == 0 and self._limit > 0:
            return Choice(1, None)
        self._rest = max(0, self._rest - 1)
        return Choice(0, self._why_parked())

    def learn(self, drafted: int, accepted: int) -> None:
        """Remember what was accepted; a parked chat goes on trying until nothing is."""
        self.acceptance.add(drafted, accepted)
        if accepted == 0:
            self._rest = self._probe_interval()

    def took(self, drafted: int, milliseconds: float) -> None:
        """Correct the costs; after a draft that paid nothing the chat rests."""
        self._costs.add(min(drafted, self._costs.deepest), milliseconds)
        if drafted and self._rest == 0 and not self._can_pay():
            self._rest = self._probe_interval()

    def _can_pay(self) -> bool:
        """Whether drafts that are always accepted would pay."""
        return max(self._gains(range(1, MAX_DEPTH + 2))) >= WORTH_IT

    def _probe_interval(self) -> int:
        """Plain rounds after a failed draft, for it to cost no more than PROBE_LOSS."""
        if self._limit == 0:
            return PROBE_EVERY
        lost = self._costs.at(1) / self._costs.at(0) - 1
        rarely = PROBE_EVERY if self._can_pay() else PROBE_AT_LAST
        return max(rarely, ceil(lost / PROBE_LOSS))

    def _gains(self, tokens: Sequence[float]) -> list[float]:
        plain = self._costs.at(0)
        return [tokens[k] * plain / self._costs.at(k) for k in range(self._limit + 1)]

    def _why_parked(self) -> Reason:
        if self._limit == 0:
            return Reason("no-source", "Drafting parked: nothing can draft in this chat.")
        ratio = self._costs.at(1) / self._costs.at(0)
        cost = f"a round with one drafted token costs {ratio:.2f} of a plain one here"
        if not self._can_pay():
            return Reason("parked-cost", f"Drafting parked: {cost}, so no draft can pay.")
        share = f"{100 * self.acceptance.by_depth()[0]:.0f} %"
        verb = "are" if self.acceptance.is_measured else "are expected to be"
        return Reason(
            "parked-acceptance",
            f"Drafting parked: {share} of first drafts {verb} accepted, and {cost}.",
        )


class Learned:
    """An adaptive depth for each source, kept for as long as its texts are alike.

    costs: of passes on this machine. small_share: what a pass of the small model costs, as a share
    of one of the target; bytes tell it well enough until rounds were run.
    """

    def __init__(self, costs: Callable[[], PassCosts], small_share: float = 0.0) -> None:
        self._costs = costs
        self._small_share = small_share
        self._used: PassCosts | None = None
        self._depths: dict[DraftedBy, AdaptiveDepth] = {}

    def prepare(self) -> None:
        """Measure, if need be; costs measured since the last answer replace presumed ones."""
        costs = self._costs()
        if costs != self._used:
            self._used = costs
            for by, depth in self._depths.items():
                depth.recost(self._of_source(costs, by))

    def of(self, by: DraftedBy) -> AdaptiveDepth:
        """What is known of a source."""
        if self._used is None:
            self.prepare()
        assert self._used is not None
        if by not in self._depths:
            self._depths[by] = AdaptiveDepth(self._of_source(self._used, by), MAX_DEPTH)
        return self._depths[by]

    def took_plain(self, milliseconds: float) -> None:
        """A plain round costs the same whoever might have drafted."""
        for depth in self._depths.values():
            depth.took(0, milliseconds)

    def _of_source(self, costs: PassCosts, by: DraftedBy) -> PassCosts:
        if by == "mtp":
            return costs
        share = self._small_share if by == "model" else 0.0
        return PassCosts(costs.verify_ms, share * costs.verify_ms[0])


class RoundPlan:
    """Chooses the depth of one round, and learns from it.

    depth: the user's, "auto" for what pays most. nothing: why there is no offer.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        learned: Learned,
        depth: int | Literal["auto"],
        nothing: Reason | None,
    ) -> None:
        self._offers = offers
        self._learned = learned
        self._depth = depth
        self._nothing = nothing
        self._by: DraftedBy | None = None

    def next(self) -> Choice:
        """A depth: of a copy of a long piece if it pays, else of what promises most."""
        if not self._offers:
            return Choice(0, self._nothing)
        offer = self._offers[0]
        if self._depth == "auto" and not (offer.is_long and self._best(offer)):
            offer = max(self._offers, key=self._gain)
        self._by = offer.by
        adaptive = self._learned.of(offer.by)
        if self._depth == "auto":
            return adaptive.next(offer.chance, offer.limit)._replace(by=offer.by)
        depth = min(self._depth, offer.limit)
        why = _too_deep(offer.limit) if depth < self._depth else None
        return Choice(depth, why, self._best(offer), offer.by)

    def learn(self, drafted: int, accepted: int) -> None:
        """What became of the draft, for the source that drafted."""
        if self._by is not None:
            self._learned.of(self._by).learn(drafted, accepted)

    def took(self, drafted: int, milliseconds: float) -> None:
        """What the round cost, for the source that drafted; a plain round for all."""
        if drafted and self._by is not None:
            self._learned.of(self._by).took(drafted, milliseconds)
        else:
            self._learned.took_plain(milliseconds)

    def _best(self, offer: Offer) -> int:
        return self._learned.of(offer.by).best(offer.chance, offer.limit)

    def _gain(self, offer: Offer) -> float:
        return max(self._learned.of(offer.by).gains(offer.chance, offer.limit))


def _too_deep(limit: int) -> Reason:
    tokens = "1 token" if limit == 1 else f"{limit} tokens"
    return Reason("source-limit", f"{tokens} at a time is the most that can be drafted here.")
