"""Lines from a pipe, from a plain terminal and from the editor."""

import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime, Terminal
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from scripted_engine import ScriptedEngine

from mlx_engine.command_line.chat import ReadLine, command_completer, edited_lines
from mlx_engine.command_line.conversation import COMMANDS, read_chat
from mlx_engine.values.errors import ModelNotFound


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


@pytest.fixture
def edited(keys: PipeInput) -> Iterator[str]:
    """Lines as they are edited, until the user leaves."""
    return lines(edited_lines())


def lines(ask: ReadLine) -> Iterator[str]:
    with suppress(EOFError):
        while True:
            yield ask("> ")


class Typed(io.StringIO):
    """A terminal without codes, with Control-C wherever a line says so."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1, /) -> str:
        line = super().readline(size)
        if line == "^C\n":
            raise KeyboardInterrupt
        return line


def test_blank_lines_are_skipped() -> None:
    runtime = FakeRuntime()
    runtime.type("a", "", "  ", " b ", "c")
    assert runtime.run("chat") == 0
    assert runtime.out == "You said: a\nYou said: b\nYou said: c\n"


def test_bytes_that_are_not_text_are_a_bad_prompt() -> None:
    runtime = FakeRuntime()
    runtime.stdin = io.TextIOWrapper(io.BytesIO(b"a\n\xff\n"), encoding="utf-8")  # type: ignore[assignment]
    assert runtime.run("chat") == 2
    assert "not UTF-8" in runtime.err


@pytest.mark.parametrize("left", ["^C\n", "/quit\n"])
def test_a_plain_terminal_gets_a_mark_and_offers_to_save(tmp_path: Path, left: str) -> None:
    file = tmp_path / "chat.md"
    runtime = FakeRuntime(stdin=Typed(f"a\n{left}{file}\n"), stdout=Terminal())
    assert runtime.run("chat", "--plain") == 0
    assert "› You said: a" in runtime.out
    assert file.exists()


def test_control_c_at_the_question_saves_nothing() -> None:
    runtime = FakeRuntime(stdin=Typed("a\n^C\n^C\n"), stdout=Terminal())
    assert runtime.run("chat", "--plain") == 0
    assert "Save this chat?" in runtime.out


def testedited_lines_end_at_control_d(keys: PipeInput, edited: Iterator[str]) -> None:
    keys.send_text("one\r\rtwx\x7fo\r\x04")
    assert list(edited) == ["one", "", "two"]


def test_a_paste_keeps_its_line_breaks(keys: PipeInput, edited: Iterator[str]) -> None:
    keys.send_text("\x1b[200~a\nb\nc\x1b[201~\r\x04")
    assert list(edited) == ["a\nb\nc"]


def test_alt_enter_is_a_line_break(keys: PipeInput, edited: Iterator[str]) -> None:
    keys.send_text("a\x1b\rb\r\x04")
    assert list(edited) == ["a\nb"]


def test_arrow_up_brings_the_last_line_back(keys: PipeInput, edited: Iterator[str]) -> None:
    keys.send_text("first\r")
    assert next(edited) == "first"
    keys.send_text("\x1b[A!\r\x04")
    assert list(edited) == ["first!"]


def test_control_z_is_no_part_of_a_message(
    keys: PipeInput, edited: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It suspends the program, as everywhere in a terminal; the line is there afterwards."""
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _process, number: signals.append(number))
    keys.send_text("half\x1a and half\r\x04")
    assert list(edited) == ["half and half"]
    assert signals == [signal.SIGTSTP]


def test_control_c_clears_the_line_and_leaves_an_empty_one(
    keys: PipeInput, edited: Iterator[str]
) -> None:
    keys.send_text("half\x03kept\r")
    assert next(edited) == "kept"
    keys.send_text("\x1b[A\x1b[A!\r\x03")  # what was cleared is in the history
    assert list(edited) == ["half!"]


@pytest.mark.parametrize(
    ("beginning", "line"),
    [
        ("/dra", "/draft"),
        ("/draft 2 min", "/draft 2 min_probability="),
        ("/sampling top_k", "/sampling top_k="),
        ("/system of", "/system off"),
        ("/load {}/ta", "/load {}/talk.json"),
        ("/nothing x", "/nothing x"),
        ("see /dra", "see /dra"),
    ],
)
def test_commands_their_words_and_files_are_completed(
    tmp_path: Path, beginning: str, line: str
) -> None:
    (tmp_path / "talk.json").touch()
    text = beginning.format(tmp_path)
    found = command_completer().get_completions(Document(text), CompleteEvent())
    completed = [text[: len(text) + one.start_position] + one.text for one in found] or [text]
    assert completed == [line.format(tmp_path)]


def test_commands_are_completed_with_what_they_do() -> None:
    found = list(command_completer().get_completions(Document("/s"), CompleteEvent()))
    assert [one.text for one in found] == ["/system", "/sampling", "/stats", "/save"]
    assert found[2].display_meta_text == COMMANDS["stats"].help


class EditingOutside(FakeRuntime):
    """A terminal whose lines are edited; `while_loading` happens before the model is there."""

    while_loading: Callable[[], None]

    def load(self, *args: object, **more: object) -> ScriptedEngine:
        self.while_loading()
        return super().load(*args, **more)  # type: ignore[arg-type]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> EditingOutside:
    monkeypatch.setenv("TERM", "xterm-256color")
    return EditingOutside(stdin=Terminal(), stdout=Terminal())


def test_a_question_may_be_sent_while_the_model_loads(
    keys: PipeInput, runtime: EditingOutside
) -> None:
    runtime.while_loading = lambda: keys.send_text("Early\r\x03\r")
    assert runtime.run("chat") == 0
    assert runtime.out.index("Scripted · ") < runtime.out.index("Type a message")
    assert "You said: Early" in runtime.engine.sessions[0].messages[1].text
    assert runtime.engine.closed


def test_control_c_leaves_while_the_model_loads(keys: PipeInput, runtime: EditingOutside) -> None:
    runtime.while_loading = lambda: signal.raise_signal(signal.SIGINT)
    assert runtime.run("chat") == 130
    assert not runtime.engine.sessions


def test_a_model_that_cannot_be_loaded_takes_the_question_away(
    keys: PipeInput, runtime: EditingOutside
) -> None:
    runtime.while_loading, runtime.error = lambda: None, ModelNotFound("x: no such file.")
    assert runtime.run("chat", "x") == 2
    assert runtime.err == "headstart: x: no such file.\n"


def test_a_chat_that_no_file_has_is_offered_to_be_saved(
    keys: PipeInput, runtime: EditingOutside, tmp_path: Path
) -> None:
    file, nowhere = tmp_path / "chat.md", tmp_path / "no" / "chat.md"
    runtime.while_loading = lambda: keys.send_text(f"Hi\r/quit\r{nowhere}\r{file}\r")
    assert runtime.run("chat") == 0
    assert "You said: Hi" in file.read_text()
    assert "cannot be written: No such file" in runtime.out


@pytest.mark.parametrize(("answer", "files"), [("n", 0), ("No", 0), ("", 0), ("y", 1), ("YES", 1)])
def test_yes_and_no_are_no_names_of_files(
    keys: PipeInput,
    runtime: EditingOutside,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    files: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    runtime.while_loading = lambda: keys.send_text(f"Hi\r/quit\r{answer}\r\r")
    assert runtime.run("chat") == 0
    made = list(tmp_path.iterdir())
    assert len(made) == files and "is not possible" not in runtime.out
    assert all("You said: Hi" in read_chat(file).messages[1].text for file in made)


def test_a_saved_chat_is_left_without_a_question(
    keys: PipeInput, runtime: EditingOutside, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    runtime.while_loading = lambda: keys.send_text(f"Hi\r/save {file}\r\x04")
    assert runtime.run("chat") == 0


def test_a_process_that_is_told_to_end_leaves_the_terminal_as_it_was(
    keys: PipeInput, runtime: EditingOutside
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    runtime.while_loading = lambda: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        runtime.run("chat")
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
