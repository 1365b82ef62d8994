"""Colours are readable and optional; a model cannot steer the terminal."""

import io

import pytest
from fake_outside import Terminal
from rich.console import Console

from mlx_engine.command_line.screen import DEPTH_COLOURS, Screen, harmless, make_screen


def coloured() -> Screen:
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="truecolor", markup=False
    )
    return Screen(console, console)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", DEPTH_COLOURS)
def test_tints_are_readable_on_black_and_white(colour: str) -> None:
    light = luminance(colour)
    assert min((light + 0.05) / 0.05, 1.05 / (light + 0.05)) >= 4.5


def test_tints_get_deeper() -> None:
    spread = [int(c[3:5], 16) - int(c[1:3], 16) for c in DEPTH_COLOURS]
    assert spread == sorted(spread)
    assert len(set(spread)) == 8


def test_drafted_words_are_tinted_until_that_is_off() -> None:
    screen = coloured()
    assert screen.depth_style(0) == ""
    assert screen.depth_style(1) != screen.depth_style(8) != ""
    screen.tints = False
    assert screen.depth_style(3) == ""


def test_control_characters_are_made_harmless() -> None:
    assert harmless("a\tb\nc") == "a\tb\nc"
    for bad in ("\x1b[2J", "\x9b2J", "\a", "\r", "\x7f", "\x00", "\udcff"):
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in harmless(bad))
        harmless(bad).encode()
    screen = coloured()
    screen.piece("x\x1b]0;title\x07y")
    assert screen.answers.file.getvalue().count("\x1b") == 0  # type: ignore[attr-defined]


def test_pieces_come_out_as_they_are() -> None:
    out = io.StringIO()
    screen = make_screen(out, io.StringIO(), plain=False)
    text = "a [bold]b[/] :smile:\n\n  " + "long " * 60 + "\n"
    for piece in (text[:3], text[3:50], text[50:]):
        screen.piece(piece)
    assert out.getvalue() == text


def test_notes_step_aside_when_stdout_is_piped() -> None:
    out, err = io.StringIO(), io.StringIO()
    make_screen(out, err, plain=False).note("hello")
    assert (out.getvalue(), err.getvalue()) == ("", "hello\n")
    terminal = Terminal()
    make_screen(terminal, err, plain=True).note("hello")
    assert terminal.getvalue() == "hello\n"


def test_progress_shows_at_a_terminal_only() -> None:
    out = io.StringIO()
    make_screen(out, out, plain=False).progress("50 %")
    assert out.getvalue() == ""
    screen = coloured()
    screen.progress("50 %")
    assert "50 %" in screen.notes.file.getvalue()  # type: ignore[attr-defined]
