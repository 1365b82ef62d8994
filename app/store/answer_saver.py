"""Saves an answer while it is being written, often enough that a crash costs less than 2 s."""

import time
from collections.abc import Callable, Sequence

from app.store.messages import Messages
from app.values.chats import DraftedSpan

SAVE_EVERY_S = 0.5


class AnswerSaver:
    """Keeps the newest text of one answer and saves it when the last save is long enough ago.

    Call `show` with each change and `tick` from a timer at least once a second: a model may pause
    right after a piece of text that is not saved yet. A save that fails raises StoreError and is
    tried again after the same time; the answer goes on. End with Messages.finish_answer.
    """

    def __init__(
        self,
        messages: Messages,
        message_id: int,
        every_s: float = SAVE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._messages = messages
        self._message_id = message_id
        self._every_s = every_s
        self._clock = clock
        self._last_try = clock()
        self._unsaved = False
        self._text, self._thinking = "", ""
        self._spans: Sequence[DraftedSpan] = ()
        self._thinking_seconds: float | None = None

    def show(
        self,
        text: str,
        thinking: str = "",
        spans: Sequence[DraftedSpan] = (),
        thinking_seconds: float | None = None,
    ) -> None:
        """All of the answer so far."""
        self._text, self._thinking, self._spans = text, thinking, spans
        self._thinking_seconds = thinking_seconds
        self._unsaved = True
        self.tick()

    def tick(self) -> None:
        """Save what is new, if it is time."""
        now = self._clock()
        if not self._unsaved or now - self._last_try < self._every_s:
            return
        self._last_try = now
        self._messages.save_partial(
            self._message_id, self._text, self._thinking, self._spans, self._thinking_seconds
        )
        self._unsaved = False
