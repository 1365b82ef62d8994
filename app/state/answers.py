"""Running and waiting answers of all chats: begin, stream, save, and end them."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.start.threads import IdleQueue
from app.state.running_answer import Growth, RunningAnswer
from app.state.state import State
from app.state.tools import Tools
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.values.chats import EndedAnswer, MessageState, StoredMessage
from app.values.errors import NoSuchChat, StoreDamaged, StoreError
from app.values.tools import (
    MOST_CALLS,
    TOO_MANY,
    OfferedTool,
    ToolResult,
    ToolUse,
    UseState,
)
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn, Problem
from app.worker.requests import Ask, Request, StopAnswer
from mlx_engine.values.conversation import FinishReason, Message
from mlx_engine.values.errors import PromptTooLong
from mlx_engine.values.words import Words

TICK_MS = 500
PATIENCE_S = 10.0
"""Seconds the end of the program waits for a file that cannot be written."""
RETRY_S = 0.1
CLOSED = Words("Headstart was closed while this was being written.")
WITHDRAWN = Words("Stopped before it was begun.")


class Answers(State):
    """Runs answers: stores each before it begins, and every half second while it grows.

    Storing and ending an answer are events of their own in the event loop, because long answers
    take milliseconds. An ended answer that cannot be stored is tried again every half second.

    Signals:
        grown: a RunningAnswer and the Growth that was added.
        ended: a RunningAnswer and the Problem that ended it, None for success.
        changed: another set of chats is being answered.
        failed: a StoreError in words, once an answer.
        mended: the same words, once the answer could be stored after all.
    """

    grown = Signal(object, object)
    ended = Signal(object, object)

    def __init__(
        self,
        store: SessionStore,
        request: Callable[[Request], None],
        clock: Callable[[], float] = time.monotonic,
        parent: QObject | None = None,
        tools: Tools | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._tools = tools or Tools(parent=self)
        self._request = request
        self._clock = clock
        self._running: dict[int, RunningAnswer] = {}
        self._unsaved: set[int] = set()
        self._told: dict[int, str] = {}
        self._turns = IdleQueue(self)
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._save_what_grew)

    @property
    def chat_ids(self) -> frozenset[int]:
        """Ids of the chats that are being answered."""
        return frozenset(answer.chat_id for answer in self._running.values())

    def of_chat(self, chat_id: int | None) -> RunningAnswer | None:
        """Return the running answer of a chat, None for none."""
        found = (a for a in self._running.values() if a.chat_id == chat_id)
        return next(found, None)

    def begin(
        self,
        answer: RunningAnswer,
        past: tuple[Message, ...],
        settings: ChatSettings,
        *,
        drops_oldest: bool = False,
    ) -> None:
        """Let the engine answer the last of `past`, or continue the answer's present text.

        drops_oldest: as in Ask.
        """
        self._running[answer.message_id] = answer
        answer.past, answer.settings = past, settings
        servers = settings.tool_servers
        self._tools.gather(servers, lambda tools: self._ask(answer, tools, drops_oldest))
        self._timer.start()
        self.changed.emit()

    def _ask(
        self, answer: RunningAnswer, tools: tuple[OfferedTool, ...], drops_oldest: bool = False
    ) -> None:
        """Send an answer to the engine again after its tool calls."""
        answer.offered = tools
        if self._running.get(answer.message_id) is not answer:
            return
        if answer.next_use is not None:
            self._go_on_calling(answer)
            return
        answer.is_asked = True
        self._request(
            Ask(
                str(answer.chat_id),
                str(answer.message_id),
                answer.messages,
                answer.settings,
                drops_oldest=drops_oldest,
                tools=tuple(offered.tool for offered in tools),
            )
        )

    # tool calls

    def _go_on_calling(self, answer: RunningAnswer) -> None:
        """Make the next tool call, or ask the user; after the last one the engine continues."""
        place = answer.next_use
        if place is None:
            self._ask(answer, answer.offered)
            return
        if answer.calls_made == MOST_CALLS:
            self._interrupt(answer, None, TOO_MANY)
            return
        use = answer.uses[place]
        tool = answer.tool_of(use)
        if tool is None:
            self._put_result(answer, ToolResult(f"There is no tool “{use.name}”.", True))
        elif tool.permission in answer.settings.allowed_tools:
            self._call(answer, tool)
        else:
            self._put_use(answer, replace(use, key=tool.key, state="asked"))

    def decide(self, message_id: int, settings: ChatSettings, *, is_allowed: bool) -> None:
        """Run or refuse the tool call that an answer waits for; settings: of its chat."""
        answer = self._running.get(message_id)
        place = answer.next_use if answer is not None else None
        if answer is None or place is None or answer.uses[place].state != "asked":
            return
        allowed = settings.allowed_tools
        answer.settings = replace(answer.settings, allowed_tools=allowed)
        tool = answer.tool_of(answer.uses[place])
        if tool is not None and is_allowed:
            self._call(answer, tool)
        else:
            self._put_result(answer, ToolResult("The user did not allow this call."), "denied")

    def _call(self, answer: RunningAnswer, tool: OfferedTool) -> None:
        place = answer.next_use
        assert place is not None
        use = replace(answer.uses[place], key=tool.key, state="running")
        self._put_use(answer, use)
        answer.call = self._tools.call(
            tool, use.arguments, lambda result: self._put_result(answer, result)
        )

    def _put_result(
        self, answer: RunningAnswer, result: ToolResult, state: UseState | None = None
    ) -> None:
        place = answer.next_use
        if place is None or self._running.get(answer.message_id) is not answer:
            return
        ended: UseState = state or ("failed" if result.is_failed else "done")
        answer.call = None
        answer.calls_made += 1
        self._put_use(answer, replace(answer.uses[place], result=result.text, state=ended))
        self._go_on_calling(answer)

    def _put_use(self, answer: RunningAnswer, use: ToolUse) -> None:
        """Show and store the present state of the running tool call."""
        place = answer.next_use
        assert place is not None
        answer.uses[place] = use
        messages = self._store.messages
        self._saving(answer, lambda: messages.save_partial(answer.message_id, answer.so_far))
        self.grown.emit(answer, Growth(uses=tuple(answer.uses)))

    def go_on(
        self,
        cut: StoredMessage,
        past: tuple[Message, ...],
        settings: ChatSettings,
        *,
        drops_oldest: bool = False,
    ) -> None:
        """Continue the cut answer `cut`, to the last of `past`, in place. Raises StoreError."""
        self._store.messages.save_partial(cut.id, cut.so_far)
        answer = RunningAnswer(cut.chat_id, cut.id, cut.so_far, cut.stats)
        self.begin(answer, past, settings, drops_oldest=drops_oldest)

    def stop(self, chat_id: int) -> None:
        """End a chat's answer after its round; its text is kept."""
        answer = self.of_chat(chat_id)
        if answer is None:
            return
        if answer.is_asked:
            self._request(StopAnswer(str(chat_id)))
        elif answer.finished is None:  # it waits for a tool, or for leave to call it
            answer.drop_call()
            self._save_end(answer, EndedAnswer(answer.so_far, "stopped", "stopped"))
            self._end(answer, None)

    def keep_all(self) -> dict[int, str]:
        """Store all running answers before the program ends, trying for PATIENCE_S.

        Return the texts of answers that could not be stored, by message id.
        """
        for answer in list(self._running.values()):
            if answer.finished is None:
                self._interrupt(answer, None, CLOSED)
            else:
                self._keep(answer)
                self._end(answer, None)
        end = time.monotonic() + PATIENCE_S
        while self._store.messages.unwritten and time.monotonic() < end:
            time.sleep(RETRY_S)
            self._write_again()
        self._timer.stop()
        return {of: ended.so_far.text for of, ended in self._store.messages.unwritten.items()}

    def take(self, reply: AnswerEvents | AnswerFailed | AnswerWithdrawn) -> None:
        """Handle a reply of the engine's thread about an answer; unknown answers are ignored."""
        answer = self._running.get(int(reply.message_id))
        if answer is None:
            return
        if not isinstance(reply, AnswerWithdrawn):
            answer.model = reply.model or answer.model
        match reply:
            case AnswerEvents():
                self._grow(answer, reply)
            case AnswerFailed():
                self._interrupt(answer, reply.problem, reply.problem.words)
            case AnswerWithdrawn():
                self._interrupt(answer, None, WITHDRAWN)

    def _grow(self, answer: RunningAnswer, reply: AnswerEvents) -> None:
        growth = answer.take(reply.events, self._clock())
        self._unsaved.add(answer.message_id)
        self.grown.emit(answer, growth)
        if answer.finished is not None:
            self._turns.do(lambda: self._finish(answer))
        elif not answer.is_asked:
            self._go_on_calling(answer)

    def _finish(self, answer: RunningAnswer) -> None:
        """Store the answer, and end it in the next event of the event loop."""
        if answer.message_id in self._unsaved:
            self._keep(answer)
            self._turns.do(lambda: self._finish(answer))
        elif answer.message_id in self._running:
            self._end(answer, None)

    def _keep(self, answer: RunningAnswer) -> None:
        finished = answer.finished
        assert finished is not None
        state: MessageState = "stopped" if finished.reason == "stopped" else "done"
        ended = EndedAnswer(answer.so_far, state, finished.reason, finished.stats)
        self._unsaved.discard(answer.message_id)
        self._save_end(answer, ended)

    def _interrupt(self, answer: RunningAnswer, problem: Problem | None, why: str) -> None:
        answer.drop_call()
        is_full = problem is not None and problem.code == PromptTooLong.__name__
        reason: FinishReason | None = "context-full" if is_full else None
        self._save_end(answer, EndedAnswer(answer.so_far, "stopped", reason, None, why))
        self._end(answer, problem)

    def _save_end(self, answer: RunningAnswer, ended: EndedAnswer) -> None:
        answer.ended = ended
        messages = self._store.messages
        self._saving(answer, lambda: messages.end_answer(answer.message_id, ended))

    def _end(self, answer: RunningAnswer, problem: Problem | None) -> None:
        del self._running[answer.message_id]
        self._unsaved.discard(answer.message_id)
        self._stop_if_idle()
        self.ended.emit(answer, problem)
        self.changed.emit()

    def _stop_if_idle(self) -> None:
        if not self._running and not self._store.messages.unwritten:
            self._timer.stop()

    def _save_what_grew(self) -> None:
        """Store partial answers; a failed one is tried again at the next tick."""
        messages = self._store.messages
        self._write_again()
        for answer in [self._running[message_id] for message_id in self._unsaved]:
            if answer.finished is None and self._saving(
                answer, partial(messages.save_partial, answer.message_id, answer.so_far)
            ):
                self._unsaved.remove(answer.message_id)

    def _write_again(self) -> None:
        """Try again to store answers that have ended."""
        unwritten = self._store.messages.unwritten
        waiting = list(unwritten)
        with suppress(StoreError):
            self._store.messages.write_again()
        for message_id in waiting:
            if message_id not in unwritten:
                self._tell_saved(message_id)
        self._stop_if_idle()

    def _tell_saved(self, message_id: int) -> None:
        words = self._told.pop(message_id, None)
        if words is not None:
            self.mended.emit(words)

    def _saving(self, answer: RunningAnswer, save: Callable[[], object]) -> bool:
        """Run `save`; return False if it failed, which is announced once an answer."""
        try:
            save()
        except StoreError as error:
            if answer.message_id not in self._told:
                is_lost = isinstance(error, NoSuchChat | StoreDamaged)
                waits = Words("{error} The answer stays here until it is saved.", error=str(error))
                self._told[answer.message_id] = words = str(error) if is_lost else waits
                self.failed.emit(words)
            return False
        self._tell_saved(answer.message_id)
        return True
