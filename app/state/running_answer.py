"""One running answer: text, thinking, tool calls and figures, built from the engine's events."""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar, DraftedSpan, EndedAnswer
from app.values.tools import OfferedTool, ToolResult, ToolUse, answer_messages, gap_after, steps_of
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import GenerationStats, RoundStats, joined_stats


@dataclass(frozen=True, slots=True)
class Growth:
    """What one batch of events added to an answer.

    ends_thinking: the answer's text began after thinking. uses: all tool calls of the answer if one
    was added or changed, else none.
    """

    pieces: tuple[TextPiece, ...] = ()
    rounds: tuple[RoundStats, ...] = ()
    ends_thinking: bool = False
    uses: tuple[ToolUse, ...] = ()


@dataclass(slots=True)
class GrowingText:
    """A growing text with the spans that were drafted."""

    text: str = ""
    spans: list[DraftedSpan] = field(default_factory=list)

    def add(self, piece: TextPiece) -> None:
        """Append a piece; adjacent spans of one depth and drafter are joined."""
        start, self.text = len(self.text), self.text + piece.text
        if piece.depth < 1 or not piece.text:
            return
        last = self.spans[-1] if self.spans else None
        if last is not None and last[1:] == (start, piece.depth, piece.source):
            start = self.spans.pop().start
        self.spans.append(DraftedSpan(start, len(self.text), piece.depth, piece.source))

    def settle(self, text: str) -> None:
        """Set the final text; spans beyond it are dropped, all spans if the text differs."""
        if not self.text.startswith(text):
            self.spans.clear()
        self.text = text
        while self.spans and self.spans[-1].end > len(text):
            self.spans.pop()


NOTHING = AnswerSoFar()


class RunningAnswer:
    """The running answer with the id `message_id`; times are seconds of one clock.

    is_reading: `progress` is current; within an answer it is that of a draft model that begins.
    uses: tool calls so far. offered: tools that can be called. is_asked: the engine is working on
    it.
    """

    def __init__(
        self,
        chat_id: int,
        message_id: int,
        before: AnswerSoFar = NOTHING,
        stats_before: GenerationStats | None = None,
    ) -> None:
        """before, stats_before: text and figures of an answer that is continued."""
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
        """Process a batch of events that arrived at `now`; return what was added."""
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

    def tool_of(self, use: ToolUse) -> OfferedTool | None:
        """Return the tool of a call, None if the model was offered none of that name."""
        return next((tool for tool in self.offered if tool.tool.name == use.name), None)

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
        """Add the tool calls at the end of a step; the answer is not over then, unless stopped."""
        ends = len(self.answer.text), len(self.thinking.text)
        number = self.uses[-1].step + 1 if self.uses else 0
        for call in finished.calls:
            use = ToolUse(call.name, call.arguments, call.id, "", "", "new", number, *ends)
            tool = self.tool_of(use)
            self.uses.append(replace(use, key=tool.key) if tool else use)
        if finished.calls and finished.reason in ("end", "stop-string"):
            self.finished, self._stats_before = None, finished.stats
            self._first_round_at = self._last_round_at = None
            self._tokens = 0
            self._begin_step()

    def _begin_step(self) -> None:
        """Begin the text that follows tool calls."""
        *_, self._step = steps_of(self.answer.text, self.thinking.text, self.uses)
        for grown, start in (
            (self.answer, self._step.text_start),
            (self.thinking, self._step.thinking_start),
        ):
            if len(grown.text) < start:
                grown.text += gap_after(grown.text)

    @property
    def next_use(self) -> int | None:
        """Index in `uses` of the first call without a result, None for none."""
        return next((n for n, use in enumerate(self.uses) if not use.is_over), None)

    def drop_call(self) -> None:
        """Cancel the running or waiting tool call."""
        if self.call is not None:
            self.call.cancel()
        if (place := self.next_use) is not None:
            self.uses[place] = replace(self.uses[place], state="new")

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages for the engine: the past, and the text of an answer that is continued."""
        said = answer_messages(self.answer.text, self.thinking.text, self.uses)
        return self.past if self._before == NOTHING and not self.uses else (*self.past, *said)

    @property
    def stats(self) -> GenerationStats | None:
        """Figures of the whole answer once it is finished."""
        return None if self.finished is None else worth_telling(self.finished.stats)

    @property
    def so_far(self) -> AnswerSoFar:
        """The present state of the answer."""
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
        """Seconds of thinking; None while thinking or without any."""
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
    """Return the figures of an answer, None if it was stopped before its first token."""
    return stats if stats is not None and stats.generated_tokens else None
