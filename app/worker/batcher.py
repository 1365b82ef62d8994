"""Joins the events of an answer into batches, at most 30 a second."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from app.worker.pace import INTERVAL_S, Pace
from mlx_engine.values.events import (
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)


class Batcher:
    """For one answer. The first event, the first round and the last event do not wait.

    Text waits for the end of its round, which follows at once, so no word is held back longer
    than one round past the interval.
    """

    def __init__(
        self, clock: Callable[[], float] = monotonic, interval_s: float = INTERVAL_S
    ) -> None:
        self._pace = Pace(clock, interval_s)
        self._has_round = False
        self._progress: PromptProgress | None = None
        self._pieces: list[TextPiece] = []
        self._rounds: list[RoundFinished] = []

    def add(self, event: Event) -> tuple[Event, ...]:
        """The batch that is due with this event, empty when none is."""
        match event:
            case PromptProgress():
                self._progress = event
                return self._if_due(at_once=event.done >= event.total)
            case TextPiece():
                self._add_text(event)
                return ()
            case RoundFinished():
                self._rounds.append(event)
                is_first, self._has_round = not self._has_round, True
                return self._if_due(at_once=is_first)
            case GenerationFinished():
                return (*self.rest(), event)

    def rest(self) -> tuple[Event, ...]:
        """Everything not yet handed out: the newest progress, then text, then rounds."""
        progress = () if self._progress is None else (self._progress,)
        batch: tuple[Event, ...] = (*progress, *self._pieces, *self._rounds)
        self._progress, self._pieces, self._rounds = None, [], []
        return batch

    def _add_text(self, piece: TextPiece) -> None:
        """Pieces of the same channel, drafter and depth become one."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and replace(last, text="") == replace(piece, text=""):
            self._pieces[-1] = replace(last, text=last.text + piece.text)
        else:
            self._pieces.append(piece)

    def _if_due(self, *, at_once: bool) -> tuple[Event, ...]:
        return self.rest() if self._pace.is_due(at_once=at_once) else ()
