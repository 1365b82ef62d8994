"""How many tokens to draft next, from what a pass costs here and what has been accepted."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mlx_engine.values.options import MAX_DEPTH
from mlx_engine.values.reason import Reason

MEMORY = 0.95
"""Weight of the past in the running acceptance: about the last 20 rounds that reached a depth."""

FIRST_GUESS = 0.75
"""Acceptance assumed before anything was drafted."""

FIRST_WEIGHT = 4.0
"""Rounds the first guess is worth, so that one unlucky draft does not park a chat."""

WORTH_IT = 1.02
"""Drafting must promise this much more than plain decoding: measurements are not exact."""

PROBE_EVERY = 16
"""Plain rounds after which a parked chat tries one token again, if that could ever pay."""


class PassCosts(NamedTuple):
    """Milliseconds measured on this machine: verify_ms[r-1] for a pass of r rows; one head pass."""

    verify_ms: tuple[float, ...]
    draft_ms: float


class Choice(NamedTuple):
    """A depth, and why it is less than what was asked for."""

    depth: int
    why: Reason | None


class DraftLength(Protocol):
    """Chooses the depth of the next round and learns from the last."""

    def next(self) -> Choice:
        """The depth to draft now."""

    def learn(self, drafted: int, accepted: int) -> None:
        """What became of the last draft."""


@dataclass(frozen=True, slots=True)
class FixedLength:
    """Always the same depth: pinned by the user, or 0 with the reason nothing can be drafted."""

    depth: int
    why: Reason | None = None

    def next(self) -> Choice:
        """The depth."""
        return Choice(self.depth, self.why)

    def learn(self, drafted: int, accepted: int) -> None:
        """Nothing to learn."""


class Acceptance:
    """Running chance that a draft's d-th token stands, given that those before it stood."""

    def __init__(self) -> None:
        self._stood = [FIRST_GUESS * FIRST_WEIGHT] * MAX_DEPTH
        self._tried = [FIRST_WEIGHT] * MAX_DEPTH

    def add(self, drafted: int, accepted: int) -> None:
        """A round reached depth d when d - 1 tokens before it stood."""
        for depth in range(min(drafted, accepted + 1)):
            self._stood[depth] = MEMORY * self._stood[depth] + (depth < accepted)
            self._tried[depth] = MEMORY * self._tried[depth] + 1

    def at(self, depth: int) -> float:
        """Conditional acceptance of the depth-th token (1 is the first)."""
        return self._stood[depth - 1] / self._tried[depth - 1]

    def expected(self, depth: int) -> float:
        """Tokens a round of this depth emits on average: 1 + a1 + a1*a2 + ..."""
        total, chance = 1.0, 1.0
        for step in range(1, depth + 1):
            chance *= self.at(step)
            total += chance
        return total


class PayingLength:
    """The depth with the best expected tokens per second; 0 when drafting does not pay.

    Speculative decoding's usual trade (Leviathan et al. 2023, section 3.3) with measured costs.
    """

    def __init__(self, costs: PassCosts, limit: int) -> None:
        self._costs = costs
        self._limit = min(limit, len(costs.verify_ms) - 1)
        self.acceptance = Acceptance()
        self._plain_rounds = 0

    def round_ms(self, depth: int) -> float:
        """Cost of a round that drafts `depth` tokens."""
        return self._costs.verify_ms[depth] + depth * self._costs.draft_ms

    def gain(self, depth: int) -> float:
        """Expected tokens per second over those of plain decoding."""
        return self.acceptance.expected(depth) * self.round_ms(0) / self.round_ms(depth)

    def next(self) -> Choice:
        """The best depth now."""
        best = max(range(self._limit + 1), key=self.gain)
        if best > 0 and self.gain(best) >= WORTH_IT:
            return Choice(best, None)
        self._plain_rounds += 1
        if self._could_ever_pay() and self._plain_rounds % PROBE_EVERY == 0:
            return Choice(1, None)
        return Choice(0, self._why_parked())

    def learn(self, drafted: int, accepted: int) -> None:
        """Remember what was accepted."""
        self.acceptance.add(drafted, accepted)

    def _could_ever_pay(self) -> bool:
        """Whether drafts that always stand would pay."""
        depths = range(1, self._limit + 1)
        ceiling = ((depth + 1) * self.round_ms(0) / self.round_ms(depth) for depth in depths)
        return max(ceiling, default=0.0) >= WORTH_IT

    def _why_parked(self) -> Reason:
        two_rows = self._costs.verify_ms[1] / self._costs.verify_ms[0]
        head = self._costs.draft_ms / self._costs.verify_ms[0]
        cost = f"a 2-row pass costs {two_rows:.2f} and a draft {head:.2f} of one pass here"
        if not self._could_ever_pay():
            return Reason("parked-cost", f"Drafting parked: {cost}, so no draft can pay.")
        share = f"{100 * self.acceptance.at(1):.0f} %"
        return Reason(
            "parked-acceptance", f"Drafting parked: {share} of first drafts stand, and {cost}."
        )
