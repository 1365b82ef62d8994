"""What a round of each depth costs: as measured at first, corrected by rounds really played."""

from typing import NamedTuple

TRUST = 1.0
"""Rounds the first measurement is worth against rounds really played at a depth."""

RECENT = 20.0
"""Rounds of a depth that count; older ones fade."""

SPIKE = 3.0
"""A round counts as at most this many times dearer, or cheaper, than expected: spikes are noise."""

PLAIN_EVERY = 48
"""Drafted rounds after which a plain one shows again what drafting gains."""

AT_FIRST_EVERY = 6
"""The same until ENOUGH_PLAIN of them were played."""

ENOUGH_PLAIN = 5


class PassCosts(NamedTuple):
    """Milliseconds measured on this machine: verify_ms[r-1] for a pass of r rows; one head pass.

    later_ms: a pass of each head after the first, where heads take turns.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()

    def drafting_ms(self, depth: int) -> float:
        """Of a draft of `depth` tokens: a pass each."""
        if not self.later_ms:
            return depth * self.draft_ms
        return sum((self.draft_ms, *self.later_ms)[:depth])


class RoundCosts:
    """Milliseconds of a round by depth.

    A depth that was played is known by its own rounds. The others keep the measured proportions:
    what rounds cost over what was measured for them scales all.
    """

    def __init__(self, costs: PassCosts) -> None:
        self._measured = [ms + costs.drafting_ms(k) for k, ms in enumerate(costs.verify_ms)]
        self._mean = [0.0] * len(self._measured)
        self._rounds = [0.0] * len(self._measured)
        self._since_plain = 0

    @property
    def deepest(self) -> int:
        """The deepest draft whose cost is known."""
        return len(self._measured) - 1

    def at(self, depth: int) -> float:
        """Milliseconds to expect of a round that drafts `depth` tokens."""
        expected = self._scale() * self._measured[depth]
        known = self._rounds[depth]
        return (TRUST * expected + known * self._mean[depth]) / (TRUST + known)

    def add(self, depth: int, milliseconds: float) -> None:
        """A round of this depth was played and took so long."""
        expected = self.at(depth)
        counted = min(max(milliseconds, expected / SPIKE), expected * SPIKE)
        rounds = min(self._rounds[depth], RECENT - 1)
        self._mean[depth] = (rounds * self._mean[depth] + counted) / (rounds + 1)
        self._rounds[depth] = rounds + 1
        self._since_plain = 0 if depth == 0 else self._since_plain + 1

    @property
    def wants_plain(self) -> bool:
        """Whether a plain round is due, so that its cost stays known."""
        is_known = self._rounds[0] >= ENOUGH_PLAIN
        return self._since_plain >= (PLAIN_EVERY if is_known else AT_FIRST_EVERY)

    def _scale(self) -> float:
        """Milliseconds played over milliseconds measured for the same rounds."""
        played = zip(self._rounds, self._mean, self._measured, strict=True)
        seen = measured = 0.0
        for rounds, mean, first in played:
            seen += rounds * mean
            measured += rounds * first
        return seen / measured if measured else 1.0
