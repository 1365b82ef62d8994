"""Where the terminal's text goes: answers to stdout, all else beside it, colours where they fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from mlx_engine.command_line.figures import depth_in_effect, ending_words, status_line
from mlx_engine.values.conversation import (
    Channel,
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import RoundStats

NOTE = "dim"
THINKING = "dim italic"
WARNING = "yellow"
PROMPT_MARK = "› "
DEPTH_COLOURS = (
    *("#677973", "#5b7c71", "#4d7f6e", "#3f816b"),
    *("#308367", "#208563", "#10865f", "#00865a"),
)
"""One hue, deeper with depth, all of the lightness that is readable on black and on white alike."""

_CONTROLS = dict.fromkeys(
    (*range(32), 127, *range(128, 160), *range(0xD800, 0xE000)), "\N{REPLACEMENT CHARACTER}"
)
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}


def harmless(text: str) -> str:
    """`text` without control characters and lone surrogates: it must not steer the terminal."""
    return text.translate(_CONTROLS | _KEPT)


@dataclass(slots=True)
class Screen:
    """answers: the console of the model's words; notes: of everything else.

    tints: whether drafted words are coloured by depth; without colours it changes nothing.
    """

    answers: Console
    notes: Console
    tints: bool = True

    @property
    def has_colours(self) -> bool:
        """Colours reach the reader."""
        return self.answers.color_system is not None

    def note(self, text: str, style: str = NOTE) -> None:
        """One line that is not the model's."""
        self.notes.print(Text(harmless(text), style=style), soft_wrap=True)

    def piece(self, text: str, style: str = "") -> None:
        """A piece of an answer, as it comes."""
        self.answers.print(Text(harmless(text), style=style), end="", soft_wrap=True)

    def depth_style(self, depth: int) -> str:
        """How a word drafted at `depth` looks; the model's own words (0) are plain."""
        if not self.tints or depth == 0:
            return ""
        return DEPTH_COLOURS[min(depth, len(DEPTH_COLOURS)) - 1]

    def legend(self, deepest: int) -> None:
        """What the colours mean."""
        words = Text.assemble(("Drafted words by depth:", NOTE))
        for depth in range(1, deepest + 1):
            words.append(f" {depth}", style=self.depth_style(depth))
        self.notes.print(words)

    def progress(self, text: str) -> None:
        """Replace the present line, at a terminal only; `text` empty clears it."""
        if self.notes.is_terminal:
            start = Control.move_to_column(0)
            self.notes.control(start, Control((ControlType.ERASE_IN_LINE, 2)))
            self.notes.print(Text(text, style=NOTE), end="", soft_wrap=True)


def make_screen(stdout: TextIO, stderr: TextIO, *, plain: bool) -> Screen:
    """Notes share stdout at a terminal and step aside to stderr when stdout is piped."""
    answers = _console(stdout, plain)
    notes = answers if stdout.isatty() else _console(stderr, plain)
    return Screen(answers, notes)


def _console(stream: TextIO, plain: bool) -> Console:
    return Console(
        file=stream,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


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
