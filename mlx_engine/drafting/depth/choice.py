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

LOSS = 0.01
"""Share of the time that drafts may lose which are made to find out whether they pay."""

AT_FIRST = 2.5
"""Tokens' worth of plain decoding that may be lost to begin with."""

MOST_SAVED = 12.0
"""The same at most, however long nothing was tried, or however much drafting has gained."""

MOST_OWED = 4.0
"""What of drafting's losses is remembered at most: it would take long to save it up again."""

DOUBT = 0.05
"""How much more drafting must promise for each token that it owes: what promised falsely before may
again.
"""

PROBE_EVERY = 16
"""Plain rounds between two drafts of a parked chat, at least."""

PROBE_AT_LAST = 256
"""The same where no draft seems to pay, by costs that may have been measured in a bad moment."""

PROOFS = 3
"""Rounds with a draft after which it is certain that none can pay."""

MEMORY = 0.92
"""Weight of the past in the running acceptance: about the last 12 rounds that reached a depth."""

FADING = 0.99
"""The same for depths a round did not reach: what is known of them grows old more slowly."""

LONG_REST = 8
"""Plain rounds after which a draft costs more than drafts do: the source reads their rows first."""

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


class Purse:
    """What drafting may still lose, in tokens of plain decoding.

    A share of all time goes into it, and all that drafting gains; what it loses is paid from it.
    So an answer never takes much more than LOSS longer than with drafting off, however wrong what
    is believed of drafts may be.
    """

    def __init__(self) -> None:
        self.left = AT_FIRST

    def ran(self, cost: float, tokens: int) -> None:
        """A round took as long as `cost` plain ones, for so many tokens."""
        gained = tokens - cost if tokens > 1 or cost > 1 else 0.0
        self.left = min(MOST_SAVED, max(-MOST_OWED, self.left + LOSS * cost + gained))

    def refill(self) -> None:
        """As much as there was to begin with."""
        self.left = max(self.left, AT_FIRST)


class AdaptiveDepth:
    """The depth with the best expected tokens per second; 0 when drafting does not pay.

    Speculative decoding's usual trade (Leviathan et al. 2023, section 3.3) with measured costs.
    What was run is known; what is only assumed, of drafts deeper than any so far or before the
    first, is tried as far as the purse can pay for it.
    """

    def __init__(self, costs: PassCosts, limit: int) -> None:
        self._costs = RoundCosts(costs)
        self._limit = min(limit, self._costs.deepest)
        self._purse = Purse()
        self.acceptance = Acceptance()
        self._rest = _rest_after(self._costs.at(min(1, self._limit)) / self._costs.at(0), 0)
        self._rested = 0
        self._parked: Choice | None = None
        self._settle()

    def recost(self, costs: PassCosts) -> None:
        """Passes were measured; what is known of rounds and of acceptance stays."""
        self._costs.measured(costs)
        if not self._pays_at_best():
            self._costs.forget_drafts()  # they may have been run in a bad moment
        self._settle()

    def begin_text(self) -> None:
        """Another text may be easier to draft: try again, if the purse can pay for it."""
        if self._can_pay and self._may_lose(1):
            self._rest = 0

    def asked_anew(self, *, otherwise: bool) -> None:
        """The user has changed how it drafts, or only how deep: try again, whatever was lost."""
        self._purse.refill()
        self._rest = 0
        self._parked = None
        if otherwise:
            self._costs.forget_drafts()
            self._can_pay = True

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
        return _best(self.gains(chance, limit))

    def next(self, chance: float | None = None, limit: int = MAX_DEPTH) -> Choice:
        """The best depth now, or a round to learn from; a known chance needs no probing."""
        if self._parked is not None and self._rest > 0 and chance is None:
            self._rest -= 1
            return self._parked
        gains = self.gains(chance, limit)
        possible = [gain if self._may(depth) else 0.0 for depth, gain in enumerate(gains)]
        best = _best(possible, WORTH_IT + DOUBT * max(0.0, -self._purse.left))
        if best > 0:
            wants_plain = self._costs.wants_plain(gains[best])
            return Choice(0, MEASURING) if wants_plain else Choice(best, None)
        if chance is not None:
            return Choice(0, self._why_parked())
        if self._rest == 0 and (self._can_pay or self._costs.drafts_run < PROOFS):
            return Choice(1, None)
        self._rest = max(0, self._rest - 1)
        self._parked = Choice(0, self._why_parked())
        return self._parked

    def learn(self, drafted: int, accepted: int, milliseconds: float) -> None:
        """A round was run; a parked chat rests after a draft that lost something."""
        if drafted == 0:
            self._costs.add(0, milliseconds)
            self._purse.ran(1.0, 1)
            self._rested += 1
            return
        depth = min(drafted, self._costs.deepest)
        cost = milliseconds / self._costs.at(0)
        self._purse.ran(cost, accepted + 1)
        self.acceptance.add(drafted, accepted)
        was_rested, self._rested = self._rested >= LONG_REST, 0
        if not was_rested or depth > self._costs.deepest_run:
            self._costs.add(depth, milliseconds)  # else the source had much to read first
        usual = cost if was_rested else self._costs.at(1) / self._costs.at(0)
        self._rest = _rest_after(usual, accepted)
        self._settle()

    def why_never(self) -> Reason | None:
        """Why not even drafts that are always accepted would pay; None where they do."""
        return None if self._can_pay else self._why_parked()

    def _settle(self) -> None:
        """Whether a parked chat goes on trying."""
        self._parked = None
        self._can_pay = self._pays_at_best()
        if not self._can_pay:
            self._rest = max(self._rest, PROBE_AT_LAST)

    def _pays_at_best(self) -> bool:
        """Whether drafts that are always accepted would pay."""
        return self._limit > 0 and max(self._gains(range(1, MAX_DEPTH + 2))) >= WORTH_IT

    def _may(self, depth: int) -> bool:
        """Whether it is known what such drafts do, or can be found out."""
        return depth <= self._costs.deepest_run or self._may_lose(depth)

    def _may_lose(self, depth: int) -> bool:
        return self._costs.at(depth) / self._costs.at(0) - 1 <= self._purse.left

    def _gains(self, tokens: Sequence[float]) -> list[float]:
        plain = self._costs.at(0)
        return [tokens[k] * plain / self._costs.at(k) for k in range(self._limit + 1)]

    def _why_parked(self) -> Reason:
        if self._limit == 0:
            return Reason("no-source", "Drafting parked: nothing can draft in this chat.")
        ratio = self._costs.at(1) / self._costs.at(0)
        cost = f"a round with one drafted token costs {ratio:.2f} of a plain one here"
        if not self._can_pay:
            words = f"Drafting parked: {cost}, so no draft can pay and the source reads nothing."
            return Reason("parked-cost", words)
        share = f"{100 * self.acceptance.by_depth()[0]:.0f} %"
        verb = "are" if self.acceptance.is_measured else "are expected to be"
        return Reason(
            "parked-acceptance",
            f"Drafting parked: {share} of first drafts {verb} accepted, and {cost}.",
        )


def _rest_after(cost: float, accepted: int) -> int:
    """Plain rounds after such a draft, for it to lose no more than LOSS of the time."""
    lost = max(0.0, cost - accepted - 1)
    return max(0 if accepted else PROBE_EVERY, ceil(lost / LOSS))


def _best(gains: Sequence[float], worth: float = WORTH_IT) -> int:
    """The index of the largest, 0 where none is worth it."""
    best = gains.index(max(gains))
    return best if gains[best] >= worth else 0


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

    def begin_text(self) -> None:
        """Before an answer: costs measured since the last one replace presumed ones."""
        self._take_costs()
        for depth in self._depths.values():
            depth.begin_text()

    def asked_anew(self, *, otherwise: bool) -> None:
        """Other options are in effect: another depth, or drafts that are made otherwise."""
        for depth in self._depths.values():
            depth.asked_anew(otherwise=otherwise)

    def _take_costs(self) -> None:
        costs = self._costs()
        if costs != self._used:
            self._used = costs
            for by, depth in self._depths.items():
                depth.recost(self._of_source(costs, by))

    def of(self, by: DraftedBy) -> AdaptiveDepth:
        """What is known of a source."""
        if self._used is None:
            self._take_costs()
        assert self._used is not None
        if by not in self._depths:
            self._depths[by] = AdaptiveDepth(self._of_source(self._used, by), MAX_DEPTH)
        return self._depths[by]

    def learn_plain(self, milliseconds: float) -> None:
        """A plain round costs the same whoever might have drafted."""
        for depth in self._depths.values():
            depth.learn(0, 0, milliseconds)

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
        is_open = self._depth == "auto" and len(self._offers) > 1
        if is_open and not (offer.is_long and self._best(offer)):
            offer = max(self._offers, key=self._gain)
        self._by = offer.by
        adaptive = self._learned.of(offer.by)
        if self._depth == "auto":
            return adaptive.next(offer.chance, offer.limit)._replace(by=offer.by)
        depth = min(self._depth, offer.limit)
        why = _too_deep(offer.limit) if depth < self._depth else None
        return Choice(depth, why, self._best(offer), offer.by)

    def learn(self, drafted: int, accepted: int, milliseconds: float) -> None:
        """What became of a draft and what the round cost, for the source that drafted; a plain
        round for all.
        """
        if drafted and self._by is not None:
            self._learned.of(self._by).learn(drafted, accepted, milliseconds)
        else:
            self._learned.learn_plain(milliseconds)

    def _best(self, offer: Offer) -> int:
        return self._learned.of(offer.by).best(offer.chance, offer.limit)

    def _gain(self, offer: Offer) -> float:
        return max(self._learned.of(offer.by).gains(offer.chance, offer.limit))


def _too_deep(limit: int) -> Reason:
    tokens = "1 token" if limit == 1 else f"{limit} tokens"
    return Reason("source-limit", f"{tokens} at a time is the most that can be drafted here.")
