"""All answers that run or wait: asked for, grown by what the engine reports, saved, ended."""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.control.running_answer import RunningAnswer
from app.store.messages import AnswerSaver
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.values.chats import StoredMessage
from app.values.errors import StoreError
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn, Problem
from app.worker.requests import Ask, ContinueAnswer, Request, StopAnswer
from mlx_engine.values.conversation import Message

TICK_MS = 500
CLOSED = "Headstart was closed while this was being written. Continue goes on from here."
WITHDRAWN = "Stopped before it was begun."


class Answers(QObject):
    """Stores every answer before it is begun, and every half second while it grows.

    Signals:
        grown: a RunningAnswer and the Growth that was added.
        ended: a RunningAnswer and the Problem that ended it, None when all went well.
        changed: another set of chats is being answered.
        not_saved: a StoreError in words, once an answer.
    """

    grown = Signal(object, object)
    ended = Signal(object, object)
    changed = Signal()
    not_saved = Signal(str)

    def __init__(
        self,
        store: SessionStore,
        request: Callable[[Request], None],
        clock: Callable[[], float] = time.monotonic,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._request = request
        self._clock = clock
        self._running: dict[int, RunningAnswer] = {}
        self._savers: dict[int, AnswerSaver] = {}
        self._unsaved: set[int] = set()
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def chat_ids(self) -> frozenset[int]:
        """Chats that are being answered."""
        return frozenset(answer.chat_id for answer in self._running.values())

    def of_chat(self, chat_id: int | None) -> RunningAnswer | None:
        """The answer a chat waits for."""
        found = (a for a in self._running.values() if a.chat_id == chat_id)
        return next(found, None)

    def ask(
        self,
        question: StoredMessage,
        past: tuple[Message, ...],
        settings: ChatSettings,
        model: str,
    ) -> RunningAnswer:
        """Answer `question`, the last of `past`. Raises StoreError before anything is asked."""
        answer_id = self._store.messages.begin_answer(question.chat_id, question.id, model)
        answer = RunningAnswer(question.chat_id, answer_id)
        self._begin(answer)
        self._request(Ask(str(answer.chat_id), str(answer_id), past, settings))
        return answer

    def go_on(
        self, cut: StoredMessage, past: tuple[Message, ...], settings: ChatSettings
    ) -> RunningAnswer:
        """Continue the answer `cut`, the last of `past`, in place. Raises StoreError."""
        so_far = cut.text, cut.thinking, cut.spans, cut.thinking_seconds
        self._store.messages.save_partial(cut.id, *so_far)
        answer = RunningAnswer(cut.chat_id, cut.id, *so_far)
        self._begin(answer)
        self._request(ContinueAnswer(str(cut.chat_id), str(cut.id), past, settings))
        return answer

    def stop(self, chat_id: int) -> None:
        """End a chat's answer after its round; what there is stays."""
        if chat_id in self.chat_ids:
            self._request(StopAnswer(str(chat_id)))

    def keep_all(self) -> None:
        """The program ends: keep what there is of every answer."""
        for answer in list(self._running.values()):
            self._interrupt(answer, None, CLOSED)

    def take(self, reply: AnswerEvents | AnswerFailed | AnswerWithdrawn) -> None:
        """What the engine's thread says about an answer; about an unknown one nothing is done."""
        answer = self._running.get(int(reply.message_id))
        if answer is None:
            return
        match reply:
            case AnswerEvents():
                self._grow(answer, reply)
            case AnswerFailed():
                self._interrupt(answer, reply.problem, reply.problem.words)
            case AnswerWithdrawn():
                self._interrupt(answer, None, WITHDRAWN)

    def _begin(self, answer: RunningAnswer) -> None:
        self._running[answer.message_id] = answer
        self._savers[answer.message_id] = AnswerSaver(self._store.messages, answer.message_id)
        self._timer.start()
        self.changed.emit()

    def _grow(self, answer: RunningAnswer, reply: AnswerEvents) -> None:
        growth = answer.take(reply.events, self._clock())
        saver, words = self._savers[answer.message_id], answer.answer
        if answer.finished is None:
            self._saving(
                answer,
                lambda: saver.show(
                    words.text, answer.thinking.text, tuple(words.spans), answer.thinking_seconds
                ),
            )
            self.grown.emit(answer, growth)
            return
        finished = answer.finished
        self.grown.emit(answer, growth)
        self._saving(
            answer,
            lambda: self._store.messages.finish_answer(
                answer.message_id, finished, words.spans, answer.thinking_seconds
            ),
        )
        self._end(answer, None)

    def _interrupt(self, answer: RunningAnswer, problem: Problem | None, why: str) -> None:
        words = answer.answer
        self._saving(
            answer,
            lambda: self._store.messages.interrupt_answer(
                answer.message_id,
                words.text,
                answer.thinking.text,
                words.spans,
                answer.thinking_seconds,
                why,
            ),
        )
        self._end(answer, problem)

    def _end(self, answer: RunningAnswer, problem: Problem | None) -> None:
        del self._running[answer.message_id], self._savers[answer.message_id]
        self._unsaved.discard(answer.message_id)
        if not self._running:
            self._timer.stop()
        self.ended.emit(answer, problem)
        self.changed.emit()

    def _tick(self) -> None:
        for message_id, saver in list(self._savers.items()):
            self._saving(self._running[message_id], saver.tick)

    def _saving(self, answer: RunningAnswer, save: Callable[[], object]) -> None:
        """The answer goes on when it cannot be saved; that is said once."""
        try:
            save()
        except StoreError as error:
            if answer.message_id not in self._unsaved:
                self._unsaved.add(answer.message_id)
                self.not_saved.emit(str(error))
