"""Runs one prompt with drafting and without, one after the other, with the same seed."""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from PySide6.QtCore import QObject, Signal

from app.control.answers import RunningAnswer
from app.control.models import ModelController
from app.control.open_chat import OpenChat
from app.window.compare.compare_view import CompareView, Side
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn
from app.worker.requests import Ask, CloseChat, Request, StopAnswer
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.words import Words

CHAT_IDS: dict[Side, str] = {"on": "compare-on", "off": "compare-off"}
NO_MODEL = Words("Open or drop a model first.")
AnswerReply = AnswerEvents | AnswerFailed | AnswerWithdrawn


class CompareController(QObject):
    """The two answers are kept out of the store; their caches go when both are complete.

    Signal `changed`: a comparison began or is over.
    """

    changed = Signal()

    def __init__(
        self,
        view: CompareView,
        models: ModelController,
        request: Callable[[Request], None],
        chat: Callable[[], OpenChat],
        parent: QObject | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._view, self._models, self._request = view, models, request
        self._chat, self._clock = chat, clock
        self._begun_with: tuple[int | None, int | None] = (None, None)
        self._waiting: list[Ask] = []
        self._running: Side | None = None
        self._answer = RunningAnswer(0, 0)
        view.run_wanted.connect(self.run)
        view.stop_wanted.connect(self.stop)
        models.changed.connect(self.refresh)
        self.refresh()

    @property
    def is_running(self) -> bool:
        """Whether a side is being answered."""
        return self._running is not None

    def refresh(self) -> None:
        """Say whether something can be run."""
        if self._running is None:
            self._view.show_ready("" if self._models.can_answer else NO_MODEL)

    def begin(self) -> None:
        """With the last question of the chat on show as the prompt; what is typed since stays until
        another question is the last.
        """
        chat, asked = self._chat(), self._chat().last_question
        begun_with = (chat.chat_id, asked.id if asked else None)
        if begun_with != self._begun_with:
            self._begun_with = begun_with
            self._view.show_prompt(asked.text if asked else "")
        self._view.show_pinned(_pinned(chat.settings.draft))

    def run(self, prompt: str) -> None:
        """Answer `prompt` twice, as the chat on show would; a model that rests is loaded first."""
        if self._running is not None or not self._models.wake():
            return
        settings = self._chat().settings
        own = settings.sampling.seed
        seed = secrets.randbits(63) if own is None else own
        sampling = replace(settings.sampling, seed=seed)
        self._view.begin(seed)
        drafts: dict[Side, DraftOptions] = {
            "on": _drafting(settings.draft, self._view.wants_pinned),
            "off": DraftOptions(source="none"),
        }
        said = (Message("user", prompt),)
        self._waiting = [
            Ask(
                CHAT_IDS[side],
                side,
                said,
                replace(settings, sampling=sampling, draft=draft),
                alone=True,
            )
            for side, draft in drafts.items()
        ]
        self._next()

    def stop(self) -> None:
        """End the side that runs; the other one does not begin."""
        if self._running is not None:
            self._waiting.clear()
            self._request(StopAnswer(CHAT_IDS[self._running]))

    def take(self, reply: AnswerReply) -> bool:
        """A reply of the engine's thread; False when it is about an answer of somebody else."""
        side = next((side for side, chat_id in CHAT_IDS.items() if chat_id == reply.chat_id), None)
        if side is None:
            return False
        match reply:
            case AnswerEvents():
                self._grow(side, reply)
            case AnswerFailed():
                self._leave()
                self._view.show_failed(reply.problem.words)
            case AnswerWithdrawn():
                self._end_early()
        return True

    def _grow(self, side: Side, reply: AnswerEvents) -> None:
        growth = self._answer.take(reply.events, self._clock())
        for channel, pieces in groupby(growth.pieces, lambda piece: piece.channel):
            text = "".join(piece.text for piece in pieces)
            self._view.add_text(side, text, channel == "thinking")
        finished, speed = self._answer.finished, self._answer.tokens_per_second
        if finished is None and speed is not None:
            self._view.show_speed(side, speed)
        elif finished is not None and finished.reason == "stopped":
            self._end_early()
        elif finished is not None:
            self._view.finish_side(side, finished.stats)
            self._next(side)

    def _end_early(self) -> None:
        self._leave()
        self._view.show_stopped()

    def _next(self, done: Side | None = None) -> None:
        """The side that waits; one that was stopped just as the first ended does not."""
        if not self._waiting and done == "off":
            self._leave()
        elif not self._waiting:
            self._end_early()
        else:
            self._ask_next()

    def _ask_next(self) -> None:
        ask = self._waiting.pop(0)
        self._running = "on" if ask.chat_id == CHAT_IDS["on"] else "off"
        self._answer = RunningAnswer(0, 0)
        self.changed.emit()
        self._view.begin_side(self._running)
        self._request(ask)

    def _leave(self) -> None:
        self._running = None
        self._waiting.clear()
        self.changed.emit()
        for chat_id in CHAT_IDS.values():
            self._request(CloseChat(chat_id))


def _pinned(draft: DraftOptions) -> int | None:
    """The depth at which the chat always drafts, None where it chooses or does not draft."""
    match draft.depth:
        case int(depth) if depth > 0 and draft.source != "none":
            return depth
    return None


def _drafting(draft: DraftOptions, as_pinned: bool) -> DraftOptions:
    """The chat's own drafting, at the automatic depth; the usual one where it is switched off."""
    if draft.source == "none":
        return DraftOptions()
    return draft if as_pinned and _pinned(draft) else replace(draft, depth="auto")
