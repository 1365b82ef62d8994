"""A thread that owns an engine: callers of any thread have functions run and prompts answered.

Several answers run at once, a round of each in turn, so that their rounds share passes of the
model. Whatever else is asked is done between two rounds.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

from mlx_engine import Engine
from mlx_engine.values.conversation import TURN_ENDS, Event
from mlx_engine.values.errors import EngineError, EngineMisuse

T = TypeVar("T")
Events = Generator[Event, None, None]


class Busy(EngineError):
    """Error: as many answers are running and waiting as are allowed."""


class Answering:
    """An answer that was asked for.

    done: its result is None once the answer has ended, or the error that ended it.
    """

    def __init__(
        self, begin: Callable[[Engine], Events], on_event: Callable[[Event], None]
    ) -> None:
        self.done = Future[None]()
        self._begin = begin
        self._on_event = on_event
        self._events: Events | None = None
        self._error: Exception | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the answer before its next round, without a further event; from any thread."""
        self._is_stopped = True

    def _go_on(self, engine: Engine) -> bool:
        """Run one round, or read one part of the prompt; return whether the answer goes on."""
        try:
            if self._is_stopped:
                if self._events is not None:
                    self._events.close()
                return False
            if self._events is None:
                self._events = self._begin(engine)
            for event in self._events:
                self._on_event(event)
                if isinstance(event, TURN_ENDS):
                    return True
        except Exception as error:
            self._error = error
        return False

    def _finish(self) -> None:
        if self._error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self._error)


class EngineThread:
    """Opens an engine in a thread of its own and serves it until `close`.

    parallel: answers that run at once; waiting: answers that may wait for their turn.
    """

    def __init__(
        self, open_engine: Callable[[], Engine], parallel: int = 4, waiting: int = 64
    ) -> None:
        self._open = open_engine
        self._parallel, self._most = parallel, parallel + waiting
        self._changed = threading.Condition()
        self._calls = deque[Callable[[Engine], None]]()
        self._answers = deque[Answering]()
        self._is_closing = False
        self.opened = Future[None]()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._thread.start()

    @property
    def running(self) -> int:
        """Number of answers that are running."""
        return min(len(self._answers), self._parallel)

    @property
    def waiting(self) -> int:
        """Number of answers that wait for another to end."""
        return max(0, len(self._answers) - self._parallel)

    def call(self, function: Callable[[Engine], T]) -> Future[T]:
        """Run a function on the engine's thread, before the next round of any answer."""
        future = Future[T]()

        def run(engine: Engine) -> None:
            try:
                future.set_result(function(engine))
            except Exception as error:
                future.set_exception(error)

        with self._changed:
            self._check_open()
            self._calls.append(run)
            self._changed.notify()
        return future

    def answer(
        self, begin: Callable[[Engine], Events], on_event: Callable[[Event], None]
    ) -> Answering:
        """Ask for an answer, whose events `begin` makes. Raises Busy.

        begin and on_event are called on the engine's thread; events come in order, none of them
        after `done`.
        """
        asked = Answering(begin, on_event)
        with self._changed:
            self._check_open()
            if len(self._answers) >= self._most:
                raise Busy(
                    "{count} answers are running or waiting, which is the limit: ask again later.",
                    count=len(self._answers),
                )
            self._answers.append(asked)
            self._changed.notify()
        return asked

    def close(self) -> None:
        """Stop all answers, close the engine and wait for that."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._is_closing:
            raise EngineMisuse("The engine is closing: start the program again.")

    def _run(self) -> None:
        try:
            engine = self._open()
        except BaseException as error:
            self.opened.set_exception(error)
            return
        engine.give_way(lambda: bool(self._calls or self._answers or self._is_closing))
        self.opened.set_result(None)
        try:
            while self._wait():
                while self._calls:
                    self._calls.popleft()(engine)
                self._take_turns(engine)
        finally:
            for answer in self._answers:
                answer.stop()
                answer._go_on(engine)
                answer._finish()
            engine.close()

    def _wait(self) -> bool:
        """Wait for something to do; False when the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._answers or self._is_closing)
            return not self._is_closing

    def _take_turns(self, engine: Engine) -> None:
        for answer in list(self._answers)[: self._parallel]:
            if not answer._go_on(engine):
                with self._changed:
                    self._answers.remove(answer)
                answer._finish()
