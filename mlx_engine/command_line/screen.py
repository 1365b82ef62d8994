"""The terminal: answers on stdout, notes on the terminal or stderr, colours where possible."""

import os
import termios
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO
from unicodedata import category

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from mlx_engine.values.conversation import (
    Channel,
    Event,
    FinishReason,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import GenerationStats, RoundStats
from mlx_engine.values.untrusted import without_controls
from mlx_engine.values.words import percent_words

NOTE = "dim"
THINKING = "dim italic"
WARNING = "yellow"
PROMPT_MARK = "› "
DEPTH_COLOURS = (
    *("#677973", "#5b7c71", "#4d7f6e", "#3f816b"),
    *("#308367", "#208563", "#10865f", "#00865a"),
)
"""Colours of drafted words by depth: one hue, readable on black and on white."""

FEWER_COLOURS: Mapping[str, tuple[str, ...]] = {
    "256": ("color(243)", "color(29)", "color(63)", "color(163)"),
    "standard": ("magenta",),
}
"""Colours of drafted words on terminals with 256 or 16 colours."""

SHORT_PROMPT = 512
"""Prompts of up to so many new tokens show no progress."""

ENDINGS: dict[FinishReason, str] = {
    "end": "",
    "stop-string": "Ended at a stop string.",
    "max-tokens": "Stopped at the token limit; /continue goes on.",
    "context-full": "The context is full; /drop skips the oldest turns, /continue goes on.",
    "memory-full": "Memory is full; /drop skips the oldest turns, /continue goes on.",
    "stopped": "Stopped; /continue goes on.",
}
"""Notes on why an answer ended; none where the model was done."""


def status_line(stats: GenerationStats) -> str:
    """Describe an answer's speed, length and drafting in one line."""
    accepted = "nothing drafted"
    if stats.drafted:
        share = percent_words(stats.accepted, stats.drafted)
        accepted = f"accepted {stats.accepted}/{stats.drafted} ({share})"
    return (
        f"{stats.tokens_per_second:.1f} tok/s · {stats.generated_tokens} tok · "
        f"{stats.time_to_first_token_s:.2f} s to the first · {accepted} · "
        f"{stats.tokens_per_pass:.2f} tok/pass"
    )


FENCE = "```"
JOINER = "\N{ZERO WIDTH JOINER}"
OPENING, CLOSING = ("Ps", "Pi"), ("Pe", "Pf", "Po")
"""Unicode categories of characters that must not end a line, and that must not begin one."""


class WordWrap:
    """Wraps streamed text between words and between wide characters; holds back the last word.

    Words wider than a line and fenced code blocks stay in one line, so that they can be copied.
    """

    def __init__(self) -> None:
        self._column = 0
        self._gap, self._word = Text(), Text()
        self._line_start = ""
        self._in_code = False

    def add(self, text: str, style: str, width: int) -> Text:
        """Add streamed text; return what can be printed now, in lines of `width` cells."""
        written = Text()
        for char in text:
            if char == "\n":
                self._end_line(width, written)
                continue
            self._line_start += char if len(self._line_start) < 2 * len(FENCE) else ""
            if self._in_code:
                written.append(char, style)
            elif char in " \t":
                self._end_word(width, written)
                self._gap.append(char, style)
            else:
                if self._can_break_before(char):
                    self._end_word(width, written)
                self._word.append(char, style)
        return written

    def _can_break_before(self, char: str) -> bool:
        last = self._word.plain[-1:]
        if not last or last == JOINER or 2 not in (cell_len(last), cell_len(char)):
            return False
        return (
            cell_len(char) > 0 and category(char) not in CLOSING and category(last) not in OPENING
        )

    def _end_word(self, width: int, written: Text) -> None:
        if not self._word:
            return
        end = self._column + self._gap.cell_len + self._word.cell_len
        if self._column and end > width:
            written.append("\n")
            end = self._word.cell_len
        else:
            written.append_text(self._gap)
        written.append_text(self._word)
        self._column = end if end <= width else (end - 1) % width + 1
        self._gap, self._word = Text(), Text()

    def _end_line(self, width: int, written: Text) -> None:
        self._end_word(width, written)
        written.append("\n")
        if self._line_start.lstrip().startswith(FENCE):
            self._in_code = not self._in_code
        self._column, self._gap, self._line_start = 0, Text(), ""


@dataclass(slots=True)
class Screen:
    """Consoles for answers of the model and for notes, which are all other text.

    wraps: break lines between words, as at a terminal; else text is not changed.
    tints: colour drafted words by depth, where the terminal has colours.
    """

    answers: Console
    notes: Console
    wraps: bool = False
    tints: bool = True
    _wrap: WordWrap = field(default_factory=WordWrap)

    @property
    def takes_codes(self) -> bool:
        """Whether the terminal understands control codes, so that lines can be edited."""
        return self.answers.is_terminal and not self.answers.is_dumb_terminal

    @property
    def width(self) -> int:
        """Cells of a terminal line, also without control codes, where rich does not ask."""
        with suppress(OSError, ValueError):
            return os.get_terminal_size(self.answers.file.fileno()).columns or self.answers.width
        return self.answers.width

    @property
    def depth_colours(self) -> tuple[str, ...]:
        """Colours of drafted words by depth from 1 on, the last for all deeper; or empty."""
        system = self.answers.color_system
        return FEWER_COLOURS.get(system, DEPTH_COLOURS) if system else ()

    def note(self, text: str, style: str = NOTE) -> None:
        """Print a line to the user that is not the model's text."""
        words = Text(without_controls(text), style=style)
        self.notes.print(words, soft_wrap=not self.wraps, width=self.width)

    def piece(self, text: str, style: str = "") -> None:
        """Print a piece of an answer; where lines wrap, hold the last word back until it ends."""
        if self.wraps:
            written = self._wrap.add(without_controls(text), style, self.width)
        else:
            written = Text(without_controls(text), style)
        self.answers.print(written, end="", soft_wrap=True)

    def depth_style(self, depth: int) -> str:
        """Style of a word drafted at a depth; words of depth 0, not drafted, are plain."""
        colours = self.depth_colours
        if not self.tints or not colours or depth == 0:
            return ""
        return colours[min(depth, len(colours)) - 1]

    def legend(self, deepest: int) -> None:
        """Print the colours that drafted words of depth 1 to `deepest` have."""
        words = Text.assemble(("Drafted words by depth:", NOTE))
        last = min(deepest, len(self.depth_colours))
        for depth in range(1, last + 1):
            more = "+" if depth == last < deepest else ""
            words.append(f" {depth}{more}", style=self.depth_style(depth))
        self.notes.print(words)

    def progress(self, text: str) -> None:
        """Replace the terminal's current line by words; "" clears it. Elsewhere print nothing."""
        if self.notes.is_terminal and not self.notes.is_dumb_terminal:
            start = Control.move_to_column(0)
            self.notes.control(start, Control((ControlType.ERASE_IN_LINE, 2)))
            self.notes.print(Text(text, style=NOTE), end="", soft_wrap=True)

    @contextmanager
    def quiet_keys(self) -> Iterator[None]:
        """In this context keep typed keys for the next line; Ctrl-C works and is not shown.

        Where lines are edited, keys are not echoed into the text.
        """
        try:
            terminal = self.answers.file.fileno()
            before = termios.tcgetattr(terminal)
        except (OSError, ValueError, termios.error):
            yield  # no terminal
            return
        changed = before.copy()
        changed[3] &= ~(termios.ECHO if self.takes_codes else termios.ECHOCTL)
        changed[3] |= termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)

    def show_answer(self, events: Iterable[Event]) -> None:
        """Print an answer's events to the end; an error leaves the cursor on a fresh line."""
        self._wrap = WordWrap()
        view = _AnswerView(self)
        try:
            for event in events:
                view.show(event)
        finally:
            view.end_line()


def make_screen(stdout: TextIO, stderr: TextIO, *, plain: bool) -> Screen:
    """Make a screen; notes go to stdout at a terminal, and to stderr when stdout is piped."""
    answers = _console(stdout, plain)
    notes = answers if stdout.isatty() else _console(stderr, plain)
    return Screen(answers, notes, wraps=stdout.isatty())


def _console(stream: TextIO, plain: bool) -> Console:
    return Console(
        file=stream,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


class _AnswerView:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._channel: Channel = "answer"
        self._line_is_open = self._is_reading = False
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
        """End the terminal's current line, if one was begun."""
        self._clear_progress()
        if self._line_is_open:
            self._screen.piece("\n")
            self._line_is_open = False

    def _show_progress(self, event: PromptProgress) -> None:
        if event.total - event.reused > SHORT_PROMPT and event.done < event.total:
            self._is_reading = True
            self._screen.progress(f"Reading the prompt: {event.done} of {event.total} tokens")

    def _clear_progress(self) -> None:
        if self._is_reading:
            self._screen.progress("")
            self._is_reading = False

    def _show_piece(self, piece: TextPiece) -> None:
        self._clear_progress()
        if piece.channel != self._channel:
            self.end_line()
            self._channel = piece.channel
        is_thinking = piece.channel == "thinking"
        style = THINKING if is_thinking else self._screen.depth_style(piece.depth)
        self._screen.piece(piece.text, style)
        if piece.text:
            self._line_is_open = not piece.text.endswith("\n")

    def _show_figures(self, finished: GenerationFinished) -> None:
        self.end_line()
        last = self._last_round
        if finished.stats.generated_tokens:
            self._screen.note(f"{status_line(finished.stats)} · depth {last.depth if last else 0}")
        if last is not None and last.why is not None:
            self._screen.note(last.why.words, WARNING)
        if ENDINGS[finished.reason]:
            self._screen.note(ENDINGS[finished.reason], WARNING)
