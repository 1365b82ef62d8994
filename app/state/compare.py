"""Answer one prompt with drafting and without, in turn, with the same seed."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.state.chat import ChatState
from app.state.models import ModelState
from app.state.running_answer import RunningAnswer
from app.state.state import State
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn
from app.worker.requests import Ask, CloseChat, Request, StopAnswer
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats

Side = Literal["on", "off"]
SIDES: tuple[Side, Side] = ("on", "off")
CHAT_IDS: dict[Side, str] = {"on": "compare-on", "off": "compare-off"}
Ending = Literal["", "stopped", "failed"]


class Comparison(State):
    """Two answers that are not stored; their caches are freed when both have ended.

    If the first one fails or is stopped, the second is left out. answers: by side, of those begun.
    ending: "stopped" or "failed", "" for neither. problem: why they failed, in words. depth: the
    fixed draft depth, None if drafting chose it.

    Signals:
        changed: it began or ended, or the other side is being answered.
        grown: a side, and the Growth that was added to its answer.
    """

    grown = Signal(str, object)

    def __init__(
        self,
        chat: ChatState,
        models: ModelState,
        request: Callable[[Request], None],
        parent: QObject | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """chat: its settings and last question are used."""
        super().__init__(parent)
        self.chat, self.models = chat, models
        self._request, self._clock = request, clock
        self.answers: dict[Side, RunningAnswer] = {}
        self.running: Side | None = None
        self.seed: int | None = None
        self.depth: int | None = None
        self.ending: Ending = ""
        self.problem = ""
        self._waiting: list[Ask] = []

    @property
    def is_running(self) -> bool:
        """Whether a side is being answered."""
        return self.running is not None

    @property
    def pinned(self) -> int | None:
        """The fixed draft depth of the chat, None if it is automatic or off."""
        match self.chat.settings.draft:
            case DraftOptions(source=source, depth=int(depth)) if depth > 0 and source != "none":
                return depth
        return None

    def stats(self, side: Side) -> GenerationStats | None:
        """Figures of a side that is complete."""
        finished = self.answers[side].finished if side in self.answers else None
        return None if finished is None or finished.reason == "stopped" else finished.stats

    def said(self, side: Side) -> str:
        """Return thinking and text of a side so far, joined for comparing."""
        answer = self.answers.get(side)
        parts = () if answer is None else (answer.thinking.text, answer.answer.text)
        return "\n\n".join(filter(None, parts))

    def run(
        self, prompt: str, pictures: Sequence[Picture] = (), *, as_pinned: bool = False
    ) -> None:
        """Answer a prompt twice with the settings of the chat on show; load a resting model first.

        as_pinned: at the chat's fixed draft depth instead of the automatic one.
        """
        if self.is_running or not self.models.wake():
            return
        settings = self.chat.settings
        own = settings.sampling.seed
        self.seed = random.getrandbits(63) if own is None else own
        self.depth = self.pinned if as_pinned else None
        self.answers, self.ending, self.problem = {}, "", ""
        settings = replace(settings, sampling=replace(settings.sampling, seed=self.seed))
        draft = DraftOptions() if settings.draft.source == "none" else settings.draft
        drafts: dict[Side, DraftOptions] = {
            "on": draft if self.depth else replace(draft, depth="auto"),
            "off": DraftOptions(source="none"),
        }
        said = (Message("user", prompt, images=tuple(pictures)),)
        self._waiting = [
            Ask(CHAT_IDS[side], side, said, replace(settings, draft=drafts[side]), alone=True)
            for side in SIDES
        ]
        self._ask_next()

    def stop(self) -> None:
        """Stop the running side; the waiting one does not begin."""
        self._waiting.clear()
        if self.running is not None:
            self._request(StopAnswer(CHAT_IDS[self.running]))

    def take(self, reply: AnswerEvents | AnswerFailed | AnswerWithdrawn) -> bool:
        """Handle a reply of the engine's thread; False for answers of others."""
        side = next((side for side in SIDES if CHAT_IDS[side] == reply.chat_id), None)
        if side is not None and side == self.running:
            match reply:
                case AnswerEvents():
                    self._grow(side, reply)
                case AnswerFailed():
                    self._end("failed", reply.problem.words)
                case AnswerWithdrawn():
                    self._end("stopped")
        return side is not None

    def _grow(self, side: Side, reply: AnswerEvents) -> None:
        answer = self.answers[side]
        self.grown.emit(side, answer.take(reply.events, self._clock()))
        if answer.finished is None:
            return
        if answer.finished.reason == "stopped":
            self._end("stopped")
        elif self._waiting:
            self._ask_next()
        else:  # perhaps stopped just as the first ended
            self._end("" if len(self.answers) == len(SIDES) else "stopped")

    def _ask_next(self) -> None:
        ask = self._waiting.pop(0)
        side: Side = "on" if ask.chat_id == CHAT_IDS["on"] else "off"
        self.running, self.answers[side] = side, RunningAnswer(0, 0)
        self.changed.emit()
        self._request(ask)

    def _end(self, ending: Ending, problem: str = "") -> None:
        self.running, self.ending, self.problem = None, ending, problem
        self._waiting.clear()
        for chat_id in CHAT_IDS.values():
            self._request(CloseChat(chat_id))
        self.changed.emit()
