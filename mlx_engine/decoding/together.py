"""Several conversations of one engine at the same time: their rounds share passes of the weights.

Whoever drives answers may take events from one and then from another, in any order. An answer that
sees that others had a turn since its last one begins its next round as soon as one has ended, and
lets it wait; whichever answer needs an outcome first has a pass run for all that wait. A round that
is not asked for again has been run in vain, once, or twice where the device computes beside the
host.

There the first who reads a pass has the next one queued before: all whose rounds are in it begin
what follows, and rounds that wait go along. Where all may end before it, it is queued once it is
known that one does not. Where one of them has to know its outcome first, all wait: passes that are
shared are worth more than a device that is never idle. So all do while another pass is under way,
or was read by some of its own and not by others, until one takes all in.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Protocol
from weakref import ref

import mlx.core as mx

from mlx_engine.decoding.round import Begins, Pass, Round
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.depth.choice import Room


class Ahead(Protocol):
    """The rounds of an answer (ahead.py)."""

    @property
    def passes(self) -> Sequence[Pass]:
        """Those that its rounds have begun: of the present one, and of that which follows it."""

    @property
    def may_end(self) -> bool:
        """Whether the answer may have all its tokens with the present round."""

    @property
    def waits(self) -> bool:
        """Whether what was begun to follow had better be queued once the outcome is known."""

    def knows_ahead(self) -> bool:
        """Whether what follows the present round can be begun before its outcome is known."""

    def begin_next(self) -> Round | None:
        """Begin it then; None where the answer ends before it."""

    def fail(self, error: Exception) -> None:
        """Raise this in its place."""


class Answering(Protocol):
    """An answer that is read."""

    @property
    def rounds(self) -> Ahead:
        """Its present ones."""


class Together:
    """Rounds that wait for a pass.

    most_rows: of a pass of several conversations. reader: waits for outcomes (round.py), None where
    the host's own processor computes. shared: rounds so far that went into the pass of another.
    """

    def __init__(
        self,
        most_rows: Callable[[], int] = lambda: DEEPEST + 1,
        reader: Executor | None = None,
    ) -> None:
        self.most_rows = most_rows
        self._reader = reader
        self.shared = 0
        self._answers: list[Answering] = []
        self._waiting: list[Round] = []
        self._read: Pass | None = None
        self._latest: Callable[[], object] = lambda: None

    @property
    def answering(self) -> int:
        """How many answers have begun and not come to their end."""
        return len(self._answers)

    @property
    def room(self) -> Room:
        """Of one of them, where all go into one pass."""
        each = self.most_rows() // max(1, self.answering)
        return Room(self.answering - 1, max(0, each - 1))

    @contextmanager
    def answer(self, its: Answering) -> Iterator[None]:
        """Within, it is read. The first of several looks for a new peak of memory."""
        if not self._answers:
            mx.reset_peak_memory()
        self._answers.append(its)
        try:
            yield
        finally:
            self._answers = [other for other in self._answers if other is not its]

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

    def begin(self, one: Round, begins: Begins) -> Pass:
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
        return Pass(rounds, begins, self._reader)

    def read(self, its: Pass) -> None:
        """Wait for its outcome; the device was free for it when it had the one before."""
        if not its.read_at:
            its.wait()
            free_at = self._read.read_at if self._read else 0.0
            if self._reader is None:
                its.took = its.read_at - max(its.began_at, free_at)
            else:
                since = max(its.written_at, free_at)
                its.took, its.idle = its.read_at - since, max(0.0, its.began_at - since)
            self._read = its

    def look_ahead(self, its: Pass, begins: Begins) -> None:
        """Begin what follows a pass that nobody has read yet, if all are there, and queue it if it
        is sure to be needed; who could not begin it is told.
        """
        every = [answer.rounds for answer in self._answers]
        elsewhere = [other for one in every for other in one.passes if other is not its]
        if any(other is self._read or not other.read_at for other in elsewhere):
            return
        those = [one for one in every if one.passes and one.passes[0] is its]
        try:
            if all(one.knows_ahead() for one in those):
                begun = [following for one in those if (following := one.begin_next()) is not None]
                is_needed = bool(self._waiting) or not all(one.may_end for one in those)
                is_needed = is_needed and not any(one.waits for one in those)
                self._waiting = [*begun, *self._waiting]
                for following in begun:
                    if following.its_pass is None:
                        made = self.begin(following, begins if is_needed else "nothing")
                        if is_needed:
                            made.queue()
        except Exception as error:
            for one in those:
                one.fail(error)
