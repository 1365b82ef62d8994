"""How often the window is told: thirty times a second at most."""

from collections.abc import Callable
from time import monotonic

INTERVAL_S = 1 / 30


class Pace:
    """For one answer or one load; the first thing is due at once."""

    def __init__(
        self, clock: Callable[[], float] = monotonic, interval_s: float = INTERVAL_S
    ) -> None:
        self._clock = clock
        self._interval = interval_s
        self._due_at = float("-inf")

    def is_due(self, *, at_once: bool = False) -> bool:
        """Whether to tell now; if so, the next time is an interval later."""
        now = self._clock()
        if now < self._due_at and not at_once:
            return False
        self._due_at = now + self._interval
        return True
