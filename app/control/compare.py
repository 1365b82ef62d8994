"""Runs one prompt with drafting and without, in turn, with the same seed."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from PySide6.QtCore import QObject, Signal

from app.state.answers import RunningAnswer
from app.state.chat import ChatState
from app.state.models import ModelState
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
    """The two answers are kept out of the store; their caches go when both are over. What ends the
    first early leaves out the second.

    Signal `changed`: a comparison began or is over.
    """

    changed = Signal()

    def __init__(
        self,
        view: CompareView,
        models: ModelState,
        request: Callable[[Request], None],
        chat: ChatState,
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
        self._complete = 0
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
        if not self.is_running:
            self._view.show_ready("" if self._models.can_answer else NO_MODEL)

    def begin(self) -> None:
        """With the last question of the chat on show as the prompt; what is typed since stays until
        another question is the last.
        """
        chat, asked = self._chat, self._chat.last_question
        begun_with = (chat.chat_id, asked.id if asked else None)
        if begun_with != self._begun_with:
            self._begun_with = begun_with
            self._view.show_prompt(asked.text if asked else "")
        self._view.show_pinned(_pinned(chat.settings.draft))

    def run(self, prompt: str) -> None:
        """Answer `prompt` twice, as the chat on show would; a model that rests is loaded first."""
        if self.is_running or not self._models.wake():
            return
        settings = self._chat.settings
        own = settings.sampling.seed
        seed = random.getrandbits(63) if own is None else own
        settings = replace(settings, sampling=replace(settings.sampling, seed=seed))
        self._view.begin(seed)
        self._complete = 0
        drafts: dict[Side, DraftOptions] = {
            "on": _drafting(settings.draft, self._view.wants_pinned),
            "off": DraftOptions(source="none"),
        }
        said = (Message("user", prompt),)
        self._waiting = [
            Ask(CHAT_IDS[side], side, said, replace(settings, draft=draft), alone=True)
            for side, draft in drafts.items()
        ]
        self._ask_next()

    def stop(self) -> None:
        """End what runs; a side that waits does not begin."""
        self._waiting.clear()
        if self._running is not None:
            self._request(StopAnswer(CHAT_IDS[self._running]))

    def take(self, reply: AnswerReply) -> bool:
        """A reply of the engine's thread; False when it is about an answer of somebody else."""
        side = next((side for side, chat_id in CHAT_IDS.items() if chat_id == reply.chat_id), None)
        if side is None:
            return False
        if side != self._running:
            return True
        match reply:
            case AnswerEvents():
                self._grow(side, reply)
            case AnswerFailed():
                words = reply.problem.words
                self._end(lambda: self._view.show_failed(words))
            case AnswerWithdrawn():
                self._end(self._view.show_stopped)
        return True

    def _grow(self, side: Side, reply: AnswerEvents) -> None:
        answer = self._answer
        growth = answer.take(reply.events, self._clock())
        for channel, pieces in groupby(growth.pieces, lambda piece: piece.channel):
            text = "".join(piece.text for piece in pieces)
            self._view.add_text(side, text, channel == "thinking")
        finished, speed = answer.finished, answer.tokens_per_second
        if finished is None and speed is not None:
            self._view.show_speed(side, speed)
        elif finished is not None and finished.reason == "stopped":
            self._end(self._view.show_stopped)
        elif finished is not None:
            self._view.finish_side(side, finished.stats)
            self._complete += 1
            self._end()

    def _end(self, early: Callable[[], None] | None = None) -> None:
        """On to the side that waits, or to the end of both; early: says why this one is not whole,
        which ends both.
        """
        if self._waiting and early is None:
            self._ask_next()
            return
        self._leave()
        if self._complete < len(CHAT_IDS):  # perhaps stopped just as the first ended
            (early or self._view.show_stopped)()

    def _ask_next(self) -> None:
        ask = self._waiting.pop(0)
        side: Side = "on" if ask.chat_id == CHAT_IDS["on"] else "off"
        self._running, self._answer = side, RunningAnswer(0, 0)
        self.changed.emit()
        self._view.begin_side(side)
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
