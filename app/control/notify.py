"""Tells a user who looks elsewhere that a long answer has ended."""

import time
from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, SignalInstance

from app.control.answers import Answers, RunningAnswer
from app.control.settings import KeptSettings
from app.window.language import said, tr
from app.window.system_notice import is_elsewhere
from app.window.transcript.markdown_text import plain_text
from app.worker.replies import Problem

LONG_S = 10.0
"""From so many seconds on, people do something else while they wait."""
MOST = 120
"""Characters of an answer that are told."""


class Notice(Protocol):
    """`SystemNotice`, or what a test has in its place."""

    clicked: SignalInstance

    def show(self, title: str, words: str) -> None:
        """Tell the user, once."""


class NotificationController(QObject):
    """Knows how long answers take, and whether anybody sees them end."""

    def __init__(
        self,
        notice: Notice,
        answers: Answers,
        settings: KeptSettings,
        title_of: Callable[[int], str],
        open_chat: Callable[[int], object],
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_elsewhere: Callable[[], bool] = is_elsewhere,
    ) -> None:
        super().__init__(parent)
        self._notice, self._answers, self._settings = notice, answers, settings
        self._title_of, self._open_chat = title_of, open_chat
        self._clock, self._is_elsewhere = clock, is_elsewhere
        self._since: dict[int, float] = {}
        self._told: int | None = None
        answers.changed.connect(self._watch)
        answers.ended.connect(self._end)
        notice.clicked.connect(self._open)

    def _watch(self) -> None:
        now = self._clock()
        self._since = {chat: self._since.get(chat, now) for chat in self._answers.chat_ids}

    def _end(self, answer: RunningAnswer, problem: Problem | None) -> None:
        now = self._clock()
        took = now - self._since.get(answer.chat_id, now)
        if took < LONG_S or not self._settings.value.notify or not self._is_elsewhere():
            return
        self._told = answer.chat_id
        text = " ".join(plain_text(answer.answer.text[: 2 * MOST]).split())
        start = text if len(text) <= MOST else f"{text[: MOST - 1]}…"
        words = said(problem.words) if problem else start or tr("The answer has ended.")
        self._notice.show(self._title_of(answer.chat_id), words)

    def _open(self) -> None:
        if self._told is not None:
            self._open_chat(self._told)
