"""Requests on their way to the engine's thread; putting one never waits."""

from collections import deque
from collections.abc import Callable
from threading import Condition

from app.worker.requests import CloseChat, LoadModel, Question, Request, Shutdown


class Inbox:
    """A queue whose reader may also look at what waits while it is busy. Safe from any thread."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._changed = Condition()

    def put(self, request: Request) -> None:
        """Add a request; Shutdown goes before everything else."""
        with self._changed:
            if isinstance(request, Shutdown):
                self._waiting.appendleft(request)
            else:
                self._waiting.append(request)
            self._changed.notify()

    def next(self) -> Request:
        """The oldest request, waiting for one if need be."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            return self._waiting.popleft()

    def take(self, wanted: Callable[[Request], bool]) -> tuple[Request, ...]:
        """Remove and return the wanted requests that wait, oldest first."""
        if not self._waiting:  # looked at once a round: no lock when nothing waits
            return ()
        with self._changed:
            taken = tuple(request for request in self._waiting if wanted(request))
            if taken:
                self._waiting = deque(r for r in self._waiting if not wanted(r))
            return taken

    def take_questions(self, chat_id: str) -> tuple[Question, ...]:
        """Remove and return the chat's questions that wait."""
        taken = self.take(lambda r: isinstance(r, Question) and r.chat_id == chat_id)
        return tuple(r for r in taken if isinstance(r, Question))

    def take_loads(self) -> tuple[LoadModel, ...]:
        """Remove and return the loads that wait."""
        taken = self.take(lambda r: isinstance(r, LoadModel))
        return tuple(r for r in taken if isinstance(r, LoadModel))

    def is_ending(self, chat_id: str | None = None) -> bool:
        """Whether Shutdown waits, or CloseChat of this chat."""
        if not self._waiting:
            return False
        with self._changed:
            return any(
                isinstance(r, Shutdown) or (isinstance(r, CloseChat) and r.chat_id == chat_id)
                for r in self._waiting
            )
