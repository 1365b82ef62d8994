"""The commands with the real engine and the built-in model, as processes."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

import mlx_engine
from mlx_engine.command_line.screen import PROMPT_MARK
from mlx_engine.values.options import DraftOptions

ROOT = Path(__file__).parents[3]
HEADSTART = [sys.executable, "-m", "app"]


def headstart(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEADSTART, *arguments], input=typed, capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_generate_says_what_the_engine_says_without_drafting() -> None:
    words = "generate --prompt Hello --json --max-tokens 12 --seed 1 --depth 3"
    done = headstart(*words.split())
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    with mlx_engine.load() as engine:
        sampling = replace(engine.description.sampling, seed=1)
        plain = engine.generate("Hello", 12, sampling, DraftOptions(depth=0))
    assert report["tokens"] == list(plain.tokens)
    assert report["stats"]["drafted"] > 0


def test_a_piped_chat() -> None:
    typed = "Who are you?\n/draft 9\n/continue\n/stats\n"
    done = headstart("chat", "--seed", "1", "--depth", "2", "--max-tokens", "6", typed=typed)
    assert done.returncode == 0
    assert done.stdout.strip()
    for words in ("1 MTP head", "0 to 8", "tok/s", "· depth 2", "depth 1 ", "ms a pass"):
        assert words in done.stderr


def test_a_terminal_that_knows_ascii_only() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "app", "chat", "--once", "Who are you?"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0
    assert b"parameters ? 8-bit" in done.stderr


def test_control_c_stops_the_answer_and_keeps_the_chat() -> None:
    chat = subprocess.Popen(
        [*HEADSTART, "chat", "--ignore-eos", "--seed", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert chat.stdin is not None
    assert chat.stdout is not None
    with chat:
        chat.stdin.write("Who are you?\n/messages\n")
        chat.stdin.flush()
        assert chat.stdout.read(1)
        chat.send_signal(signal.SIGINT)
        _, notes = chat.communicate(timeout=120)
    assert chat.returncode == 0
    assert "Stopped; /continue goes on." in notes
    assert "  2 assistant" in notes


def read_until(terminal: int, *words: str) -> str:
    """What a terminal shows until it has shown these words, one after the other."""
    shown, end = b"", monotonic() + 120
    while not re.search(
        ".*?".join(map(re.escape, words)), shown.decode(errors="replace"), re.DOTALL
    ):
        assert select.select([terminal], [], [], max(0, end - monotonic()))[0], shown
        shown += os.read(terminal, 4096)
    return shown.decode(errors="replace")


def test_a_terminal_takes_what_is_typed_while_it_loads_and_pastes_of_several_lines() -> None:
    # A key typed before the prompt is shown again may still meet the terminal's own line editing.
    ours, theirs = os.openpty()
    os.write(ours, b"Who are you?\n")
    chat = subprocess.Popen(
        [*HEADSTART, "chat", "--seed", "1", "--max-tokens", "4"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        read_until(ours, "tok/pass", PROMPT_MARK.strip())
        os.write(ours, b"\x1b[200~one\ntwo\x1b[201~\r")
        read_until(ours, "tok/pass", PROMPT_MARK.strip())
        os.write(ours, b"/messages\r")
        listed = read_until(ours, "3 user      one \N{HORIZONTAL ELLIPSIS}", PROMPT_MARK.strip())
        assert "1 user      Who are you?" in listed
        os.write(ours, b"\x04")
        read_until(ours, "Save this chat?")
        os.write(ours, b"n\r")
        assert chat.wait(timeout=120) == 0
    finally:
        chat.kill()
        chat.wait()
        os.close(ours)
