"""The terminal: answers on stdout, notes on the terminal or stderr, colours where possible."""

import os
import re
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from mlx_engine.values.conversation import (
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
DEPTH_COLOURS = ("color(243)", "color(29)", "color(63)", "color(163)")
"""Colours of drafted words by depth, the last for all deeper; readable on black and on white."""

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
WORDS = re.compile(
    r"\n|[ \t]+|[\u2e80-\U0010ffff](?:\u200d[\u2e80-\U0010ffff])*|[^\s\u2e80-\U0010ffff]+|\s"
)
"""Parts of a text between which a line may break: blanks, words, wide characters."""


class WordWrap:
    """Wraps streamed text between words and wide characters; holds back the last word.

    Words wider than a line and fenced code blocks stay in one line, so that they can be copied.
    """

    def __init__(self) -> None:
        self._line = ""  # of the answer, however many lines of the terminal it takes
        self._column = 0
        self._gap, self._word = Text(), Text()
        self._is_code = False

    def add_text(self, text: str, style: str, line_width: int) -> Text:
        """Add streamed text; return what can be printed now, in lines of `line_width` cells."""
        written = Text()
        for part in WORDS.findall(text):
            is_wide = part >= "\u2e80"
            if is_wide or part.isspace():
                self._end_word(line_width, written)
            if part == "\n":
                self._is_code ^= self._line.lstrip().startswith(FENCE)
                written.append("\n")
                self._line, self._column, self._gap = "", 0, Text()
                continue
            self._line += part
            (self._gap if part.isspace() else self._word).append(part, style)
            if is_wide:
                self._end_word(line_width, written)
        return written

    def _end_word(self, line_width: int, written: Text) -> None:
        if not self._word:
            return
        end = self._column + self._gap.cell_len + self._word.cell_len
        if self._column and end > line_width and not self._is_code:
            written.append("\n")
            end = self._word.cell_len
        else:
            written.append_text(self._gap)
        written.append_text(self._word)
        self._column = end if end <= line_width else (end - 1) % line_width + 1
        self._gap, self._word = Text(), Text()


@dataclass(slots=True)
class Screen:
    """Consoles for answers of the model and for notes, which are all other text.

    wraps: break lines between words, as at a terminal; else text is not changed.
    """

    answers: Console
    notes: Console
    wraps: bool = False
    _wrap: WordWrap = field(default_factory=WordWrap)
    _line_is_open: bool = False
    _has_progress: bool = False

    @property
    def understands_control_codes(self) -> bool:
        """Whether the terminal understands control codes, so that lines can be edited."""
        return self.answers.is_terminal and not self.answers.is_dumb_terminal

    @property
    def line_width(self) -> int:
        """Width of the terminal in cells; asks the system, as rich would not without colours."""
        with suppress(OSError, ValueError):
            return os.get_terminal_size(self.answers.file.fileno()).columns or self.answers.width
        return self.answers.width

    def print_note(self, text: str, style: str = NOTE) -> None:
        """Print a line to the user that is not the model's text."""
        words = Text(without_controls(text), style=style)
        self.notes.print(words, soft_wrap=not self.wraps, width=self.line_width)

    def print_piece(self, text: str, style: str = "") -> None:
        """Print a piece of an answer; where lines wrap, hold the last word back until it ends."""
        if self.wraps:
            written = self._wrap.add_text(without_controls(text), style, self.line_width)
        else:
            written = Text(without_controls(text), style)
        self.answers.print(written, end="", soft_wrap=True)
        self._line_is_open = not text.endswith("\n") if text else self._line_is_open

    def depth_style(self, depth: int) -> str:
        """Style of a word drafted at a depth; words of depth 0, not drafted, are plain."""
        return DEPTH_COLOURS[min(depth, len(DEPTH_COLOURS)) - 1] if depth else ""

    def print_colour_legend(self, deepest: int) -> None:
        """Print the colours that drafted words of depth 1 to `deepest` have."""
        words = Text.assemble(("Drafted words by depth:", NOTE))
        last = min(deepest, len(DEPTH_COLOURS))
        for depth in range(1, last + 1):
            more = "+" if depth == last < deepest else ""
            words.append(f" {depth}{more}", style=self.depth_style(depth))
        self.notes.print(words)

    def show_status(self, text: str) -> None:
        """Replace the terminal's current line by words; "" clears it. Elsewhere print nothing."""
        is_shown = self.notes.is_terminal and not self.notes.is_dumb_terminal
        if is_shown and (text or self._has_progress):
            start = Control.move_to_column(0)
            self.notes.control(start, Control((ControlType.ERASE_IN_LINE, 2)))
            self.notes.print(Text(text, style=NOTE), end="", soft_wrap=True)
            self._has_progress = bool(text)

    @contextmanager
    def keys_unechoed(self) -> Iterator[None]:
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
        changed[3] &= ~(termios.ECHO if self.understands_control_codes else termios.ECHOCTL)
        changed[3] |= termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)

    def show_answer(self, events: Iterable[Event]) -> None:
        """Print an answer's events to the end; an error leaves the cursor on a fresh line."""
        self._wrap, channel = WordWrap(), "answer"
        last: RoundStats | None = None
        try:
            for event in events:
                match event:
                    case PromptProgress(encoded=encoded, pictures=count) if count:
                        share = f"{100 * encoded / count:.0f} %"
                        now = f"picture {event.picture_number} of {count} ({share})"
                        self.show_status(f"Looking at {now}")
                    case PromptProgress(done, total, reused):
                        if total - reused > SHORT_PROMPT and done < total:
                            self.show_status(f"Reading the prompt: {done} of {total} tokens")
                    case TextPiece():
                        self.show_status("")
                        if event.channel != channel:
                            self._end_terminal_line()
                            channel = event.channel
                        is_thinking = channel == "thinking"
                        style = THINKING if is_thinking else self.depth_style(event.depth)
                        self.print_piece(event.text, style)
                    case RoundFinished():
                        last = event.stats
                    case GenerationFinished():
                        self._end_terminal_line()
                        self._show_figures(event, last)
        finally:
            self.show_status("")
            self._end_terminal_line()

    def _end_terminal_line(self) -> None:
        if self._line_is_open:
            self.print_piece("\n")

    def _show_figures(self, finished: GenerationFinished, last: RoundStats | None) -> None:
        if finished.stats.generated_tokens:
            self.print_note(f"{status_line(finished.stats)} · depth {last.depth if last else 0}")
        if last is not None and last.why is not None:
            self.print_note(last.why.words, WARNING)
        if ENDINGS[finished.reason]:
            self.print_note(ENDINGS[finished.reason], WARNING)


def make_screen(stdout: TextIO, stderr: TextIO, *, is_plain: bool) -> Screen:
    """Make a screen; notes go to stdout at a terminal, and to stderr when stdout is piped."""
    answers = _console(stdout, is_plain)
    notes = answers if stdout.isatty() else _console(stderr, is_plain)
    return Screen(answers, notes, wraps=stdout.isatty())


def _console(stream: TextIO, is_plain: bool) -> Console:
    return Console(
        file=stream,
        color_system=None if is_plain else "auto",
        force_terminal=False if is_plain else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
