"""Requests on their way to the engine's thread; putting one never waits."""

from collections import deque
from threading import Condition

from app.worker.requests import Request, Shutdown
from app.worker.urgent import Sifted, sift


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

    def sift(self, chat_id: str | None) -> Sifted:
        """Take out what cannot wait while chat_id is being answered, and what it withdraws."""
        with self._changed:
            sifted = sift(self._waiting, chat_id)
            self._waiting = deque(sifted.stay)
            return sifted

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        with self._changed:
            return not self._waiting

    def is_ending(self) -> bool:
        """Whether Shutdown waits."""
        with self._changed:
            return bool(self._waiting) and isinstance(self._waiting[0], Shutdown)
