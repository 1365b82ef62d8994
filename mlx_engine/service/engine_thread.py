"""The loop of the thread that owns an engine: it serves callers of any thread.

Several answers run at once, a round of each in turn, so that their rounds share passes of the
model. Whatever else is asked is done between two rounds.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from mlx_engine.values.conversation import TURN_ENDS, Event
from mlx_engine.values.errors import EngineError, EngineMisuse, NoModel
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED, CacheOptions

if TYPE_CHECKING:  # a window shows itself before it imports MLX
    from mlx_engine import Engine

T = TypeVar("T")
Events = Generator[Event, None, None]
INTERPRETER_EXITS = (KeyboardInterrupt, SystemExit)
"""The only exceptions that may end the thread."""

log = logging.getLogger(__name__)


class TooManyAnswers(EngineError):
    """Error: as many answers are running and waiting as are allowed."""


class QueuedAnswer:
    """A queued or running answer, or a queued change of the model.

    done: finished with None or with the error that ended the answer. chat: answers of one chat run
    one after the other; None for a client without a chat, as over HTTP: a limited number of them
    is answered at once. runs_alone: runs after all earlier entries and before all later ones.
    ends_client_answers: waits for answers of chats only, as it ends those of clients.
    """

    def __init__(
        self,
        begin: Callable[[], Iterator[Event]],
        on_event: Callable[[Event], None],
        chat: str | None = None,
        *,
        runs_alone: bool = False,
        ends_client_answers: bool = False,
    ) -> None:
        self.done = Future[None]()
        self.chat, self.runs_alone, self.ends_client_answers = chat, runs_alone, ends_client_answers
        self.has_begun = False
        self._begin, self._on_event = begin, on_event
        self._events: Events | None = None
        self._error: BaseException | None = None
        self._is_stopped = False

    @property
    def was_stopped_early(self) -> bool:
        """Whether the answer was stopped before it began."""
        return self._is_stopped and not self.has_begun

    def stop(self, error: EngineError | None = None) -> None:
        """End the answer before its next round, without a further event; from any thread.

        error: to be raised by `done`.
        """
        self._error = self._error or error
        self._is_stopped = True

    def run_next_step(self) -> bool:
        """Run one round, or read one chunk of the prompt; return whether the answer goes on."""
        try:
            if self._is_stopped:
                self._close_events()
                return False
            if not self.has_begun:
                self.has_begun = True
                self._events = cast(Events, self._begin())
            for event in self._events or ():
                self._on_event(event)
                if isinstance(event, TURN_ENDS):
                    return True
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:  # extensions in Rust raise no Exception
            self._error = error
            self._close_events()
        return False

    def finish(self) -> None:
        """Complete the future `done`, with the answer's error if there was one."""
        if self._error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self._error)

    def _close_events(self) -> None:
        if self._events is not None:
            self._events.close()


class EngineThread:
    """Serves the engine in use, which `use` replaces, until `close`.

    most_at_once: clients that are answered at once; most_waiting: clients that may wait for their
    turn. after_each_step: called after a round of every answer, and after work while idle.
    report_error: called with errors without a caller.
    """

    def __init__(
        self,
        open_engine: "Callable[[], Engine] | None" = None,
        most_at_once: int = 4,
        most_waiting: int = 64,
        after_each_step: Callable[[], None] = lambda: None,
        report_error: Callable[[BaseException], None] = lambda error: log.error("", exc_info=error),
    ) -> None:
        """open_engine: called on the thread at its start; `opened` ends with its error, or None."""
        self._open, self._after_turns, self._report = open_engine, after_each_step, report_error
        self._parallel, self._most = most_at_once, most_at_once + most_waiting
        self._changed = threading.Condition()
        self._urgent, self._calls = deque[Callable[[], None]](), deque[Callable[[], None]]()
        self._idle = deque[Callable[[], bool]]()
        self._answers = list[QueuedAnswer]()
        self._current: QueuedAnswer | None = None
        self._thread = threading.Thread(target=self.run, name="engine")
        self.is_closing = False
        self.opened = Future[None]()
        self.engine: Engine | None = None
        self.description: ModelDescription | None = None

    # for any thread

    @property
    def running_answers(self) -> int:
        """Number of answers to clients, as over HTTP, that are being generated."""
        return min(self._client_answers, self._parallel)

    @property
    def waiting_answers(self) -> int:
        """Number of answers to clients, as over HTTP, that wait for an earlier one to end."""
        return max(0, self._client_answers - self._parallel)

    @property
    def _client_answers(self) -> int:
        return sum(answer.chat is None for answer in tuple(self._answers))

    def start(self) -> None:
        """Start a thread that serves until `close`; or call `run` in a thread of your own."""
        self._thread.start()

    def run_soon(self, function: Callable[[], None]) -> None:
        """Run a function on the thread, before the next round of any answer, or inside a load."""
        with self._changed:
            self._urgent.append(function)
            self._changed.notify()

    def call(self, function: "Callable[[Engine], T]") -> Future[T]:
        """Run a function on the thread, before the next round of any answer. Raises NoModel."""
        future = Future[T]()

        def run() -> None:
            try:
                future.set_result(function(self.engine_in_use()))
            except INTERPRETER_EXITS:
                raise
            except BaseException as error:
                future.set_exception(error)

        with self._changed:
            self._check_open()
            self._calls.append(run)
            self._changed.notify()
        return future

    def answer(
        self,
        begin: "Callable[[Engine], Iterator[Event]]",
        on_event: Callable[[Event], None],
        chat: str | None = None,
        *,
        runs_alone: bool = False,
    ) -> QueuedAnswer:
        """Ask for an answer, whose events `begin` makes; chat, runs_alone: as in Answering.

        begin and on_event are called on the engine's thread; events come in order, none of them
        after `done`. Raises Busy.
        """
        asked = QueuedAnswer(
            lambda: begin(self.engine_in_use()), on_event, chat, runs_alone=runs_alone
        )
        with self._changed:
            self._check_open()
            if chat is None and self._client_answers >= self._most:
                raise TooManyAnswers(
                    "{count} answers are running or waiting, which is the limit: ask again later.",
                    count=self._client_answers,
                )
            self._answers.append(asked)
            self._changed.notify()
        return asked

    def close(self) -> None:
        """Stop all answers, close the engine and end `run`; join the thread if `start` made it."""
        with self._changed:
            self.is_closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _check_open(self) -> None:
        if self.is_closing:
            raise EngineMisuse("The engine is closing: start the program again.")

    # for the engine's thread

    def engine_in_use(self) -> "Engine":
        """Return the engine. Raises NoModel."""
        if self.engine is None:
            raise NoModel("No model is loaded: open one, then ask again.")
        return self.engine

    def use_engine(self, engine: "Engine | None", cache: CacheOptions = UNQUANTISED) -> None:
        """Serve another engine, or None, from now on, and close the present one.

        Kernels are compiled while nothing is answered; cache: bits of the KV caches by then.
        """
        if engine is not None:
            engine.give_way_to(self.has_other_work)
            warm_up = partial(engine.warm_up, self.has_other_work, cache)
            self.when_idle(lambda: engine is not self.engine or warm_up())
        old, self.engine = self.engine, engine
        self.description = None if engine is None else engine.description
        if old is not None:
            old.close()

    def queue_engine_change(self, function: Callable[[], None]) -> QueuedAnswer:
        """Queue a function that calls `use`, behind the answers of chats queued so far.

        Running answers of clients end with an error; waiting ones run afterwards.
        """

        def begin() -> Iterator[Event]:
            words = "The model was changed or unloaded while it answered: ask again."
            self.end_client_answers(EngineMisuse(words))
            function()
            return iter(())

        asked = QueuedAnswer(begin, lambda _: None, "", runs_alone=True, ends_client_answers=True)
        with self._changed:
            waiting = [a for a in self._answers if a.chat is None and not a.has_begun]
            early = [answer for answer in self._answers if answer not in waiting]
            self._answers = [*early, asked, *waiting]
        return asked

    def end_client_answers(self, error: EngineError, *, includes_waiting: bool = False) -> None:
        """End clients' running answers, with `includes_waiting` waiting ones too, with an error."""
        for guest in [
            a for a in self._answers if a.chat is None and (a.has_begun or includes_waiting)
        ]:
            guest.stop(error)
            guest.run_next_step()
            self._remove(guest)

    def when_idle(self, function: Callable[[], bool]) -> None:
        """Run a function while nothing is answered, again and again until it returns True."""
        self._idle.append(function)

    @property
    def is_answering(self) -> bool:
        """Whether answers are running or waiting."""
        return bool(self._answers)

    def has_other_work(self) -> bool:
        """Whether the thread has anything to do besides the answer that runs now."""
        others = any(answer is not self._current for answer in self._answers)
        return bool(self._urgent or self._calls or self.is_closing or others)

    def run_posted_functions(self) -> None:
        """Run functions of `run_soon` and remove answers stopped early; also during loads."""
        for _ in range(len(self._urgent)):
            self._run_and_report_errors(self._urgent.popleft())
        for answer in [answer for answer in self._answers if answer.was_stopped_early]:
            self._remove(answer)

    def run(self) -> None:
        """Serve until `close`, on the calling thread."""
        try:
            if self._open is not None:
                self.use_engine(self._open())
        except BaseException as error:
            self.opened.set_exception(error)
            return
        self.opened.set_result(None)
        try:
            while self._wait():
                self._run_all_posted_functions()
                for answer in self._runnable_answers():
                    self._run_answer_step(answer)
                if self._idle and not self.has_other_work():
                    self._run_and_report_errors(self._work_while_idle)
                self._run_and_report_errors(self._after_turns)
        finally:
            for answer in self._answers:
                answer.stop()
                answer.run_next_step()
                answer.finish()
            self._run_and_report_errors(lambda: self.use_engine(None))
            while self._calls:
                self._calls.popleft()()

    def _wait(self) -> bool:
        """Wait for something to do; False when the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self.has_other_work())
            return not self.is_closing

    def _run_all_posted_functions(self) -> None:
        self.run_posted_functions()
        while self._calls:
            self._calls.popleft()()

    def _runnable_answers(self) -> list[QueuedAnswer]:
        """Answers whose turn it is: those that need not wait for an earlier one."""
        found, chats, guests = list[QueuedAnswer](), set[str](), 0
        for answer in self._answers:
            if answer.runs_alone:
                is_next = not chats if answer.ends_client_answers else not found
                return [answer] if is_next else found
            if answer.chat is None:
                guests += 1
                if guests > self._parallel:
                    continue
            elif answer.chat in chats:
                continue
            else:
                chats.add(answer.chat)
            found.append(answer)
        return found

    def _run_answer_step(self, answer: QueuedAnswer) -> None:
        if self.is_closing or answer not in self._runnable_answers():  # held up meanwhile
            return
        self._current = answer
        goes_on = answer.run_next_step()
        self._current = None
        if not goes_on:
            self._remove(answer)
        self._run_all_posted_functions()

    def _remove(self, answer: QueuedAnswer) -> None:
        with self._changed:
            self._answers.remove(answer)
        answer.finish()

    def _work_while_idle(self) -> None:
        work = self._idle.popleft()
        if not work():
            self._idle.appendleft(work)

    def _run_and_report_errors(self, function: Callable[[], None]) -> None:
        try:
            function()
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            self._report(error)
