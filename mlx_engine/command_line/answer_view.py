"""Shows one answer while it comes: text, then the figures under it."""

from collections.abc import Iterable

from mlx_engine.command_line.figures import depth_in_effect, ending_words, status_line
from mlx_engine.command_line.screen import THINKING, WARNING, Screen
from mlx_engine.values.events import (
    Channel,
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import RoundStats

SHORT_PROMPT = 512
"""Prompts up to this many new tokens are read too fast to report on."""


def show_answer(events: Iterable[Event], screen: Screen) -> None:
    """Print an answer to its end; whatever is raised leaves the cursor on a fresh line."""
    view = _AnswerView(screen)
    try:
        for event in events:
            view.show(event)
    finally:
        view.end_line()


class _AnswerView:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._channel: Channel = "answer"
        self._line_is_open = False
        self._reading = False
        self._last_round: RoundStats | None = None

    def show(self, event: Event) -> None:
        match event:
            case PromptProgress():
                self._show_progress(event)
            case TextPiece():
                self._show_piece(event)
            case RoundFinished():
                self._last_round = event.stats
            case GenerationFinished():
                self._show_figures(event)

    def end_line(self) -> None:
        """Make sure that what follows starts at the left."""
        self._clear_progress()
        if self._line_is_open:
            self._screen.piece("\n")
            self._line_is_open = False

    def _show_progress(self, event: PromptProgress) -> None:
        if event.total - event.reused > SHORT_PROMPT and event.done < event.total:
            self._reading = True
            self._screen.progress(f"Reading the prompt: {event.done} of {event.total} tokens")

    def _clear_progress(self) -> None:
        if self._reading:
            self._screen.progress("")
            self._reading = False

    def _show_piece(self, piece: TextPiece) -> None:
        self._clear_progress()
        if piece.channel != self._channel:
            self.end_line()
            self._channel = piece.channel
        thinking = piece.channel == "thinking"
        self._screen.piece(
            piece.text, THINKING if thinking else self._screen.depth_style(piece.depth)
        )
        if piece.text:
            self._line_is_open = not piece.text.endswith("\n")

    def _show_figures(self, finished: GenerationFinished) -> None:
        self.end_line()
        last = self._last_round
        self._screen.note(f"{status_line(finished.stats)} · depth {depth_in_effect(last)}")
        if last is not None and last.why is not None:
            self._screen.note(last.why.words, WARNING)
        ending = ending_words(finished.reason)
        if ending:
            self._screen.note(ending[0].upper() + ending[1:] + ".", WARNING)
