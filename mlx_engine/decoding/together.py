"""Several conversations of one engine at the same time: their rounds share passes of the weights.

Whoever drives answers may take events from one and then from another, in any order. An answer that
sees that others had a turn since its last one begins its next round as soon as one has ended, and
lets it wait; whichever answer needs an outcome first has a pass run for all that wait. A round that
is not asked for again has been run in vain, once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import ref

import mlx.core as mx

from mlx_engine.decoding.round import Pass, Round
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.depth.choice import Room


class Together:
    """Rounds that wait for a pass.

    most_rows: of a pass of several conversations. answering: how many answers have begun and not
    come to their end. shared: rounds so far that went into the pass of another.
    """

    def __init__(self, most_rows: Callable[[], int] = lambda: DEEPEST + 1) -> None:
        self.most_rows = most_rows
        self._waiting: list[Round] = []
        self._latest: Callable[[], object] = lambda: None
        self.answering = self.shared = 0

    @property
    def room(self) -> Room:
        """Of one of them, where all go into one pass."""
        each = self.most_rows() // max(1, self.answering)
        return Room(self.answering - 1, max(0, each - 1))

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Within, an answer is read. The first of several looks for a new peak of memory."""
        if not self.answering:
            mx.reset_peak_memory()
        self.answering += 1
        try:
            yield
        finally:
            self.answering -= 1

    def take_turn(self, who: object) -> bool:
        """Whether somebody else had a turn since the last one of who takes it now."""
        latest, self._latest = self._latest(), ref(who)
        return latest is not None and latest is not who

    def wait(self, one: Round) -> None:
        """For the next pass."""
        self._waiting.append(one)

    def leave(self, one: Round) -> None:
        """Not to be run any more."""
        self._waiting = [other for other in self._waiting if other is not one]

    def begin(self, one: Round, *, draft_at_once: bool) -> Pass:
        """A pass of a round, and of those that wait, are of the same model and fit."""
        self.leave(one)
        model, rounds, rows = one.state.model, [one], one.most_rows
        for other in self._waiting if model.joint is not None else ():
            if other.state.model is model and rows + other.most_rows <= self.most_rows():
                rounds.append(other)
                rows += other.most_rows
        for other in rounds:
            self.leave(other)
        self.shared += len(rounds) - 1
        return Pass(rounds, draft_at_once=draft_at_once)
