"""Batching: rounds of several conversations of one engine share passes of the weights.

The caller may take events from several answers in any order. An answer that sees that another one
had a turn since its own last turn begins its next round as soon as the present one has ended, and
lets that round wait. The first answer that needs an outcome runs one pass for all rounds that wait.
If the caller never goes on with an answer, its last round was run in vain (two rounds with
lookahead).

With lookahead, the first answer that reads a pass first has the next pass queued: all answers in
the pass begin their next rounds, and waiting rounds join. If one of these answers needs its outcome
first, or may end with it, nothing is queued: a shared pass is worth more than a device that is
never idle. Nothing is queued either while another pass is under way, or has been read by some of
its answers only.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Protocol
from weakref import ref

import mlx.core as mx

from mlx_engine.decoding.round import Pass, Round
from mlx_engine.drafting.depth import BatchLimits
from mlx_engine.drafting.drafter import DEEPEST


class AnswerRounds(Protocol):
    """Protocol of the decoding rounds of one answer in a batch; Lookahead implements it."""

    @property
    def passes(self) -> Sequence[Pass]:
        """Passes of the answer's present round, and of the next round if it has begun."""

    def plan_next(self) -> bool:
        """Plan the next round, if it can begin now; return whether it can."""

    def begin_next(self) -> Round:
        """Begin the round planned by `plan_next`, before the present one's outcome is known."""

    def fail(self, error: Exception) -> None:
        """Note an error, to be raised in place of the answer's next round."""


class Answering(Protocol):
    """Protocol of a running answer in a batch; Answer (answer.py) implements it."""

    @property
    def rounds(self) -> AnswerRounds:
        """The answer's rounds, which the scheduler begins and reads."""


class BatchScheduler:
    """Shares passes of the target among the answers of an engine.

    most_rows: the largest number of rows of a shared pass. reader: thread that waits for outcomes
    (round.py), None on a CPU. shared: how many rounds so far joined the pass of another answer.
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
        self._last_read: Pass | None = None
        self._latest: Callable[[], object] = lambda: None

    @property
    def answering(self) -> int:
        """Number of answers of the engine that run now."""
        return len(self._answers)

    @property
    def limits(self) -> BatchLimits:
        """Return how deep one answer may draft in a pass that all running answers share."""
        each = self.most_rows() // max(1, self.answering)
        return BatchLimits(self.answering - 1, max(0, each - 1))

    @contextmanager
    def answer(self, answer: Answering) -> Iterator[None]:
        """Context in which an answer runs; the first one resets the peak memory."""
        if not self._answers:
            mx.reset_peak_memory()
        self._answers.append(answer)
        try:
            yield
        finally:
            self._answers = [other for other in self._answers if other is not answer]

    def take_turn(self, who: object) -> bool:
        """Note whose turn it is; return whether another answer had one since this one's last."""
        latest, self._latest = self._latest(), ref(who)
        return latest is not None and latest is not who

    def add_waiting(self, round_: Round) -> None:
        """Have an answer's round wait for the next shared pass."""
        self._waiting.append(round_)

    def remove_waiting(self, round_: Round) -> None:
        """Withdraw an answer's round from those that wait for the next shared pass."""
        if self._waiting:
            self._waiting = [other for other in self._waiting if other is not round_]

    def begin(self, first: Round) -> Pass:
        """Begin a pass of a round, with all waiting rounds of the same model that fit."""
        self.remove_waiting(first)
        model, rounds, rows = first.state.model, [first], first.most_rows
        for other in self._waiting:
            is_joint = other.state.model is model and model.joint_forward is not None
            if is_joint and rows + other.most_rows <= self.most_rows():
                rounds.append(other)
                rows += other.most_rows
        for other in rounds[1:]:
            self.remove_waiting(other)
        self.shared += len(rounds) - 1
        return Pass(rounds, self._reader)

    def read(self, pass_: Pass) -> None:
        """Wait for the outcome of a pass; set the seconds it took once the device was free."""
        if pass_.read_at:
            return
        pass_.wait()
        free_at = self._last_read.read_at if self._last_read else 0.0
        if self._reader is None:
            pass_.took = pass_.read_at - max(pass_.began_at, free_at)
        else:
            since = max(pass_.written_at, free_at)
            pass_.took = pass_.read_at - since
            pass_.idle = max(0.0, pass_.began_at - since)
        self._last_read = pass_

    def look_ahead(self, pass_: Pass) -> None:
        """Begin the next rounds of all answers in an unread pass, if all of them can."""
        every = [answer.rounds for answer in self._answers]
        elsewhere = [other for rounds in every for other in rounds.passes if other is not pass_]
        if any(other is self._last_read or not other.read_at for other in elsewhere):
            return
        inside = [rounds for rounds in every if rounds.passes and rounds.passes[0] is pass_]
        try:
            if all(rounds.plan_next() for rounds in inside):
                begun = [rounds.begin_next() for rounds in inside]
                self._waiting = [*begun, *self._waiting]
                for round_ in begun:
                    if round_.verified_by is None:
                        self.begin(round_).queue()
        except Exception as error:
            for rounds in inside:
                rounds.fail(error)
