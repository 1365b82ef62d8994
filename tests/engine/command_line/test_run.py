"""Exit statuses, JSON on stdout, and what a bug leaves behind."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime, Terminal
from scripted_engine import DESCRIPTION, NO_HEADS, Answer, ScriptedEngine

from mlx_engine.command_line.commands import ROOMY
from mlx_engine.self_check import Finding
from mlx_engine.server.run import ServerOptions
from mlx_engine.values.conversation import Generation, Message
from mlx_engine.values.errors import ModelNotFound, Reason
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, LoadOptions
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import size_words

ROOT, FULL = Path(__file__).parents[3], Path("/dev/full")


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.mark.parametrize("command", [["chat"], ["generate", "--prompt", "x"], ["inspect", "x"]])
def test_what_the_engine_refuses_is_one_line_and_2(
    runtime: FakeRuntime, command: list[str]
) -> None:
    runtime.error = ModelNotFound("x.gguf: no such file.")
    assert runtime.run(*command) == 2
    assert (runtime.out, runtime.err) == ("", "headstart: x.gguf: no such file.\n")


def test_a_refusal_breaks_no_word_at_a_terminal(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    runtime.stderr = Terminal()
    words = "x.gguf: no such file or folder, and there is nothing of this name on the hub either."
    runtime.error = ModelNotFound(words)
    assert runtime.run("inspect", "x") == 2
    lines = runtime.err.rpartition("\x1b[2K")[2].splitlines()
    assert len(lines) == 3 and all(len(line.rstrip()) <= 40 for line in lines)
    assert " ".join(lines).split() == ["headstart:", *words.split()]


@pytest.mark.parametrize(
    "flags", [["--temperature", "11"], ["--max-tokens", "0"], ["--context", "1"], ["--stop", ""]]
)
def test_bad_options_are_found_before_loading(runtime: FakeRuntime, flags: list[str]) -> None:
    assert runtime.run("chat", *flags) == 2
    assert runtime.err.count("\n") == 1
    assert "is not possible" in runtime.err
    assert runtime.asked == []


def test_a_bug_shows_the_traceback_and_70(runtime: FakeRuntime) -> None:
    runtime.error = ZeroDivisionError("oh")
    assert runtime.run("chat") == 70
    assert "Traceback" in runtime.err
    assert runtime.err.endswith("ZeroDivisionError: oh\nheadstart: this is a bug of ours\n")


@pytest.mark.skipif(not FULL.exists(), reason="a Mac has no disk that is always full")
def test_a_full_disk_is_no_bug() -> None:
    command = [sys.executable, "-u", "-m", "app", "inspect", "assets/pocket_model"]
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


def test_control_c_while_loading_is_130(runtime: FakeRuntime) -> None:
    class Interrupts(ScriptedEngine):
        def session(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise KeyboardInterrupt

    runtime.engine = Interrupts()
    assert runtime.run("chat") == 130
    assert runtime.engine.closed


def test_generate_prints_the_text(runtime: FakeRuntime) -> None:
    assert runtime.run("generate", "m.gguf", "--prompt", "Hello") == 0
    assert runtime.out == "You said: Hello\n"
    assert "tok/s" in runtime.err
    session = runtime.engine.sessions[-1]
    assert session.generation.max_tokens == 256


def test_generate_reads_stdin_and_prints_json(runtime: FakeRuntime) -> None:
    runtime.type("from", "a pipe")
    assert runtime.run("generate", "--json", "--stop", "z", "--ignore-eos") == 0
    report = json.loads(runtime.out)
    assert set(report) == {"model", "text", "tokens", "finish_reason", "stats"}
    names = {field.name for field in fields(GenerationStats)}
    assert set(report["stats"]) == names | {"acceptance"}
    assert report["text"] == "You said: from\na pipe\n"
    assert runtime.err == ""
    limits = runtime.engine.sessions[-1].generation
    assert (limits.stop, limits.ignore_eos) == (("z",), True)


def test_control_c_ends_a_generation_and_prints_what_there_is(runtime: FakeRuntime) -> None:
    class Interrupted(ScriptedEngine):
        def generate(self, prompt: str, **kwargs: object) -> Generation:  # type: ignore[override]
            should_stop = kwargs.pop("should_stop")
            assert callable(should_stop)
            assert not should_stop()
            signal.raise_signal(signal.SIGINT)
            assert should_stop()
            return super().generate(prompt, **kwargs)  # type: ignore[arg-type]

    runtime.engine = Interrupted()
    assert runtime.run("generate", "--prompt", "Hello") == 130
    assert runtime.out == "You said: Hello\n"
    assert runtime.engine.closed


def test_generate_answers_through_the_chat_template(runtime: FakeRuntime) -> None:
    runtime.engine.answers = [Answer("Forty-two.", thinking="Hm.")]
    assert runtime.run("generate", "--chat", "--prompt", "Well?", "--max-tokens", "9") == 0
    assert runtime.out == "Forty-two.\n"
    (session,) = runtime.engine.sessions
    assert session.messages[0] == Message("user", "Well?")
    assert session.generation.max_tokens == 9


@pytest.mark.parametrize(
    ("text", "flags", "is_offered"),
    [("", [], True), ("", ["--chat"], False), ("Yes, it is", [], False)],
)
def test_a_model_that_ends_at_once_is_no_riddle(
    runtime: FakeRuntime, text: str, flags: list[str], is_offered: bool
) -> None:
    runtime.engine.answers = [Answer(text)]
    assert runtime.run("generate", "--prompt", "Why?", *flags) == 0
    assert ("--chat sends the prompt through its chat template" in runtime.err) is is_offered


def test_generate_needs_a_prompt(runtime: FakeRuntime) -> None:
    assert runtime.run("generate") == 2
    assert "--prompt" in runtime.err


def test_a_prompt_that_is_not_text(runtime: FakeRuntime) -> None:
    runtime.stdin = io.TextIOWrapper(io.BytesIO(b"ab\xff"), encoding="utf-8")  # type: ignore[assignment]
    assert runtime.run("generate") == 2
    assert "not UTF-8 (byte 2)" in runtime.err


def test_inspect_shows_what_matters(runtime: FakeRuntime) -> None:
    declined = Reason("no-vision", "The picture tower is left out.")
    runtime.engine = ScriptedEngine(description=replace(NO_HEADS, declined=(declined,)))
    assert runtime.run("inspect", "m.gguf", "--heads", "h.gguf", "--vision", "v.gguf") == 0
    chosen = runtime.asked[0][1]
    assert (str(chosen.heads), str(chosen.vision)) == ("h.gguf", "v.gguf")  # type: ignore[union-attr]
    for words in (
        *("qwen3_5", "27.4B", "18.2 GB", "Q4_K_M", "64 layers, ", "vocabulary", "256k tokens"),
        *("4-bit affine, groups of 64", "memory at 4k", "memory at 256k"),
        *("Declined (no-heads): This file", "Declined (no-vision): The picture"),
    ):
        assert words in runtime.out
    assert "\x1b" not in runtime.out


@pytest.mark.parametrize("command", [["generate", "--prompt", "x"], ["inspect"]])
def test_what_the_hub_sends_is_shown_at_a_terminal(
    runtime: FakeRuntime, command: list[str]
) -> None:
    runtime.stdout, runtime.stderr = Terminal(), Terminal()
    assert runtime.run(*command, "hub/model") == 0
    shown = runtime.out + runtime.err
    assert "Downloading (Ctrl-C stops, a later try goes on): 33 % of 900 B" in shown


def test_inspect_says_which_machine_memory_is_for(runtime: FakeRuntime) -> None:
    cache = CacheBytes(4, 32_768, 512)
    elsewhere = replace(
        DESCRIPTION, nbytes=2 * DESCRIPTION.nbytes, trunk_cache=cache, head_cache=CacheBytes()
    )
    model = replace(DESCRIPTION, without_metal=elsewhere)
    runtime.engine = ScriptedEngine(description=model)
    assert runtime.run("inspect", "m.gguf") == 0
    there = model.with_machine(has_metal=False).memory_needed(4096)
    here = DESCRIPTION.memory_needed(4096, gpu_bytes=ROOMY)
    assert here < there
    assert f"{size_words(here)} with Metal, {size_words(there)} without" in runtime.out
    said = " ".join(runtime.out.split())
    assert "65.5 kB in 16 bits, 34.8 kB in 8 bits, 18.4 kB in 4 bits, for each token" in said
    why = Reason("cache-head-size", "Keys and values stay in 16 bits.")
    runtime.engine = ScriptedEngine(description=replace(DESCRIPTION, packed_cache=why))
    assert runtime.run("inspect", "m.gguf") == 0
    said = " ".join(runtime.out.split())
    assert "65.5 kB for each token. Keys and values stay in 16 bits." in said


@pytest.mark.parametrize("gpu_bytes", [0, 8 * 10**9])
def test_inspect_json(runtime: FakeRuntime, gpu_bytes: int) -> None:
    """The plan is that of a Mac: of this one, or of a large one where there is no Metal."""
    runtime.gpu_bytes = gpu_bytes
    assert runtime.run("inspect", "m.gguf", "--json") == 0
    report = json.loads(runtime.out)
    names = {field.name for field in fields(ModelDescription)}
    told = {"memory_needed", "memory_plan", "cache_bytes_per_token", "state_bytes"}
    assert set(report) == names | told
    parts = report["memory_plan"]["4096"]
    assert sum(parts.values()) - parts["context"] == report["memory_needed"]["4096"]
    assert report["memory_needed"] == {
        str(context): DESCRIPTION.memory_plan(context, gpu_bytes=gpu_bytes or ROOMY).total_bytes
        for context in (4096, 262144)
    }
    assert report["groups"][0]["name"] == "attention"


FINDINGS = [Finding("python", "ok", "3.12"), Finding("backend", "warn", "no Metal")]


def test_doctor(runtime: FakeRuntime) -> None:
    runtime.findings = FINDINGS
    assert runtime.run("doctor") == 0
    assert runtime.out.splitlines()[1].split() == ["warn", "backend", "no", "Metal"]
    assert "\x1b" not in runtime.out


def test_doctor_fails_with_1_and_prints_json(runtime: FakeRuntime) -> None:
    runtime.findings = [*FINDINGS, Finding("built-in", "fail", "gone")]
    assert runtime.run("doctor", "--json") == 1
    report = json.loads(runtime.out)
    assert report["ok"] is False
    assert report["checks"][2] == {"name": "built-in", "state": "fail", "words": "gone"}


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    script = (
        "import sys; sys.path[:0] = ['.', 'tests/helpers']\n"
        "from fake_runtime import FakeRuntime\n"
        "o = FakeRuntime(); o.stdout = sys.stdout; o.stdout.reconfigure("
        "write_through=True)\n"
        "sys.exit(o.run('generate', '--prompt', 'x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", ServerOptions()),
        (
            "--host 0.0.0.0 --port 9000 --api-key k --parallel 8 --name here --name there "
            "--origin http://a",
            ServerOptions("0.0.0.0", 9000, "k", 8, ["http://a"], ["here", "there"]),
        ),
    ],
)
def test_flags_become_options_of_the_server(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: str, wanted: ServerOptions
) -> None:
    def serve(
        load: Callable[[], ScriptedEngine],
        options: ServerOptions,
        draft: DraftOptions,
        announce: Callable[[str, str], None],
    ) -> None:
        load()
        announce("Scripted", "http://there")
        assert (options, draft) == (wanted, DraftOptions(depth=2))

    monkeypatch.delenv("HEADSTART_API_KEY", raising=False)
    monkeypatch.setattr("mlx_engine.server.run.serve", serve)
    loading = ["--context", "512", "--prompt-files", "saved"]
    assert runtime.run("serve", "m.gguf", "--depth", "2", *loading, *words.split()) == 0
    assert runtime.out == "Scripted at http://there (Ctrl-C ends)\n"
    wanted_load = LoadOptions(context_length=512, prompt_files=Path("saved"))
    assert runtime.asked == [("m.gguf", wanted_load)]
