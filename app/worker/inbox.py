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
"""Characters that are counted in the middle of answers: a few hundredths of a second."""


class Sifted(NamedTuple):
    """stay: wait on, in order. urgent: act on now. withdrawn: asked for, then taken back."""

    stay: tuple[Request, ...]
    urgent: tuple[Urgent, ...]
    withdrawn: tuple[Ask | LoadModel, ...]


def sift(waiting: Iterable[Request], answering: Collection[Ask]) -> Sifted:
    """What cannot wait while these questions (none: a model is read) are being answered.

    One of another chat is answered beside them, unless one of them is to be answered alone, or such
    a question or a model was asked for before it. A stop, close or cancel takes back only what was
    asked before it. Settings of a chat whose question waits do too: that carries its own. Long
    texts wait to be counted.
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
    """Whether what was asked after it has to wait for it."""
    return (
        request.alone if isinstance(request, Ask) else isinstance(request, LoadModel | UnloadModel)
    )


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

    def sift(self, answering: Collection[Ask]) -> Sifted:
        """Take out what cannot wait while these are being answered, and what it withdraws."""
        with self._changed:
            sifted = sift(self._waiting, answering)
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
    inbox: Inbox, answering: Collection[Ask], reply: Callable[[Reply], None]
) -> tuple[Urgent, ...]:
    """Requests to act on now, between two events of the answers to these or two slices of a load;
    those that they withdraw are answered here.
    """
    sifted = inbox.sift(answering)
    for request in sifted.withdrawn:
        if isinstance(request, LoadModel):
            reply(LoadCancelled(request.path))
        else:
            reply(AnswerWithdrawn(request.chat_id, request.message_id))
    return sifted.urgent
