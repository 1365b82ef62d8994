"""All answers that run or wait: asked for, grown by what the engine reports, saved, ended."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.start.threads import Turns
from app.state.state import State
from app.state.tools import Tools
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.values.chats import (
    AnswerSoFar,
    DraftedSpan,
    EndedAnswer,
    MessageState,
    StoredMessage,
)
from app.values.errors import NoSuchChat, StoreDamaged, StoreError
from app.values.tools import (
    MOST_CALLS,
    TOO_MANY,
    OfferedTool,
    ToolResult,
    ToolUse,
    UseState,
    answer_messages,
    gap_after,
    steps_of,
)
from app.worker.replies import AnswerEvents, AnswerFailed, AnswerWithdrawn, Problem
from app.worker.requests import Ask, Request, StopAnswer
from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    GenerationFinished,
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.errors import PromptTooLong
from mlx_engine.values.stats import GenerationStats, RoundStats, joined_stats
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class Growth:
    """What one batch of events added; ends_thinking: the answer itself began after thinking.

    uses: all tool calls of the answer where one was added or has another state, else none.
    """

    pieces: tuple[TextPiece, ...] = ()
    rounds: tuple[RoundStats, ...] = ()
    ends_thinking: bool = False
    uses: tuple[ToolUse, ...] = ()


@dataclass(slots=True)
class GrowingText:
    """A growing text with the spans of it that were drafted."""

    text: str = ""
    spans: list[DraftedSpan] = field(default_factory=list)

    def add(self, piece: TextPiece) -> None:
        """Append a piece; touching spans of one depth and drafter become one."""
        start, self.text = len(self.text), self.text + piece.text
        if piece.depth < 1 or not piece.text:
            return
        last = self.spans[-1] if self.spans else None
        if last is not None and last[1:] == (start, piece.depth, piece.source):
            start = self.spans.pop().start
        self.spans.append(DraftedSpan(start, len(self.text), piece.depth, piece.source))

    def settle(self, text: str) -> None:
        """Set the final text; spans beyond it are dropped, all spans if the text is another."""
        if not self.text.startswith(text):
            self.spans.clear()
        self.text = text
        while self.spans and self.spans[-1].end > len(text):
            self.spans.pop()


NOTHING = AnswerSoFar()


class RunningAnswer:
    """The answer `message_id` of a chat; times are seconds of one clock.

    is_reading: `progress` is of now; in mid-answer it is a draft model's that begins. uses: tool
    calls so far; offered: tools that can be called; is_asked: the engine is at work on it.
    """

    def __init__(
        self,
        chat_id: int,
        message_id: int,
        before: AnswerSoFar = NOTHING,
        stats_before: GenerationStats | None = None,
    ) -> None:
        """before, stats_before: text and figures of an answer that goes on."""
        self.chat_id = chat_id
        self.message_id = message_id
        self.answer = GrowingText(before.text, list(before.spans))
        self.thinking = GrowingText(before.thinking)
        self.progress: PromptProgress | None = None
        self.is_reading = True
        self.finished: GenerationFinished | None = None
        self.ended: EndedAnswer | None = None
        self.model = before.model
        self.uses = list(before.uses)
        self.offered: tuple[OfferedTool, ...] = ()
        self.is_asked = False
        self.past: tuple[Message, ...] = ()
        self.settings = ChatSettings()
        self.calls_made = 0
        self.call: Future[ToolResult] | None = None
        self._begin_step()
        self._before, self._stats_before = before, stats_before
        self._tokens = 0
        self._prompt_tokens: int | None = None
        self._thought_before = before.thinking_seconds
        self._thought_from: float | None = None
        self._thought_until: float | None = None
        self._first_round_at: float | None = None
        self._last_round_at: float | None = None

    def take(self, events: Iterable[Event], now: float) -> Growth:
        """Grow by a batch of events that arrived at `now`."""
        pieces, rounds, calls = [], [], len(self.uses)
        thought = self._thought_until is not None
        for event in events:
            match event:
                case PromptProgress():
                    self.progress, self.is_reading = event, True
                    if self._first_round_at is None:
                        self._prompt_tokens = event.done
                case TextPiece():
                    self._add(event, now)
                    pieces.append(event)
                case RoundFinished():
                    self._count(event.stats, now)
                    rounds.append(event.stats)
                case GenerationFinished():
                    self._finish(event, now)
        ends_thinking = self._thought_until is not None and not thought
        uses = tuple(self.uses) if len(self.uses) > calls else ()
        return Growth(tuple(pieces), tuple(rounds), ends_thinking, uses)

    def _add(self, piece: TextPiece, now: float) -> None:
        if piece.channel == "thinking":
            self._thought_from = now if self._thought_from is None else self._thought_from
            self.thinking.add(piece)
        else:
            self._end_thinking(now)
            self.answer.add(piece)

    def _end_thinking(self, now: float) -> None:
        if self._thought_from is not None and self._thought_until is None:
            self._thought_until = now

    def _count(self, stats: RoundStats, now: float) -> None:
        """Count the tokens of a round; those of the first came before the clock started."""
        if self._first_round_at is None:
            self._first_round_at = now
        else:
            self._tokens += stats.emitted
        self._last_round_at = now
        self.is_reading = False

    def _finish(self, finished: GenerationFinished, now: float) -> None:
        self._end_thinking(now)
        if self._stats_before is not None:
            stats = joined_stats(self._stats_before, finished.stats)
            finished = replace(finished, stats=stats)
        self.finished, self.is_asked = finished, False
        self.answer.settle(self.answer.text[: self._step.text_start] + finished.text)
        self.thinking.settle(self.thinking.text[: self._step.thinking_start] + finished.thinking)
        self._add_calls(finished)

    def _add_calls(self, finished: GenerationFinished) -> None:
        """Add the calls that end a step; the answer goes on after them unless it was stopped."""
        keys = {offered.tool.name: offered.key for offered in self.offered}
        ends = len(self.answer.text), len(self.thinking.text)
        number = self.uses[-1].step + 1 if self.uses else 0
        for call in finished.calls:
            key = keys.get(call.name, "")
            use = ToolUse(call.name, call.arguments, call.id, key, "", "new", number, *ends)
            self.uses.append(use)
        if finished.calls and finished.reason in ("end", "stop-string"):
            self.finished, self._stats_before = None, finished.stats
            self._first_round_at = self._last_round_at = None
            self._tokens = 0
            self._begin_step()

    def _begin_step(self) -> None:
        """Divide what follows from the calls before it."""
        *_, self._step = steps_of(self.answer.text, self.thinking.text, self.uses)
        for grown, start in (
            (self.answer, self._step.text_start),
            (self.thinking, self._step.thinking_start),
        ):
            if len(grown.text) < start:
                grown.text += gap_after(grown.text)

    @property
    def next_use(self) -> int | None:
        """The place in `uses` of the first call without a result, None where all have one."""
        return next((n for n, use in enumerate(self.uses) if not use.is_over), None)

    def drop_call(self) -> None:
        """Cancel the call that is being made, or is waited for."""
        if self.call is not None:
            self.call.cancel()
        if (place := self.next_use) is not None:
            self.uses[place] = replace(self.uses[place], state="new")

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the engine is asked with: the past, and what there is of an answer that goes on."""
        said = answer_messages(self.answer.text, self.thinking.text, self.uses)
        return self.past if self._before == NOTHING and not self.uses else (*self.past, *said)

    @property
    def stats(self) -> GenerationStats | None:
        """Figures of the whole answer once it is finished."""
        return None if self.finished is None else worth_telling(self.finished.stats)

    @property
    def so_far(self) -> AnswerSoFar:
        """The answer as it is now."""
        spans, seconds = tuple(self.answer.spans), self.thinking_seconds
        text, thinking = self.answer.text, self.thinking.text
        return AnswerSoFar(text, thinking, spans, seconds, self.model, tuple(self.uses))

    @property
    def was_complete(self) -> bool:
        """Whether the answer was continued and ended at once, with nothing to add."""
        before, finished = self._before, self.finished
        is_end = finished is not None and finished.reason == "end" and before != NOTHING
        return is_end and (before.text, before.thinking) == (self.answer.text, self.thinking.text)

    @property
    def context_used(self) -> int | None:
        """Tokens of the conversation so far, None before any was read."""
        return None if self._prompt_tokens is None else self._prompt_tokens + self._tokens

    @property
    def thinking_seconds(self) -> float | None:
        """Seconds of thinking; None while it thinks, or if it did not."""
        if self._thought_from is None:
            return self._thought_before
        if self._thought_until is None:
            return None
        return (self._thought_before or 0.0) + self._thought_until - self._thought_from

    @property
    def tokens_per_second(self) -> float | None:
        """Speed so far; the engine's own figure once it is finished."""
        if self.finished is not None:
            return self.finished.stats.tokens_per_second
        if self._first_round_at is None or self._last_round_at is None or not self._tokens:
            return None
        seconds = self._last_round_at - self._first_round_at
        return self._tokens / seconds if seconds > 0 else None


def worth_telling(stats: GenerationStats | None) -> GenerationStats | None:
    """Return the figures of an answer; None for one that was stopped before its first token."""
    return stats if stats is not None and stats.generated_tokens else None


TICK_MS = 500
PATIENCE_S = 10.0
"""For so long the end of the program waits for a file that cannot be written."""
RETRY_S = 0.1
CLOSED = Words("Headstart was closed while this was being written.")
WITHDRAWN = Words("Stopped before it was begun.")


class Answers(State):
    """Stores every answer before it is begun, and every half second while it grows. Saving it and
    ending it have turns of their own: long ones take milliseconds. One that has ended and cannot
    be saved is tried again every half second.

    Signals:
        grown: a RunningAnswer and the Growth that was added.
        ended: a RunningAnswer and the Problem that ended it, None when all went well.
        changed: another set of chats is being answered.
        failed: a StoreError in words, once an answer.
        saved: those words, when what could not be saved is saved after all.
    """

    grown = Signal(object, object)
    ended = Signal(object, object)
    saved = Signal(object)

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
        self._turns = Turns(self)
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
        """Have the engine answer the last of `past`, or go on with what there is of the answer;
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
        """Have the engine go on with an answer that still runs, once its calls are made."""
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
        """Make the next call, or have its user asked; after the last one the engine goes on."""
        place = answer.next_use
        if place is None:
            self._ask(answer, answer.offered)
            return
        if answer.calls_made == MOST_CALLS:
            self._interrupt(answer, None, TOO_MANY)
            return
        use = answer.uses[place]
        tool = next((tool for tool in answer.offered if tool.tool.name == use.name), None)
        if tool is None:
            self._put_result(answer, ToolResult(f"There is no tool “{use.name}”.", True))
        elif tool.key in answer.settings.allowed_tools:
            self._call(answer, tool)
        else:
            self._put_use(answer, replace(use, key=tool.key, state="asked"))

    def decide(self, message_id: int, settings: ChatSettings, *, is_allowed: bool) -> None:
        """Make the call that an answer waits with, or do not; settings: of its chat now."""
        answer = self._running.get(message_id)
        place = answer.next_use if answer is not None else None
        if answer is None or place is None or answer.uses[place].state != "asked":
            return
        allowed = settings.allowed_tools
        answer.settings = replace(answer.settings, allowed_tools=allowed)
        use = answer.uses[place]
        tool = next((tool for tool in answer.offered if tool.tool.name == use.name), None)
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
        """Show and save the call that is being made as it is now."""
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
        """Continue the answer `cut`, to the last of `past`, in place. Raises StoreError."""
        self._store.messages.save_partial(cut.id, cut.so_far)
        answer = RunningAnswer(cut.chat_id, cut.id, cut.so_far, cut.stats)
        self.begin(answer, past, settings, drops_oldest=drops_oldest)

    def stop(self, chat_id: int) -> None:
        """End a chat's answer after its round; what there is stays."""
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
        """The program ends: keep what there is of every answer, however often that is tried; texts
        of those that could not be saved, by their number.
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
        """What the engine's thread says about an answer; about an unknown one nothing is done."""
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
        """Store the answer, and end it in the next turn of the event loop."""
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
        """Store partial answers; one that cannot be stored is tried again at the next tick."""
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
            self.saved.emit(words)

    def _saving(self, answer: RunningAnswer, save: Callable[[], object]) -> bool:
        """Store something; False if that failed, which is told once an answer."""
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
