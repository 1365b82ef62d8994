"""Runs one answer: its events in batches, and between two events whatever cannot wait."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import cast

from app.worker.batcher import Batcher
from app.worker.contract import ChatSession
from app.worker.effects import Effects
from app.worker.interruptions import Interruptions
from app.worker.kept_chats import KeptChats
from app.worker.problems import problem_of
from app.worker.replies import AnswerEvents, AnswerFailed, Reply
from app.worker.requests import Ask, ChangeSettings, CloseChat, CountTokens, Question, StopAnswer
from mlx_engine.values.events import Event


class Answering:
    """Answers one question after the other, on the engine's thread.

    count: replies how many tokens texts have, beside the answer.
    """

    def __init__(
        self,
        interruptions: Interruptions,
        reply: Callable[[Reply], None],
        count: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._interruptions = interruptions
        self._reply = reply
        self._count = count

    def answer(self, question: Question, chats: KeptChats) -> None:
        """Reply AnswerEvents to the end, or AnswerFailed after what there was."""
        batcher = Batcher()
        try:
            session = chats.open(question.chat_id, question.settings)
            chats.trim()
            effects = Effects(question.chat_id, session, chats, self._reply)
            with closing(_events(session, question)) as events:
                for event in events:
                    batch = batcher.add(event)
                    self._send(question, batch)
                    if batch:
                        effects.tell()
                    self._obey(question.chat_id, session, chats)
        except Exception as error:
            self._send(question, batcher.rest())
            problem = problem_of(error)
            if problem.kind == "bug":
                chats.forget(question.chat_id)  # nobody knows what state it is in: read it anew
            self._reply(AnswerFailed(question.chat_id, question.message_id, problem))

    def _send(self, question: Question, batch: tuple[Event, ...]) -> None:
        if batch:
            self._reply(AnswerEvents(question.chat_id, question.message_id, batch))

    def _obey(self, chat_id: str, session: ChatSession, chats: KeptChats) -> None:
        """Do what was asked since the last event; the session must be inside an answer."""
        for request in self._interruptions.new(chat_id):
            match request:
                case ChangeSettings():
                    chats.change(chat_id, request.settings)
                case CloseChat():
                    chats.forget(request.chat_id)
                case CountTokens():
                    self._count(request.texts)
            if isinstance(request, StopAnswer | CloseChat) and request.chat_id == chat_id:
                session.stop()
        if self._interruptions.is_ending():
            session.stop()


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
