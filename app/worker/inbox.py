"""Requests on their way to the engine's thread: putting one never waits, some cannot wait."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition
from typing import NamedTuple

from app.worker.replies import AnswerWithdrawn, LoadCancelled, Reply
from app.worker.requests import (
    Ask,
    CancelLoad,
    ChangeSettings,
    CloseChat,
    CountTokens,
    LoadModel,
    Request,
    Shutdown,
    StopAnswer,
)

Urgent = StopAnswer | CloseChat | CancelLoad | ChangeSettings | CountTokens
BRIEF = 200_000
"""Characters that are counted in the middle of an answer: a few hundredths of a second."""


class Sifted(NamedTuple):
    """stay: wait on, in order. urgent: act on now. withdrawn: asked for, then taken back."""

    stay: tuple[Request, ...]
    urgent: tuple[Urgent, ...]
    withdrawn: tuple[Ask | LoadModel, ...]


def sift(waiting: Iterable[Request], chat_id: str | None) -> Sifted:
    """What cannot wait while chat_id (None: no chat) is being answered.

    A stop, close or cancel takes back only what was asked before it. Settings of another chat
    wait: its questions before them carry their own. Long texts wait to be counted.
    """
    stay: list[Request] = []
    urgent: list[Urgent] = []
    withdrawn: list[Ask | LoadModel] = []
    for request in waiting:
        match request:
            case StopAnswer() | CloseChat() | CancelLoad():
                urgent.append(request)
                void = [asked for asked in stay if _takes_back(request, asked)]
                withdrawn += [asked for asked in void if isinstance(asked, Ask | LoadModel)]
                stay = [asked for asked in stay if asked not in void]
            case ChangeSettings() if request.chat_id == chat_id:
                urgent.append(request)
            case CountTokens() if chat_id is not None and sum(map(len, request.texts)) <= BRIEF:
                urgent.append(request)
            case _:
                stay.append(request)
    return Sifted(tuple(stay), tuple(urgent), tuple(withdrawn))


def _takes_back(request: StopAnswer | CloseChat | CancelLoad, asked: Request) -> bool:
    if isinstance(request, CancelLoad):
        return isinstance(asked, LoadModel)
    return isinstance(asked, Ask) and asked.chat_id == request.chat_id


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


def interruptions(
    inbox: Inbox, chat_id: str | None, reply: Callable[[Reply], None]
) -> tuple[Urgent, ...]:
    """Requests to act on now, between two events of an answer to chat_id or two slices of a load;
    those that they withdraw are answered here.
    """
    sifted = inbox.sift(chat_id)
    for request in sifted.withdrawn:
        if isinstance(request, LoadModel):
            reply(LoadCancelled(request.path))
        else:
            reply(AnswerWithdrawn(request.chat_id, request.message_id))
    return sifted.urgent
