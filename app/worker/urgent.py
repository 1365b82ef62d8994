"""Which waiting requests concern work that runs now, and which ones they make void."""

from collections.abc import Iterable
from typing import NamedTuple

from app.worker.requests import (
    CancelLoad,
    ChangeSettings,
    CloseChat,
    CountTokens,
    LoadModel,
    Question,
    Request,
    StopAnswer,
)

Urgent = StopAnswer | CloseChat | CancelLoad | ChangeSettings | CountTokens
BRIEF = 200_000
"""Characters that are counted in the middle of an answer: a few hundredths of a second."""


class Sifted(NamedTuple):
    """stay: wait on, in order. urgent: act on now. withdrawn: asked for, then taken back."""

    stay: tuple[Request, ...]
    urgent: tuple[Urgent, ...]
    withdrawn: tuple[Question | LoadModel, ...]


def sift(waiting: Iterable[Request], chat_id: str | None) -> Sifted:
    """What cannot wait while chat_id (None: no chat) is being answered.

    A stop, close or cancel takes back only what was asked before it. Settings of another chat
    wait: its questions before them carry their own. Long texts wait to be counted.
    """
    stay: list[Request] = []
    urgent: list[Urgent] = []
    withdrawn: list[Question | LoadModel] = []
    for request in waiting:
        match request:
            case StopAnswer() | CloseChat() | CancelLoad():
                urgent.append(request)
                void = [asked for asked in stay if _takes_back(request, asked)]
                withdrawn += [asked for asked in void if isinstance(asked, Question | LoadModel)]
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
    return isinstance(asked, Question) and asked.chat_id == request.chat_id
