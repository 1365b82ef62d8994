"""Where the terminal's text goes: answers to stdout, all else beside it, colours where they fit."""

import os
import termios
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO
from unicodedata import category

from rich.cells import cell_len
from rich.console import Console, ConsoleRenderable
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from mlx_engine.command_line.figures import ENDINGS, status_line
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

FEWER_COLOURS: Mapping[str, tuple[str, ...]] = {
    "256": ("color(243)", "color(29)", "color(63)", "color(163)"),
    "standard": ("magenta",),
}
"""Where a terminal has no more; of 256, four hues, for no one hue has four such colours there."""

_CONTROLS = dict.fromkeys(
    (*range(32), 127, *range(128, 160), *range(0xD800, 0xE000)), "\N{REPLACEMENT CHARACTER}"
)
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}


def harmless(text: str) -> str:
    """`text` without control characters and lone surrogates: it must not steer the terminal."""
    return text.translate(_CONTROLS | _KEPT)


FENCE = "```"
JOINER = "\N{ZERO WIDTH JOINER}"
OPENING, CLOSING = ("Ps", "Pi"), ("Pe", "Pf", "Po")
"""Categories of Unicode that end no line, and those that begin none."""


class WholeWords:
    """Breaks lines between words, and between wide characters; a word waits until it is whole.

    What is wider than a line is left to the terminal, and so are fenced blocks, which are copied.
    """

    def __init__(self) -> None:
        self._column = 0
        self._gap, self._word = Text(), Text()
        self._beginning = ""
        self._in_code = False

    def add(self, text: str, style: str, width: int) -> Text:
        """What can be written now, of this and of what came before; lines have `width` cells."""
        written = Text()
        for sign in text:
            if sign == "\n":
                self._end_line(width, written)
                continue
            self._beginning += sign if len(self._beginning) < 2 * len(FENCE) else ""
            if self._in_code:
                written.append(sign, style)
            elif sign in " \t":
                self._end_word(width, written)
                self._gap.append(sign, style)
            else:
                if self._can_break_before(sign):
                    self._end_word(width, written)
                self._word.append(sign, style)
        return written

    def _can_break_before(self, sign: str) -> bool:
        last = self._word.plain[-1:]
        if not last or last == JOINER or 2 not in (cell_len(last), cell_len(sign)):
            return False
        return (
            cell_len(sign) > 0 and category(sign) not in CLOSING and category(last) not in OPENING
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
        if self._beginning.lstrip().startswith(FENCE):
            self._in_code = not self._in_code
        self._column, self._gap, self._beginning = 0, Text(), ""


@dataclass(slots=True)
class Screen:
    """answers: the console of the model's words; notes: of everything else.

    wraps: whether lines are broken between words, as where a person reads; else nothing is changed.
    tints: whether drafted words are coloured by depth; without colours it changes nothing.
    """

    answers: Console
    notes: Console
    wraps: bool = False
    tints: bool = True
    _words: WholeWords = field(default_factory=WholeWords)

    @property
    def takes_codes(self) -> bool:
        """A terminal where lines can be edited."""
        return self.answers.is_terminal and not self.answers.is_dumb_terminal

    @property
    def width(self) -> int:
        """Cells of a line; rich does not look where a terminal takes no codes."""
        with suppress(OSError, ValueError):
            return os.get_terminal_size(self.answers.file.fileno()).columns or self.answers.width
        return self.answers.width

    @property
    def depth_colours(self) -> tuple[str, ...]:
        """Those of depth 1, 2 and so on, the last for all that are deeper; none without colours."""
        system = self.answers.color_system
        return FEWER_COLOURS.get(system, DEPTH_COLOURS) if system else ()

    def note(self, text: str, style: str = NOTE) -> None:
        """One line that is not the model's."""
        words = Text(harmless(text), style=style)
        self.notes.print(words, soft_wrap=not self.wraps, width=self.width)

    def show(self, table: ConsoleRenderable) -> None:
        """A table or the like, among the notes."""
        self.notes.print(table, width=self.width)

    def piece(self, text: str, style: str = "") -> None:
        """A piece of an answer, as it comes; where lines wrap, its last word waits for its end."""
        if self.wraps:
            written = self._words.add(harmless(text), style, self.width)
        else:
            written = Text(harmless(text), style)
        self.answers.print(written, end="", soft_wrap=True)

    def begin_answer(self) -> None:
        """What comes has nothing to do with the text before."""
        self._words = WholeWords()

    def depth_style(self, depth: int) -> str:
        """How a word drafted at `depth` looks; the model's own words (0) are plain."""
        colours = self.depth_colours
        if not self.tints or not colours or depth == 0:
            return ""
        return colours[min(depth, len(colours)) - 1]

    def legend(self, deepest: int) -> None:
        """What the colours mean."""
        words = Text.assemble(("Drafted words by depth:", NOTE))
        last = min(deepest, len(self.depth_colours))
        for depth in range(1, last + 1):
            more = "+" if depth == last < deepest else ""
            words.append(f" {depth}{more}", style=self.depth_style(depth))
        self.notes.print(words)

    def progress(self, text: str) -> None:
        """Replace the present line, at a terminal only; `text` empty clears it."""
        if self.notes.is_terminal and not self.notes.is_dumb_terminal:
            start = Control.move_to_column(0)
            self.notes.control(start, Control((ControlType.ERASE_IN_LINE, 2)))
            self.notes.print(Text(text, style=NOTE), end="", soft_wrap=True)

    @contextmanager
    def quiet_keys(self) -> Iterator[None]:
        """Keys pressed meanwhile stand in the next line; Ctrl-C works and is not written.

        Where lines are edited, no key is written into the text.
        """
        try:
            terminal = self.answers.file.fileno()
            before = termios.tcgetattr(terminal)
        except (OSError, ValueError, termios.error):
            yield  # no terminal, nobody types
            return
        changed = before.copy()
        changed[3] &= ~(termios.ECHO if self.takes_codes else termios.ECHOCTL)
        changed[3] |= termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def make_screen(stdout: TextIO, stderr: TextIO, *, plain: bool) -> Screen:
    """Notes share stdout at a terminal and step aside to stderr when stdout is piped."""
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


SHORT_PROMPT = 512
"""Prompts up to this many new tokens are read too fast to report on."""


def show_answer(events: Iterable[Event], screen: Screen) -> None:
    """Print an answer to its end; whatever is raised leaves the cursor on a fresh line."""
    view = _AnswerView(screen)
    screen.begin_answer()
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
        if finished.stats.generated_tokens:
            self._screen.note(f"{status_line(finished.stats)} · depth {last.depth if last else 0}")
        if last is not None and last.why is not None:
            self._screen.note(last.why.words, WARNING)
        ending = ENDINGS[finished.reason]
        if ending:
            self._screen.note(ending[0].upper() + ending[1:] + ".", WARNING)
