"""Lines from a pipe, from a plain terminal and from the editor, also before a model is there."""

import io
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from fake_outside import FakeOutside, Terminal
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console
from scripted_engine import ScriptedEngine

from mlx_engine.command_line.conversation import read_chat
from mlx_engine.command_line.screen import Screen
from mlx_engine.command_line.typed_lines import EditedLines, Lines, PlainLines
from mlx_engine.values.errors import BadPrompt, LoadStopped, ModelNotFound


def screen(file: io.StringIO | None = None) -> Screen:
    console = Console(file=file or io.StringIO(), markup=False)
    return Screen(console, console)


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


@pytest.fixture
def edited(keys: PipeInput) -> Iterator[EditedLines]:
    lines = EditedLines(io.StringIO(), screen())
    yield lines
    lines.close()


def typed(lines: EditedLines) -> str:
    return lines._session.default_buffer.text


def until(is_so: Callable[[], bool]) -> None:
    end = monotonic() + 20
    while not is_so():
        assert monotonic() < end
        sleep(0.002)


def test_blank_lines_are_skipped() -> None:
    assert list(Lines(io.StringIO("a\n\n  \n b \nc"), screen())) == ["a", "b", "c"]


def test_bytes_that_are_not_text_are_a_bad_prompt() -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"a\n\xff\n"), encoding="utf-8")
    with pytest.raises(BadPrompt, match="not UTF-8"):
        list(Lines(stream, screen()))


def test_a_plain_terminal_gets_a_mark_and_no_codes() -> None:
    shown = io.StringIO()
    assert list(PlainLines(io.StringIO("a\n\nb\n"), screen(shown))) == ["a", "b"]
    assert shown.getvalue() == "› " * 4


class Typed(io.StringIO):
    """Control-C wherever a line says so."""

    def readline(self, size: int = -1, /) -> str:
        line = super().readline(size)
        if line == "^C\n":
            raise KeyboardInterrupt
        return line


def test_a_plain_terminal_is_left_by_the_second_control_c_in_a_row() -> None:
    shown = io.StringIO()
    typed = Typed("^C\na\n^C\nb\n^C\n^C\nc\n")
    assert list(PlainLines(typed, screen(shown))) == ["a", "b"]
    assert shown.getvalue().count("Ctrl-C once more leaves.") == 3
    assert PlainLines(Typed("^C\n"), screen()).ask("Save? ") == ""


def test_edited_lines_end_at_control_d(keys: PipeInput, edited: EditedLines) -> None:
    keys.send_text("one\r\rtwx\x7fo\r\x04")
    assert list(edited) == ["one", "two"]


def test_a_paste_keeps_its_line_breaks(keys: PipeInput, edited: EditedLines) -> None:
    keys.send_text("\x1b[200~a\nb\nc\x1b[201~\r\x04")
    assert list(edited) == ["a\nb\nc"]


def test_alt_enter_is_a_line_break(keys: PipeInput, edited: EditedLines) -> None:
    keys.send_text("a\x1b\rb\r\x04")
    assert list(edited) == ["a\nb"]


def test_arrow_up_brings_the_last_line_back(keys: PipeInput, edited: EditedLines) -> None:
    keys.send_text("first\r")
    lines = iter(edited)
    assert next(lines) == "first"
    keys.send_text("\x1b[A!\r\x04")
    assert list(lines) == ["first!"]


def test_control_z_is_no_part_of_a_message(
    keys: PipeInput, edited: EditedLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests the program, as everywhere in a terminal, and the line is there afterwards."""
    rests: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", rests.append)
    edited.begin()
    keys.send_text("half\x1a")
    until(lambda: rests == [signal.SIGTSTP])
    keys.send_text(" and half\r")
    assert next(iter(edited)) == "half and half"


def test_control_c_clears_the_line_and_leaves_an_empty_one(
    keys: PipeInput, edited: EditedLines
) -> None:
    edited.begin()
    keys.send_text("half")
    until(lambda: typed(edited) == "half")
    keys.send_text("\x03")
    until(lambda: typed(edited) == "")
    keys.send_text("\x1b[A")
    until(lambda: typed(edited) == "half")
    keys.send_text("\rlost\x03kept\r\x03")
    assert list(edited) == ["half", "kept"]


@pytest.mark.parametrize(
    ("beginning", "line"),
    [
        ("/dr", "/draft"),
        ("/draft 2 min", "/draft 2 min_probability="),
        ("/sampling top_k", "/sampling top_k="),
        ("/colours of", "/colours off"),
        ("/load {}/ta", "/load {}/talk.json"),
    ],
)
def test_tab_completes_commands_their_words_and_files(
    keys: PipeInput, edited: EditedLines, tmp_path: Path, beginning: str, line: str
) -> None:
    (tmp_path / "talk.json").touch()
    edited.begin()
    keys.send_text(beginning.format(tmp_path))
    until(lambda: edited._session.default_buffer.complete_state is not None)
    keys.send_text("\t")
    until(lambda: typed(edited) == line.format(tmp_path))


@pytest.mark.parametrize("text", ["/nothing x", "see /dr", ""])
def test_tab_completes_nothing_else(keys: PipeInput, edited: EditedLines, text: str) -> None:
    edited.begin()
    keys.send_text(text + "\t!")
    until(lambda: typed(edited).endswith("!"))
    assert typed(edited) == text + "!"


def test_a_line_that_is_set_aside_comes_back_as_it_was(
    keys: PipeInput, edited: EditedLines
) -> None:
    line = edited.begin()
    keys.send_text("ac\x1b[D")
    until(lambda: edited._session.default_buffer.cursor_position == 1)
    edited.set_aside()
    assert line.done()
    keys.send_text("b\r")
    assert next(iter(edited)) == "abc"


class EditingOutside(FakeOutside):
    """A terminal whose lines are edited; `while_loading` happens before the model is there."""

    while_loading: Callable[[Callable[[], bool]], None]

    def load(self, *args: object, stop: Callable[[], bool], **more: object) -> ScriptedEngine:
        self.while_loading(stop)
        return super().load(*args, stop=stop, **more)  # type: ignore[arg-type]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EditingOutside:
    monkeypatch.setenv("TERM", "xterm-256color")
    return EditingOutside(tmp_path, stdin=Terminal(), stdout=Terminal())


def test_a_question_may_be_sent_while_the_model_loads(
    keys: PipeInput, outside: EditingOutside
) -> None:
    outside.while_loading = lambda _stop: keys.send_text("Early\r\x03\r")
    assert outside.run("chat") == 0
    assert outside.out.index("Type a message") < outside.out.index("Scripted · ")
    assert "You said: Early" in outside.engine.sessions[0].messages[1].text
    assert outside.engine.closed


def test_who_leaves_while_the_model_loads_does_not_wait(
    keys: PipeInput, outside: EditingOutside
) -> None:
    def leave(stop: Callable[[], bool]) -> None:
        keys.send_text("\x04")
        until(stop)
        raise LoadStopped("Loading was stopped.")

    outside.while_loading = leave
    assert outside.run("chat") == 0
    assert outside.err == ""
    assert not outside.engine.sessions


def test_a_model_that_cannot_be_loaded_takes_the_question_away(
    keys: PipeInput, outside: EditingOutside
) -> None:
    outside.while_loading, outside.error = lambda _stop: None, ModelNotFound("x: no such file.")
    assert outside.run("chat", "x") == 2
    assert outside.err == "headstart: x: no such file.\n"


def test_a_chat_that_no_file_has_is_offered_to_be_saved(
    keys: PipeInput, outside: EditingOutside, tmp_path: Path
) -> None:
    file, nowhere = tmp_path / "chat.md", tmp_path / "no" / "chat.md"
    outside.while_loading = lambda _stop: keys.send_text(f"Hi\r/quit\r{nowhere}\r{file}\r")
    assert outside.run("chat") == 0
    assert "You said: Hi" in file.read_text()
    assert "There is no folder" in outside.out


@pytest.mark.parametrize(("answer", "files"), [("n", 0), ("No", 0), ("", 0), ("y", 1), ("YES", 1)])
def test_yes_and_no_are_no_names_of_files(
    keys: PipeInput,
    outside: EditingOutside,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    files: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    outside.while_loading = lambda _stop: keys.send_text(f"Hi\r/quit\r{answer}\r\r")
    assert outside.run("chat") == 0
    made = list(tmp_path.iterdir())
    assert len(made) == files and "is not possible" not in outside.out
    assert all("You said: Hi" in read_chat(file).messages[1].text for file in made)


def test_a_saved_chat_is_left_without_a_question(
    keys: PipeInput, outside: EditingOutside, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    outside.while_loading = lambda _stop: keys.send_text(f"Hi\r/save {file}\r\x04")
    assert outside.run("chat") == 0


def test_a_process_that_is_told_to_end_leaves_the_terminal_as_it_was(
    keys: PipeInput, outside: EditingOutside
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    outside.while_loading = lambda _stop: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        outside.run("chat")
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
