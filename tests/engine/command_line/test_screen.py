"""Colours are readable and optional; a model cannot steer the terminal."""

import io
import os
import re
import select
import termios

import pytest
from fake_runtime import Terminal
from rich.color import Color
from rich.console import Console

from mlx_engine.command_line.screen import (
    DEPTH_COLOURS,
    Screen,
    make_screen,
)
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.untrusted import without_controls


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
    light = luminance(Color.parse(colour).get_truecolor().hex)
    assert min((light + 0.05) / 0.05, 1.05 / (light + 0.05)) >= 4.5


@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_depths_of_the_legend_differ(system: str) -> None:
    """As the terminal shows them, which may know fewer colours."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=system, markup=False)
    Screen(console, console).print_colour_legend(8)
    codes = re.findall(r"\x1b\[([0-9;]+)m (\d\+?)", out.getvalue())
    assert " ".join(depth for _, depth in codes) == "1 2 3 4+"
    assert len({colour for colour, _ in codes}) == len(codes)


def test_drafted_words_are_tinted() -> None:
    screen = coloured()
    assert screen.depth_style(0) == ""
    assert screen.depth_style(1) != screen.depth_style(8) != ""


def test_control_characters_are_replaced() -> None:
    assert without_controls("a\tb\nc") == "a\tb\nc"
    for bad in ("\x1b[2J", "\x9b2J", "\a", "\r", "\x7f", "\x00", "\udcff"):
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in without_controls(bad))
        without_controls(bad).encode()
    screen = coloured()
    screen.print_piece("x\x1b]0;title\x07y")
    assert screen.answers.file.getvalue().count("\x1b") == 0  # type: ignore[attr-defined]


def test_pieces_come_out_as_they_are() -> None:
    out = io.StringIO()
    screen = make_screen(out, io.StringIO(), is_plain=False)
    text = "a [bold]b[/] :smile:\n\n  " + "long " * 60 + "\n"
    for piece in (text[:3], text[3:50], text[50:]):
        screen.print_piece(piece)
    assert out.getvalue() == text


def shown_at(width: int, *pieces: str) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=width, markup=False)
    screen = Screen(console, console, wraps=True)
    screen.show_answer(map(TextPiece, pieces))
    return out.getvalue().splitlines()


def test_lines_break_between_words_whatever_the_pieces_are() -> None:
    text = "The quick brown fox jumps over the lazy dog.\n\n- an item  of a list"
    wanted = [
        "The quick",
        "brown fox",
        "jumps over",
        "the lazy",
        "dog.",
        "",
        "- an item",
        "of a list",
    ]
    assert shown_at(10, text) == wanted
    assert shown_at(10, *text) == wanted
    assert shown_at(10, text[:7], text[7:31], text[31:]) == wanted


def test_a_word_that_fills_a_line_is_followed_by_no_empty_one() -> None:
    assert shown_at(5, "three words seven\n") == ["three", "words", "seven"]


def test_wide_characters_count_twice_and_may_stand_apart() -> None:
    assert shown_at(9, "速度は上がる") == ["速度は上", "がる"]
    assert shown_at(9, "ab cde速度") == ["ab cde速", "度"]
    assert shown_at(7, "ok \U0001f469\N{ZERO WIDTH JOINER}\U0001f4bb yes no") == [
        "ok \U0001f469\N{ZERO WIDTH JOINER}\U0001f4bb",
        "yes no",
    ]


def test_wide_characters_are_shown_as_they_come() -> None:
    """There may be no blank in a whole answer."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=80, markup=False)
    Screen(console, console, wraps=True).print_piece("速度")
    assert out.getvalue() == "速度"


def test_code_and_what_is_wider_than_a_line_are_left_to_the_terminal() -> None:
    code = "```py\nif this or that: return those\n```"
    assert shown_at(10, f"{code}\nand then more") == [*code.splitlines(), "and then", "more"]
    assert shown_at(10, "see https://a.long/address/of/a/page now") == [
        "see",
        "https://a.long/address/of/a/page now",
    ]


def test_a_spoken_word_is_shown_when_the_answer_ends() -> None:
    assert shown_at(80, "half", " a wo") == ["half a wo"]


def test_keys_pressed_during_an_answer_are_not_written_into_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        console = Console(file=terminal, force_terminal=True, markup=False)
        before = termios.tcgetattr(theirs)
        with Screen(console, console).keys_unechoed():
            os.write(ours, b"ahead\n")
            assert os.read(theirs, 6) == b"ahead\n"
            assert termios.tcgetattr(theirs)[3] & termios.ISIG, "Ctrl-C stops"
        assert termios.tcgetattr(theirs) == before
        assert not select.select([ours], [], [], 0)[0], "nothing was echoed"
    os.close(ours)


def test_notes_step_aside_when_stdout_is_piped() -> None:
    out, err = io.StringIO(), io.StringIO()
    make_screen(out, err, is_plain=False).print_note("hello")
    assert (out.getvalue(), err.getvalue()) == ("", "hello\n")
    terminal = Terminal()
    make_screen(terminal, err, is_plain=True).print_note("hello")
    assert terminal.getvalue() == "hello\n"


def test_progress_shows_at_a_terminal_only() -> None:
    out = io.StringIO()
    make_screen(out, out, is_plain=False).show_status("50 %")
    assert out.getvalue() == ""
    screen = coloured()
    screen.show_status("50 %")
    assert "50 %" in screen.notes.file.getvalue()  # type: ignore[attr-defined]
