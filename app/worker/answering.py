"""Runs one answer: its events in batches, and between two events whatever cannot wait."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import cast

from app.worker.batcher import Batcher
from app.worker.contract import ChatSession
from app.worker.inbox import Inbox
from app.worker.kept_chats import KeptChats
from app.worker.problems import problem_of
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn, Reply
from app.worker.requests import (
    Ask,
    ChangeSettings,
    Question,
    Request,
    StopAnswer,
)
from mlx_engine.values.events import Event


class Answering:
    """Answers one question after the other, on the engine's thread."""

    def __init__(
        self,
        inbox: Inbox,
        reply: Callable[[Reply], None],
        new_batcher: Callable[[], Batcher] = Batcher,
    ) -> None:
        self._inbox = inbox
        self._reply = reply
        self._new_batcher = new_batcher

    def answer(self, question: Question, chats: KeptChats) -> None:
        """Reply AnswerEvents to the end, or AnswerFailed after what there was."""
        batcher = self._new_batcher()
        try:
            session = chats.open(question.chat_id, question.settings)
            chats.trim()
            with closing(_events(session, question)) as events:
                for event in events:
                    self._send(question, batcher.add(event))
                    self._obey(question.chat_id, session, chats)
        except Exception as error:
            self._send(question, batcher.rest())
            problem = problem_of(error)
            if problem.kind == "bug":
                chats.forget(question.chat_id)  # nobody knows what state it is in: read it anew
            self._reply(AnswerFailed(question.chat_id, question.message_id, problem))

    def withdraw(self, chat_id: str) -> None:
        """Forget the chat's questions that wait."""
        for question in self._inbox.take_questions(chat_id):
            self._reply(AnswerWithdrawn(question.chat_id, question.message_id))

    def _send(self, question: Question, batch: tuple[Event, ...]) -> None:
        if batch:
            self._reply(AnswerEvents(question.chat_id, question.message_id, batch))

    def _obey(self, chat_id: str, session: ChatSession, chats: KeptChats) -> None:
        """Stop, withdraw and change settings as asked since the last event."""
        for request in self._inbox.take(lambda r: _is_urgent(r, chat_id)):
            match request:
                case StopAnswer():
                    self.withdraw(request.chat_id)
                    if request.chat_id == chat_id:
                        session.stop()
                case ChangeSettings():
                    chats.change(chat_id, request.settings)
        if self._inbox.is_ending(chat_id):
            session.stop()


def _is_urgent(request: Request, chat_id: str) -> bool:
    """Whether it cannot wait for the end of this chat's answer.

    Settings of another chat wait: they come after its questions, which carry their own.
    """
    return isinstance(request, StopAnswer) or (
        isinstance(request, ChangeSettings) and request.chat_id == chat_id
    )


def _events(session: ChatSession, question: Question) -> Generator[Event, None, None]:
    """The answer, on a session that knows exactly these messages.

    A session that knows them already is left alone: it continues at the very token it stopped at.
    """
    if session.messages != question.messages:
        session.load_messages(question.messages)
    events: Iterator[Event] = (
        session.regenerate() if isinstance(question, Ask) else session.continue_answer()
    )
    return cast(Generator[Event, None, None], events)
