"""Several conversations of one engine at the same time: their rounds share passes of the weights.

Whoever drives answers may take events from one and then from another, in any order. An answer that
sees that others had a turn since its last one begins its next round as soon as one has ended, and
lets it wait; whichever answer needs an outcome first has a pass run for all that wait. A round that
is not asked for again has been run in vain, once, or twice where the device computes beside the
host.

There the first who reads a pass has the next one queued before: all whose rounds are in it begin
what follows, and rounds that wait go along. Where one of them has to know its outcome first, or may
end with it, all wait: passes that are shared are worth more than a device that is never idle. So
all do while another pass is under way, or was read by some of its own and not by others, until one
takes all in.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Protocol
from weakref import ref

import mlx.core as mx

from mlx_engine.decoding.round import Pass, Round
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.depth import Room
from mlx_engine.drafting.drafter import DEEPEST


class Ahead(Protocol):
    """The rounds of an answer (lookahead.py)."""

    @property
    def passes(self) -> Sequence[Pass]:
        """Those of the present round, and of the next where it has begun."""

    def knows_ahead(self) -> bool:
        """Whether what follows the present round can be begun before its outcome is known."""

    def begin_next(self) -> Round:
        """Begin what follows the present round."""

    def fail(self, error: Exception) -> None:
        """Raise this in the place of the next round."""


class Answering(Protocol):
    """An answer that is read."""

    @property
    def sequence(self) -> SequenceState:
        """The state of its conversation."""

    @property
    def rounds(self) -> Ahead:
        """The rounds of the answer."""


class BatchScheduler:
    """Shares passes of the target among the answers of an engine.

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
        """Room of one answer in a pass that all answers share."""
        each = self.most_rows() // max(1, self.answering)
        return Room(self.answering - 1, max(0, each - 1))

    @contextmanager
    def answer(self, answer: Answering) -> Iterator[None]:
        """Context of an answer that is read; the first of several resets the peak of memory."""
        if not self._answers:
            mx.reset_peak_memory()
        self._answers.append(answer)
        try:
            yield
        finally:
            self._answers = [other for other in self._answers if other is not answer]
            # after an error a round may wait whose state has been dropped
            self._waiting = [
                round_ for round_ in self._waiting if round_.state is not answer.sequence
            ]

    def take_turn(self, who: object) -> bool:
        """Whether somebody else had a turn since the last one of who takes it now."""
        latest, self._latest = self._latest(), ref(who)
        return latest is not None and latest is not who

    def wait(self, round_: Round) -> None:
        """Have a round wait for the next pass."""
        self._waiting.append(round_)

    def leave(self, round_: Round) -> None:
        """Withdraw a round, if it waits."""
        if self._waiting:
            self._waiting = [other for other in self._waiting if other is not round_]

    def begin(self, first: Round) -> Pass:
        """A pass of a round, and of those that wait, are of the same model and fit."""
        self.leave(first)
        model, rounds, rows = first.state.model, [first], first.most_rows
        for other in self._waiting if model.joint is not None else ():
            if other.state.model is model and rows + other.most_rows <= self.most_rows():
                rounds.append(other)
                rows += other.most_rows
        for other in rounds[1:]:
            self.leave(other)
        self.shared += len(rounds) - 1
        return Pass(rounds, self._reader)

    def read(self, pass_: Pass) -> None:
        """Wait for an outcome; the device was free for it when it had the one before."""
        if pass_.read_at:
            return
        pass_.wait()
        free_at = self._read.read_at if self._read else 0.0
        if self._reader is None:
            pass_.took = pass_.read_at - max(pass_.began_at, free_at)
        else:
            since = max(pass_.written_at, free_at)
            pass_.took = pass_.read_at - since
            pass_.idle = max(0.0, pass_.began_at - since)
        self._read = pass_

    def look_ahead(self, pass_: Pass) -> None:
        """Begin what follows a pass that nobody has read yet, where all its answers can."""
        every = [answer.rounds for answer in self._answers]
        elsewhere = [other for rounds in every for other in rounds.passes if other is not pass_]
        if any(other is self._read or not other.read_at for other in elsewhere):
            return
        inside = [rounds for rounds in every if rounds.passes and rounds.passes[0] is pass_]
        try:
            if all(rounds.knows_ahead() for rounds in inside):
                begun = [rounds.begin_next() for rounds in inside]
                self._waiting = [*begun, *self._waiting]
                for round_ in begun:
                    if round_.verified_by is None:
                        self.begin(round_).queue()
        except Exception as error:
            for rounds in inside:
                rounds.fail(error)
