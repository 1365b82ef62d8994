"""Lines from a pipe, from a dumb terminal and from the editor."""

import io
from collections.abc import Iterator

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from mlx_engine.command_line.chat import edited_lines, piped_lines, plain_typed_lines
from mlx_engine.values.errors import BadPrompt


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


def test_blank_lines_are_skipped() -> None:
    assert list(piped_lines(io.StringIO("a\n\n  \n b \nc"))) == ["a", "b", "c"]


def test_bytes_that_are_not_text_are_a_bad_prompt() -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"a\n\xff\n"), encoding="utf-8")
    with pytest.raises(BadPrompt, match="not UTF-8"):
        list(piped_lines(stream))


def test_a_plain_terminal_gets_a_mark_and_no_codes() -> None:
    shown = io.StringIO()
    assert list(plain_typed_lines(io.StringIO("a\n\nb\n"), shown)) == ["a", "b"]
    assert shown.getvalue() == "› " * 4


def test_edited_lines_end_at_control_d(keys: PipeInput) -> None:
    keys.send_text("one\r\rtwx\x7fo\r\x04")
    assert list(edited_lines()) == ["one", "two"]


def test_a_paste_keeps_its_line_breaks(keys: PipeInput) -> None:
    keys.send_text("\x1b[200~a\nb\nc\x1b[201~\r\x04")
    assert list(edited_lines()) == ["a\nb\nc"]


def test_alt_enter_is_a_line_break(keys: PipeInput) -> None:
    keys.send_text("a\x1b\rb\r\x04")
    assert list(edited_lines()) == ["a\nb"]


def test_arrow_up_brings_the_last_line_back(keys: PipeInput) -> None:
    keys.send_text("first\r")
    lines = edited_lines()
    assert next(lines) == "first"
    keys.send_text("\x1b[A!\r\x04")
    assert list(lines) == ["first!"]


def test_control_c_at_the_prompt(keys: PipeInput) -> None:
    keys.send_text("half\x03")
    with pytest.raises(KeyboardInterrupt):
        next(edited_lines())
