"""The terminal chat, driven line by line against a scripted engine."""

import io
import signal
from dataclasses import replace

import pytest
from fake_runtime import FakeRuntime, Terminal
from rich.console import Console
from scripted_engine import NO_HEADS, Answer, ScriptedEngine, refuses

from mlx_engine.command_line.screen import Screen
from mlx_engine.values.conversation import PromptProgress
from mlx_engine.values.errors import OutOfMemory, Reason
from mlx_engine.values.options import CacheOptions, DraftOptions


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


def test_answers_go_to_stdout_and_all_else_to_stderr(runtime: FakeRuntime) -> None:
    runtime.type("Hello", "", "Again")
    assert runtime.run("chat", "--seed", "1") == 0
    assert runtime.out == "You said: Hello\nYou said: Again\n"
    assert "\x1b" not in runtime.err
    assert runtime.engine.closed


def test_the_first_line_says_what_is_in_effect(runtime: FakeRuntime) -> None:
    runtime.run("chat")
    first = runtime.err.splitlines()[0]
    told = "Scripted · 27.4B parameters · Q4_K_M · 1 MTP head · numerics exact · float32 · CPU"
    assert first == told


def test_the_figures_follow_the_answer(runtime: FakeRuntime) -> None:
    runtime.type("one two three")
    runtime.run("chat")
    figures = runtime.err.splitlines()[1]
    assert "5 tok ·" in figures
    assert "0.25 s to the first" in figures
    assert "accepted 2/9 (22 %)" in figures
    assert "1.67 tok/pass" in figures
    assert figures.endswith("depth 3")


def test_a_file_without_heads_says_so(runtime: FakeRuntime) -> None:
    runtime.engine = ScriptedEngine(description=NO_HEADS)
    runtime.type("Hello")
    runtime.run("chat")
    assert "no MTP heads · " in runtime.err
    assert runtime.err.count("This file has no MTP heads (block 64 has no eh_proj).") == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [(["--depth", "0"], "depth is set to 0"), (["--draft-source", "none"], "switched off")],
)
def test_drafting_turned_off_says_so(runtime: FakeRuntime, flags: list[str], words: str) -> None:
    runtime.run("chat", *flags)
    assert words in runtime.err


def test_parked_drafting_gives_its_reason(runtime: FakeRuntime) -> None:
    parked = "Drafting parked: a 2-row pass costs 1.74 of one on this Mac."
    runtime.engine.answers = [Answer("Yes.", why=Reason("parked-cost", parked))]
    runtime.type("Hello")
    runtime.run("chat")
    assert f"depth 0\n{parked}\n" in runtime.err


def test_declined_paths_are_listed(runtime: FakeRuntime) -> None:
    reason = Reason("rows-differ", "Rows differ here.")
    runtime.engine = ScriptedEngine(description=replace(NO_HEADS, declined=(reason,)))
    runtime.run("chat")
    assert "Rows differ here.\n" in runtime.err


def test_settings_reach_the_session(runtime: FakeRuntime) -> None:
    words = (
        "chat m.gguf --system Hm --depth 2 --temperature 0 --max-tokens 5 --no-thinking "
        "--template-argument preserve_thinking=true --template-argument reasoning_effort=low "
        "--cache-bits 8 --head-cache-bits 4"
    )
    runtime.run(*words.split())
    session = runtime.engine.sessions[0]
    assert runtime.asked[0][0] == "m.gguf"
    assert (session.system, session.draft) == ("Hm", DraftOptions(depth=2))
    assert (session.sampling.temperature, session.sampling.top_k) == (0.0, 20)
    assert (session.generation.max_tokens, session.thinking) == (5, False)
    assert session.cache == CacheOptions(8, 4)
    assert "Keys and values: 8 bits, 4 for drafting" in runtime.err
    assert session.template_arguments == {"preserve_thinking": True, "reasoning_effort": "low"}


def test_once_answers_and_leaves(runtime: FakeRuntime) -> None:
    runtime.type("not read")
    assert runtime.run("chat", "--once", "Hello") == 0
    assert runtime.out == "You said: Hello\n"


def test_once_without_an_answer_fails(runtime: FakeRuntime) -> None:
    assert runtime.run("chat", "--once", " ") == 2
    assert "The message is empty" in runtime.err


def test_an_error_in_an_answer_does_not_end_the_chat(runtime: FakeRuntime) -> None:
    runtime.engine = refuses(OutOfMemory("The cache does not fit."))
    runtime.type("Hello", "Again")
    assert runtime.run("chat") == 0
    assert runtime.out == "Half an\nYou said: Again\n"
    assert "The cache does not fit.\n" in runtime.err


class PressesControlC(io.StringIO):
    """Interrupts when a word is written, as often as that happens."""

    word = "three"

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.word in text:
            signal.raise_signal(signal.SIGINT)
        return written


def test_an_answer_stopped_before_its_first_word_has_no_figures(runtime: FakeRuntime) -> None:
    runtime.engine.answers = [Answer("", reason="stopped")]
    runtime.type("Count")
    assert runtime.run("chat") == 0
    assert "Stopped; /continue goes on." in runtime.err
    assert "tok/s" not in runtime.err


def test_control_c_keeps_what_was_said(runtime: FakeRuntime) -> None:
    before = signal.getsignal(signal.SIGINT)
    runtime.stdout = PressesControlC()
    runtime.engine.answers = [Answer("one two three four five six", accepted=(0,))]
    runtime.type("Count", "Still here")
    assert runtime.run("chat") == 0
    assert runtime.out == "one two three\nYou said: Still here\n"
    assert "Stopped; /continue goes on." in runtime.err
    assert runtime.engine.sessions[0].messages[1].text == "one two three"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_control_c_in_an_answer_leaves(runtime: FakeRuntime) -> None:
    runtime.stdout = PressesControlC()
    runtime.engine.answers = [Answer("three three three three", accepted=(3,))]
    runtime.type("Count", "Not reached")
    assert runtime.run("chat") == 0
    assert "three three three three" not in runtime.out
    assert "Not reached" not in runtime.out


def test_a_second_control_c_with_once_is_130(runtime: FakeRuntime) -> None:
    runtime.stdout = PressesControlC()
    runtime.engine.answers = [Answer("three three three three", accepted=(3,))]
    assert runtime.run("chat", "--once", "Count") == 130


def test_thinking_is_apart_from_the_answer(runtime: FakeRuntime) -> None:
    runtime.engine.answers = [Answer("Four.", thinking="Two and two.")]
    runtime.run("chat", "--once", "2+2")
    assert runtime.out == "Two and two.\nFour.\n"


def test_a_terminal_gets_tints_and_dimmed_thinking() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", markup=False)
    engine = ScriptedEngine([Answer("a b c", thinking="hm", accepted=(0, 2))])
    Screen(console, console).show_answer(engine.session().send("x"))
    assert "\x1b[38;5;29m b" in out.getvalue()
    assert "\x1b[2;3mhm" in out.getvalue()
    assert "b\x1b[0m c\n" in out.getvalue()


def test_a_long_prompt_shows_how_far_it_is() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, markup=False)
    steps = [(512, 4096, 0, 0, 1.5, 6), (512, 4096), (4096, 4096)]
    Screen(console, console).show_answer([PromptProgress(*step) for step in steps])
    assert "Looking at picture 2 of 6 (25 %)" in out.getvalue()
    assert "Reading the prompt: 512 of 4096 tokens" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


def test_a_plain_terminal_gets_no_codes(runtime: FakeRuntime) -> None:
    runtime.stdin, runtime.stdout = Terminal(), Terminal()
    runtime.type("Hello")
    assert runtime.run("chat", "--plain") == 0
    assert "\x1b" not in runtime.out
    assert "› You said: Hello\n" in runtime.out
    assert "/help lists the commands" in runtime.out
