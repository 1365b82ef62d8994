"""What has been accepted of drafts, and what to expect of the next."""

from itertools import accumulate
from operator import mul

from mlx_engine.drafting.drafter import DEEPEST

MEMORY = 0.95
"""Weight of the past in the running acceptance: about the last 20 rounds that reached a depth."""

FADING = 0.99
"""The same for depths a round did not reach: what is known of them grows old more slowly."""

FIRST_GUESS = 0.9
"""Acceptance assumed before anything was drafted: trying costs little, and tells."""

FIRST_WEIGHT = 4.0
"""Rounds the first guess is worth, so that one unlucky draft does not park a chat."""

DEEPER_WEIGHT = 1.0
"""Rounds that the guess is worth that a depth is as good as the one before it."""

OF_ALL = 8.0
"""How many times as long a memory lasts that several texts share."""

HISTORY_WEIGHT = 8.0
"""Rounds, at most, that the acceptance in texts before one is worth at its beginning."""


class Acceptance:
    """Running chance that a draft's d-th token is accepted, given that those before it were.

    A depth that has hardly been tried, or not for long, is taken to be as good as the one before.
    is_measured: whether any draft has been seen; before that all of it is a guess. lasting: how
    many times as many rounds as one text's are remembered.
    """

    def __init__(self, lasting: float = 1.0) -> None:
        unknown = [0.0] * (DEEPEST - 1)
        self._accepted = [FIRST_GUESS * FIRST_WEIGHT, *unknown]
        self._tried = [FIRST_WEIGHT, *unknown]
        self._lasting = lasting
        self._expected: list[float] | None = None
        self.is_measured = False

    def of_another_text(self) -> "Acceptance":
        """What to expect of one that nothing is known of."""
        other = Acceptance()
        for depth, tried in enumerate(self._tried):
            share = min(1.0, HISTORY_WEIGHT / tried) if tried else 0.0
            other._tried[depth] = share * tried
            other._accepted[depth] = share * self._accepted[depth]
        return other

    def add(self, drafted: int, accepted: int) -> None:
        """A round reached depth d when the d - 1 tokens before it were accepted."""
        self.is_measured = True
        reached = min(drafted, accepted + 1)
        for depth in range(DEEPEST):
            weight = (MEMORY if depth < reached else FADING) ** (1 / self._lasting)
            self._accepted[depth] = weight * self._accepted[depth] + (depth < accepted)
            self._tried[depth] = weight * self._tried[depth] + (depth < reached)
        self._expected = None

    def by_depth(self) -> list[float]:
        """[d-1] -> conditional acceptance of the d-th token."""
        chances = [self._accepted[0] / self._tried[0]]
        for accepted, tried in zip(self._accepted[1:], self._tried[1:], strict=True):
            chances.append((accepted + DEEPER_WEIGHT * chances[-1]) / (tried + DEEPER_WEIGHT))
        return chances

    def expected(self) -> list[float]:
        """[k] -> tokens a round of depth k emits on average: 1 + a1 + a1*a2 + ...

        A choice asks for it several times, and it changes with rounds alone.
        """
        if self._expected is None:
            self._expected = list(accumulate(accumulate(self.by_depth(), mul), initial=1.0))
        return self._expected
