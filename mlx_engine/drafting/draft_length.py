"""How many tokens to draft next, from what a pass costs here and what has been accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from operator import mul
from typing import NamedTuple, Protocol

from mlx_engine.drafting.round_costs import PassCosts, RoundCosts
from mlx_engine.values.options import MAX_DEPTH, DraftedBy
from mlx_engine.values.reason import Reason

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

WORTH_IT = 1.02
"""Drafting must promise this much more than plain decoding: measurements are not exact."""

PROBE_LOSS = 0.01
"""Share of the time a parked chat may spend on drafts that fail."""

PROBE_EVERY = 16
"""Plain rounds between two such drafts, at least."""

PROBE_AT_LAST = 256
"""The same where no draft seems to pay: costs may have been measured in a bad moment."""

MEASURING = Reason(
    "measuring-plain", "One round without a draft, to see what drafting gains in this chat."
)


class Choice(NamedTuple):
    """A depth, and why it is less than what was asked for.

    auto: what would pay, when the depth is pinned. by: who is to draft, None for whoever offers.
    """

    depth: int
    why: Reason | None
    auto: int | None = None
    by: DraftedBy | None = None


class DraftLength(Protocol):
    """Chooses the depth of the next round and learns from the last."""

    def next(self) -> Choice:
        """The depth to draft now."""

    def learn(self, drafted: int, accepted: int) -> None:
        """What became of the last draft."""

    def took(self, drafted: int, milliseconds: float) -> None:
        """What the last round cost, plain ones (drafted 0) too."""


@dataclass(frozen=True, slots=True)
class FixedLength:
    """Always the same depth, as 0 with the reason nothing can be drafted."""

    depth: int
    why: Reason | None = None

    def next(self) -> Choice:
        """The depth."""
        return Choice(self.depth, self.why)

    def learn(self, drafted: int, accepted: int) -> None:
        """Nothing to learn."""

    def took(self, drafted: int, milliseconds: float) -> None:
        """Nothing to learn."""


class Acceptance:
    """Running chance that a draft's d-th token stands, given that those before it stood.

    A depth that has hardly been tried, or not for long, is taken to be as good as the one before.
    is_measured: whether any draft has been seen; before that all of it is a guess.
    """

    def __init__(self) -> None:
        unknown = [0.0] * (MAX_DEPTH - 1)
        self._stood = [FIRST_GUESS * FIRST_WEIGHT, *unknown]
        self._tried = [FIRST_WEIGHT, *unknown]
        self.is_measured = False

    def add(self, drafted: int, accepted: int) -> None:
        """A round reached depth d when d - 1 tokens before it stood."""
        self.is_measured = True
        reached = min(drafted, accepted + 1)
        for depth in range(MAX_DEPTH):
            weight = MEMORY if depth < reached else FADING
            self._stood[depth] = weight * self._stood[depth] + (depth < accepted)
            self._tried[depth] = weight * self._tried[depth] + (depth < reached)

    def by_depth(self) -> list[float]:
        """[d-1] -> conditional acceptance of the d-th token."""
        chances = [self._stood[0] / self._tried[0]]
        for stood, tried in zip(self._stood[1:], self._tried[1:], strict=True):
            chances.append((stood + DEEPER_WEIGHT * chances[-1]) / (tried + DEEPER_WEIGHT))
        return chances

    def expected(self) -> list[float]:
        """[k] -> tokens a round of depth k emits on average: 1 + a1 + a1*a2 + ..."""
        return list(accumulate(accumulate(self.by_depth(), mul), initial=1.0))


class PayingLength:
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

        chance: that a token stands, where the source knows better than past rounds. limit: the
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
        """Remember what was accepted; a parked chat goes on trying as long as its drafts stand."""
        self.acceptance.add(drafted, accepted)
        if accepted == 0:
            self._rest = self._probe_interval()

    def took(self, drafted: int, milliseconds: float) -> None:
        """Correct the costs; after a draft that paid nothing the chat rests."""
        self._costs.add(min(drafted, self._costs.deepest), milliseconds)
        if drafted and self._rest == 0 and not self._can_pay():
            self._rest = self._probe_interval()

    def _can_pay(self) -> bool:
        """Whether drafts that always stand would pay."""
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
        stand = "stand" if self.acceptance.is_measured else "are expected to stand"
        return Reason(
            "parked-acceptance", f"Drafting parked: {share} of first drafts {stand}, and {cost}."
        )
