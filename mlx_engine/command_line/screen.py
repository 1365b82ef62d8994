"""Where the terminal's text goes: answers to stdout, all else beside it, colours where they fit."""

from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

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
