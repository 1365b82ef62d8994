"""Exit statuses, JSON on stdout, and what a bug leaves behind."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fake_outside import FakeOutside, Terminal
from scripted_engine import DESCRIPTION, NO_HEADS, Answer, ScriptedEngine

from mlx_engine.command_line.commands import ROOMY
from mlx_engine.self_check import Finding
from mlx_engine.values.conversation import Generation, Message
from mlx_engine.values.errors import ModelNotFound, Reason
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import size_words

ROOT, FULL = Path(__file__).parents[3], Path("/dev/full")


@pytest.fixture
def outside(tmp_path: Path) -> FakeOutside:
    return FakeOutside(tmp_path / "logs")


@pytest.mark.parametrize("command", [["chat"], ["generate", "--prompt", "x"], ["inspect", "x"]])
def test_what_the_engine_refuses_is_one_line_and_2(
    outside: FakeOutside, command: list[str]
) -> None:
    outside.error = ModelNotFound("x.gguf: no such file.")
    assert outside.run(*command) == 2
    assert (outside.out, outside.err) == ("", "headstart: x.gguf: no such file.\n")


def test_a_refusal_breaks_no_word_at_a_terminal(
    outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    outside.stderr = Terminal()
    words = "x.gguf: no such file or folder, and there is nothing of this name on the hub either."
    outside.error = ModelNotFound(words)
    assert outside.run("inspect", "x") == 2
    lines = outside.err.rpartition("\x1b[2K")[2].splitlines()
    assert len(lines) == 3 and all(len(line.rstrip()) <= 40 for line in lines)
    assert " ".join(lines).split() == ["headstart:", *words.split()]


@pytest.mark.parametrize(
    "flags", [["--temperature", "11"], ["--max-tokens", "0"], ["--context", "1"], ["--stop", ""]]
)
def test_bad_options_are_found_before_loading(outside: FakeOutside, flags: list[str]) -> None:
    assert outside.run("chat", *flags) == 2
    assert outside.err.count("\n") == 1
    assert "is not possible" in outside.err
    assert outside.asked == []


def test_a_bug_leaves_a_log_and_70(outside: FakeOutside) -> None:
    outside.error = ZeroDivisionError("oh")
    assert outside.run("chat") == 70
    (log,) = outside.log_folder.iterdir()
    assert "ZeroDivisionError: oh" in log.read_text()
    assert "test_run" not in outside.err
    assert "bug of ours, ZeroDivisionError: oh" in outside.err
    assert str(log) in outside.err


def test_a_bug_without_a_place_for_logs_shows_the_traceback(outside: FakeOutside) -> None:
    outside.log_folder.write_text("a file is in the way")
    outside.error = ZeroDivisionError("oh")
    assert outside.run("chat") == 70
    assert "Traceback" in outside.err


@pytest.mark.skipif(not FULL.exists(), reason="a Mac has no disk that is always full")
@pytest.mark.parametrize("asked", [["inspect", "assets/pocket_model"], ["--version"]])
def test_a_full_disk_is_no_bug(asked: list[str]) -> None:
    command = [sys.executable, "-u", "-m", "app", *asked]
    with FULL.open("w") as full:
        told = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    words = "No space left on device, so the output is cut: free space, or write elsewhere."
    assert (told.returncode, told.stderr) == (2, f"headstart: {words}\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_stream_that_is_closed_is_an_empty_one(closed: str) -> None:
    """As some programs that start others leave them."""
    script = f"{sys.executable} -m app chat no-such-folder/x {closed}"
    told = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert told.returncode == 2
    assert b"bug" not in told.stderr


def test_control_c_while_loading_is_130(outside: FakeOutside) -> None:
    class Interrupts(ScriptedEngine):
        def session(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise KeyboardInterrupt

    outside.engine = Interrupts()
    assert outside.run("chat") == 130
    assert outside.engine.closed


def test_generate_prints_the_text(outside: FakeOutside) -> None:
    assert outside.run("generate", "m.gguf", "--prompt", "Hello") == 0
    assert outside.out == "You said: Hello\n"
    assert "tok/s" in outside.err
    session = outside.engine.sessions[-1]
    assert session.generation.max_tokens == 256


def test_generate_reads_stdin_and_prints_json(outside: FakeOutside) -> None:
    outside.type("from", "a pipe")
    assert outside.run("generate", "--json", "--stop", "z", "--ignore-eos") == 0
    report = json.loads(outside.out)
    assert set(report) == {"model", "text", "tokens", "finish_reason", "stats"}
    names = {field.name for field in fields(GenerationStats)}
    assert set(report["stats"]) == names | {"acceptance"}
    assert report["text"] == "You said: from\na pipe\n"
    assert outside.err == ""
    limits = outside.engine.sessions[-1].generation
    assert (limits.stop, limits.ignore_eos) == (("z",), True)


def test_control_c_ends_a_generation_and_prints_what_there_is(outside: FakeOutside) -> None:
    class Interrupted(ScriptedEngine):
        def generate(self, prompt: str, **kwargs: object) -> Generation:  # type: ignore[override]
            should_stop = kwargs.pop("should_stop")
            assert callable(should_stop)
            assert not should_stop()
            signal.raise_signal(signal.SIGINT)
            assert should_stop()
            return super().generate(prompt, **kwargs)  # type: ignore[arg-type]

    outside.engine = Interrupted()
    assert outside.run("generate", "--prompt", "Hello") == 130
    assert outside.out == "You said: Hello\n"
    assert outside.engine.closed


def test_generate_answers_through_the_chat_template(outside: FakeOutside) -> None:
    outside.engine.answers = [Answer("Forty-two.", thinking="Hm.")]
    assert outside.run("generate", "--chat", "--prompt", "Well?", "--max-tokens", "9") == 0
    assert outside.out == "Forty-two.\n"
    (session,) = outside.engine.sessions
    assert session.messages[0] == Message("user", "Well?")
    assert session.generation.max_tokens == 9


@pytest.mark.parametrize(
    ("text", "flags", "is_offered"),
    [("", [], True), ("", ["--chat"], False), ("Yes, it is", [], False)],
)
def test_a_model_that_ends_at_once_is_no_riddle(
    outside: FakeOutside, text: str, flags: list[str], is_offered: bool
) -> None:
    outside.engine.answers = [Answer(text)]
    assert outside.run("generate", "--prompt", "Why?", *flags) == 0
    assert ("--chat sends the prompt through its chat template" in outside.err) is is_offered


def test_generate_needs_a_prompt(outside: FakeOutside) -> None:
    assert outside.run("generate") == 2
    assert "--prompt" in outside.err


def test_a_prompt_that_is_not_text(outside: FakeOutside) -> None:
    outside.stdin = io.TextIOWrapper(io.BytesIO(b"ab\xff"), encoding="utf-8")  # type: ignore[assignment]
    assert outside.run("generate") == 2
    assert "not UTF-8 (byte 2)" in outside.err


def test_inspect_shows_what_matters(outside: FakeOutside) -> None:
    declined = Reason("no-vision", "The picture tower is left out.")
    outside.engine = ScriptedEngine(description=replace(NO_HEADS, declined=(declined,)))
    assert outside.run("inspect", "m.gguf", "--heads", "h.gguf") == 0
    assert str(outside.asked[0][1].heads) == "h.gguf"  # type: ignore[union-attr]
    for words in (
        *("qwen3_5", "27.4B", "18.2 GB", "Q4_K_M", "64 layers, ", "vocabulary", "256k tokens"),
        *("4-bit affine, groups of 64", "memory at 4k", "memory at 256k"),
        *("Declined (no-heads): This file", "Declined (no-vision): The picture"),
    ):
        assert words in outside.out
    assert "\x1b" not in outside.out


@pytest.mark.parametrize("command", [["generate", "--prompt", "x"], ["inspect"]])
def test_what_the_hub_sends_is_shown_at_a_terminal(
    outside: FakeOutside, command: list[str]
) -> None:
    outside.stdout, outside.stderr = Terminal(), Terminal()
    assert outside.run(*command, "hub/model") == 0
    shown = outside.out + outside.err
    assert "Downloading (Ctrl-C stops, a later try goes on): 33 % of 900 B" in shown


def test_inspect_says_which_machine_memory_is_for(outside: FakeOutside) -> None:
    cache = CacheBytes(4, 32_768, 512)
    elsewhere = replace(
        DESCRIPTION, nbytes=2 * DESCRIPTION.nbytes, trunk_cache=cache, head_cache=CacheBytes()
    )
    model = replace(DESCRIPTION, without_metal=elsewhere)
    outside.engine = ScriptedEngine(description=model)
    assert outside.run("inspect", "m.gguf") == 0
    there = model.on(metal=False).memory_needed(4096)
    here = DESCRIPTION.memory_needed(4096, gpu_bytes=ROOMY)
    assert here < there
    assert f"{size_words(here)} with Metal, {size_words(there)} without" in outside.out
    said = " ".join(outside.out.split())
    assert "65.5 kB in 16 bits, 34.8 kB in 8 bits, 18.4 kB in 4 bits, for each token" in said
    why = Reason("cache-head-size", "Keys and values stay in 16 bits.")
    outside.engine = ScriptedEngine(description=replace(DESCRIPTION, packed_cache=why))
    assert outside.run("inspect", "m.gguf") == 0
    said = " ".join(outside.out.split())
    assert "65.5 kB for each token. Keys and values stay in 16 bits." in said


@pytest.mark.parametrize("gpu_bytes", [0, 8 * 10**9])
def test_inspect_json(outside: FakeOutside, gpu_bytes: int) -> None:
    """The plan is that of a Mac: of this one, or of a large one where there is no Metal."""
    outside.gpu_bytes = gpu_bytes
    assert outside.run("inspect", "m.gguf", "--json") == 0
    report = json.loads(outside.out)
    names = {field.name for field in fields(ModelDescription)}
    told = {"memory_needed", "memory_plan", "cache_bytes_per_token", "state_bytes"}
    assert set(report) == names | told
    parts = report["memory_plan"]["4096"]
    assert sum(parts.values()) - parts["context"] == report["memory_needed"]["4096"]
    assert report["memory_needed"] == {
        str(context): DESCRIPTION.memory_plan(context, gpu_bytes=gpu_bytes or ROOMY).total
        for context in (4096, 262144)
    }
    assert report["groups"][0]["name"] == "attention"


FINDINGS = [Finding("python", "ok", "3.12"), Finding("backend", "warn", "no Metal")]


def test_doctor(outside: FakeOutside) -> None:
    outside.findings = FINDINGS
    assert outside.run("doctor") == 0
    assert outside.out.splitlines()[1].split() == ["warn", "backend", "no", "Metal"]
    assert "\x1b" not in outside.out


def test_doctor_fails_with_1_and_prints_json(outside: FakeOutside) -> None:
    outside.findings = [*FINDINGS, Finding("built-in", "fail", "gone")]
    assert outside.run("doctor", "--json") == 1
    report = json.loads(outside.out)
    assert report["ok"] is False
    assert report["checks"][2] == {"name": "built-in", "state": "fail", "words": "gone"}


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    script = (
        "import sys; sys.path[:0] = ['.', 'tests/helpers']\n"
        "from pathlib import Path\n"
        "from fake_outside import FakeOutside\n"
        "o = FakeOutside(Path('nowhere')); o.stdout = sys.stdout; o.stdout.reconfigure("
        "write_through=True)\n"
        "sys.exit(o.run('generate', '--prompt', 'x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
