"""Requests on their way to the engine's thread: putting one never waits, some cannot wait."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
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
    UnloadModel,
)

Urgent = StopAnswer | CloseChat | CancelLoad | ChangeSettings | CountTokens | Ask
BRIEF = 200_000
"""Characters that are counted during answers, in a few hundredths of a second."""


class Sifted(NamedTuple):
    """Sorted waiting requests. stay: in order. urgent: to handle now. withdrawn: cancelled ones."""

    stay: tuple[Request, ...]
    urgent: tuple[Urgent, ...]
    withdrawn: tuple[Ask | LoadModel, ...]


def sift(waiting: Iterable[Request], answering: Collection[Ask]) -> Sifted:
    """Sort waiting requests by what cannot wait while these questions are answered (none: a model
    is loading).

    A question of another chat is answered at the same time, unless it or a running one is `alone`,
    or such a question or a model was requested before it. A stop, close or cancel withdraws only
    what was requested before it. Settings of a chat whose question waits stay, since the question
    carries its own. Long texts are counted later.
    """
    stay: list[Request] = []
    urgent: list[Urgent] = []
    withdrawn: list[Ask | LoadModel] = []
    chats = {asked.chat_id for asked in answering}
    is_held_up = not answering or any(asked.alone for asked in answering)
    for request in waiting:
        match request:
            case StopAnswer() | CloseChat() | CancelLoad():
                void = [asked for asked in (*urgent, *stay) if _takes_back(request, asked)]
                withdrawn += [asked for asked in void if isinstance(asked, Ask | LoadModel)]
                stay = [asked for asked in stay if asked not in void]
                urgent = [*(asked for asked in urgent if asked not in void), request]
            case ChangeSettings(chat_id) if chat_id in chats or (
                answering and not _asks(stay, chat_id)
            ):
                urgent.append(request)
            case CountTokens() if answering and sum(map(len, request.texts)) <= BRIEF:
                urgent.append(request)
            case Ask(chat_id) if not (
                is_held_up or request.alone or chat_id in chats or _asks((*urgent, *stay), chat_id)
            ):
                urgent.append(request)
            case _:
                stay.append(request)
                is_held_up = is_held_up or _holds_up(request)
    return Sifted(tuple(stay), tuple(urgent), tuple(withdrawn))


def _asks(requests: Iterable[Request], chat_id: str) -> bool:
    return any(isinstance(asked, Ask) and asked.chat_id == chat_id for asked in requests)


def _holds_up(request: Request) -> bool:
    """Whether later requests have to wait for this one."""
    return (
        request.alone if isinstance(request, Ask) else isinstance(request, LoadModel | UnloadModel)
    )


def _takes_back(request: StopAnswer | CloseChat | CancelLoad, asked: Request) -> bool:
    if isinstance(request, CancelLoad):
        return isinstance(asked, LoadModel)
    return isinstance(asked, Ask) and asked.chat_id == request.chat_id


class Inbox:
    """Queue of requests whose reader can also handle urgent ones while busy. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._changed = Condition()

    def put(self, request: Request) -> None:
        """Add a request; Shutdown goes first."""
        with self._changed:
            if isinstance(request, Shutdown):
                self._waiting.appendleft(request)
            else:
                self._waiting.append(request)
            self._changed.notify()

    def next(self) -> Request:
        """Remove and return the oldest request; waits for one."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            return self._waiting.popleft()

    def sift(self, answering: Collection[Ask]) -> Sifted:
        """Remove the urgent and the withdrawn requests while these questions are answered."""
        with self._changed:
            sifted = sift(self._waiting, answering)
            self._waiting = deque(sifted.stay)
            return sifted

    def is_empty(self) -> bool:
        """Whether no request waits."""
        with self._changed:
            return not self._waiting

    def is_ending(self) -> bool:
        """Whether Shutdown waits."""
        with self._changed:
            return bool(self._waiting) and isinstance(self._waiting[0], Shutdown)


def interruptions(
    inbox: Inbox, answering: Collection[Ask], reply: Callable[[Reply], None]
) -> tuple[Urgent, ...]:
    """Return the requests to handle now, between two events or two slices of a load; withdrawn ones
    are replied to here.
    """
    sifted = inbox.sift(answering)
    for request in sifted.withdrawn:
        if isinstance(request, LoadModel):
            reply(LoadCancelled(request.path))
        else:
            reply(AnswerWithdrawn(request.chat_id, request.message_id))
    return sifted.urgent
