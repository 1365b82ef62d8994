"""One answer while it is written: its text, what was drafted of it, and its newest figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.values.chats import DraftedSpan
from mlx_engine.values.events import (
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import GenerationStats, RoundStats


@dataclass(frozen=True, slots=True)
class Growth:
    """What one batch of events added; ends_thinking: the answer itself began after thinking."""

    pieces: tuple[TextPiece, ...] = ()
    rounds: tuple[RoundStats, ...] = ()
    ends_thinking: bool = False


@dataclass(slots=True)
class Words:
    """Text that grows, and which of it was drafted."""

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
        """This is the whole text after all; spans outside of it go."""
        self.text = text
        self.spans = [span for span in self.spans if span.end <= len(text)]


class RunningAnswer:
    """The answer `message_id` of a chat; times are seconds of one clock."""

    def __init__(
        self,
        chat_id: int,
        message_id: int,
        text: str = "",
        thinking: str = "",
        spans: Sequence[DraftedSpan] = (),
        thinking_seconds: float | None = None,
    ) -> None:
        """text, thinking, spans, thinking_seconds: of what there is of an answer that goes on."""
        self.chat_id = chat_id
        self.message_id = message_id
        self.answer = Words(text, list(spans))
        self.thinking = Words(thinking)
        self.progress: PromptProgress | None = None
        self.finished: GenerationFinished | None = None
        self.tokens = 0
        self._thought_before = thinking_seconds
        self._thought_from: float | None = None
        self._thought_until: float | None = None
        self._first_round_at: float | None = None
        self._last_round_at: float | None = None

    def take(self, events: Iterable[Event], now: float) -> Growth:
        """Grow by a batch of events that arrived at `now`."""
        pieces, rounds = [], []
        thought = self._thought_until is not None
        for event in events:
            match event:
                case PromptProgress():
                    self.progress = event
                case TextPiece():
                    self._add(event, now)
                    pieces.append(event)
                case RoundFinished():
                    self._count(event.stats, now)
                    rounds.append(event.stats)
                case GenerationFinished():
                    self._finish(event, now)
        ends_thinking = self._thought_until is not None and not thought
        return Growth(tuple(pieces), tuple(rounds), ends_thinking)

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
        """The first round's tokens came before its time was taken, so they do not count."""
        if self._first_round_at is None:
            self._first_round_at = now
        else:
            self.tokens += stats.emitted
        self._last_round_at = now

    def _finish(self, finished: GenerationFinished, now: float) -> None:
        self._end_thinking(now)
        self.finished = finished
        self.answer.settle(finished.text)
        self.thinking.settle(finished.thinking)

    @property
    def stats(self) -> GenerationStats | None:
        """Figures of the whole answer once it is finished."""
        return None if self.finished is None else self.finished.stats

    @property
    def speaks_not_yet(self) -> bool:
        """Whether the prompt is still being read."""
        return self._first_round_at is None

    @property
    def thinking_seconds(self) -> float | None:
        """How long it thought; None while it does, or when it did not."""
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
        if self._first_round_at is None or self._last_round_at is None or not self.tokens:
            return None
        seconds = self._last_round_at - self._first_round_at
        return self.tokens / seconds if seconds > 0 else None
