"""Chat titles written by the model in use when it is idle."""

import re
from collections.abc import Callable
from contextlib import suppress

from PySide6.QtCore import QObject, QTimer

from app.state.answers import Answers
from app.state.chat_list import ChatListState
from app.state.compare import Comparison
from app.state.models import ModelState
from app.state.running_answer import RunningAnswer
from app.state.settings import KeptSettings
from app.store.chats import title_from
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.errors import StoreError
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn, Problem
from app.worker.requests import Ask, CloseChat, Request, StopAnswer
from mlx_engine.values.conversation import GenerationFinished, Message
from mlx_engine.values.options import GenerationOptions

CHAT_ID = "title"
FEWEST_PARAMETERS = 500_000_000
"""Models with fewer parameters write no titles."""
READ_CHARACTERS = 600
"""Characters of the question and of the answer that the model reads."""
PROMPT = (
    "Here is the beginning of a conversation.\n\nUser: {question}\n\nAssistant: {answer}\n\n"
    "Reply with a title for it, in the language of the user: two to six words, no quotation "
    "marks, nothing else."
)
SETTINGS = ChatSettings(
    sampling=SamplingChoice(temperature=0.0),
    generation=GenerationOptions(max_tokens=12),
    thinking=False,
)
IDLE_MS = 1000
"""Idle milliseconds of the model before a title is written."""


def title_in(answer: str, is_cut: bool) -> str:
    """Return the title in an answer, "" if there is none; a cut answer loses its last word."""
    line = next((line for line in answer.splitlines() if line.strip()), "")
    line = re.sub(r"^\W*title\s*:", "", line, flags=re.IGNORECASE).strip(" \t\"'*#“”„«».")
    if is_cut and "\n" not in answer.strip():
        line = line.rpartition(" ")[0]
    return line.strip(" ,;:-–")


class Titles(QObject):
    """Names chats after their first answer, unless the user has named them."""

    def __init__(
        self,
        store: SessionStore,
        chats: ChatListState,
        answers: Answers,
        comparison: Comparison,
        models: ModelState,
        settings: KeptSettings,
        request: Callable[[Request], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._chats, self._answers = store, chats, answers
        self._comparison, self._models, self._settings = comparison, models, settings
        self._request = request
        self._wanted: list[int] = []
        self._running: int | None = None
        self._asked = 0
        self._idle = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._idle.timeout.connect(self._begin)
        answers.ended.connect(self._want)
        for work in (answers, comparison, models):
            work.changed.connect(self._wait)

    def take(self, reply: AnswerEvents | AnswerFailed | AnswerWithdrawn) -> bool:
        """Handle a reply of the engine's thread; False for answers of others."""
        if reply.chat_id != CHAT_ID:
            return False
        events = reply.events if isinstance(reply, AnswerEvents) else ()
        ends = [event for event in events if isinstance(event, GenerationFinished)]
        if ends or not isinstance(reply, AnswerEvents):
            self._request(CloseChat(CHAT_ID))
            if self._running is not None and reply.message_id == str(self._asked):
                chat_id, self._running = self._running, None
                for end in ends:
                    self._name(chat_id, title_in(end.text, end.reason == "max-tokens"))
                self._wait()
        return True

    def _want(self, answer: RunningAnswer, problem: Problem | None) -> None:
        if problem is None:
            self._wanted.append(answer.chat_id)

    def _wait(self) -> None:
        """Restart the idle timer; a title being written gives way to answers."""
        self._idle.stop()
        is_busy = bool(self._answers.chat_ids) or self._comparison.is_running
        is_away = self._models.description is None
        if is_busy or is_away or self._models.loading is not None:
            if self._running is not None:
                self._wanted.append(self._running)
                self._running = None
                self._request(StopAnswer(CHAT_ID))
        elif self._wanted and self._running is None:
            self._idle.start()

    def _begin(self) -> None:
        model, wanted = self._models.description, self._wanted
        is_able = model is not None and model.parameters >= FEWEST_PARAMETERS
        if not is_able or not self._settings.value.write_titles:
            wanted.clear()
        while wanted and self._running is None:
            chat_id = wanted.pop()
            begun = self._beginning_of(chat_id)
            if begun is not None:
                self._running = chat_id
                self._asked += 1
                self._request(Ask(CHAT_ID, str(self._asked), (begun,), SETTINGS))

    def _beginning_of(self, chat_id: int) -> Message | None:
        """Make the prompt for a title; None if the chat has more answers or a user's title."""
        with suppress(StoreError):
            turns = self._store.messages.path(chat_id)
            if len(turns) == 2 and self._has_first_words(chat_id, turns[0].message.text):
                texts = [turn.message.text[:READ_CHARACTERS] for turn in turns]
                return Message("user", PROMPT.format(question=texts[0], answer=texts[1]))
        return None

    def _has_first_words(self, chat_id: int, question: str) -> bool:
        return self._store.chats.get(chat_id).title == title_from(question)

    def _name(self, chat_id: int, title: str) -> None:
        with suppress(StoreError):
            turns = self._store.messages.path(chat_id)
            if title and turns and self._has_first_words(chat_id, turns[0].message.text):
                self._chats.rename(chat_id, title)
