"""A machine without Qt's libraries, compilers or a screen: program and tests still start."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.start.folders import has_display
from app.start.qt_libraries import PACKAGES

ROOT = Path(__file__).parents[3]
LIBRARY = re.compile("libEGL.so.1")

NO_QT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "PySide6":
            raise ImportError("libEGL.so.1: cannot open shared object file")

sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def bare(tmp_path):
    """Runs Python where nothing is on the path and Qt does not load."""
    (tmp_path / "sitecustomize.py").write_text(NO_QT)
    surroundings = {
        "PATH": "",
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "HEADSTART_FOLDER": str(tmp_path / "all"),
    }

    def run(*arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=surroundings | more,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_chat_opens_in_the_terminal(bare):
    told = bare("app", stdin="What is a dict?\n")
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip()
    assert not LIBRARY.search(told.stderr) and "chat in the terminal" not in told.stderr


@pytest.mark.parametrize(("display", "window"), [(":7", []), ("", ["app"])])
def test_where_a_window_is_wanted_it_says_why_there_is_none(bare, tmp_path, display, window):
    """And goes on to the chat, of the model that is named."""
    told = bare("app", *window, str(tmp_path / "gone.gguf"), DISPLAY=display)
    assert told.returncode == 2
    assert LIBRARY.search(told.stderr) and "chat in the terminal" in told.stderr
    assert (f"apt install {PACKAGES}" in told.stderr) == (sys.platform == "linux")
    assert "gone.gguf" in told.stderr.splitlines()[-1]


def test_control_c_while_something_is_imported(bare, tmp_path):
    is_it = 'name.partition(".")[0] == "PySide6"'
    impatient = NO_QT.replace("ImportError", "KeyboardInterrupt")
    impatient = impatient.replace(is_it, 'name == "mlx_engine.command_line.run"')
    (tmp_path / "sitecustomize.py").write_text(impatient)
    told = bare("app", "generate", "--prompt", "a")
    assert (told.returncode, told.stderr) == (130, "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "--prompt", "dict", "--max-tokens", "4"],
        ["inspect", "assets/pocket_model"],
        ["--help"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_commands_run(bare, arguments):
    told = bare("app", *arguments)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip()


def test_doctor_finds_nothing_that_fails(bare):
    told = bare("app", "doctor", "--json")
    report = json.loads(told.stdout)
    assert [check for check in report["checks"] if check["state"] == "fail"] == []
    assert (report["ok"], told.returncode) == (True, 0)


def test_tests_of_the_window_are_skipped_in_one_loud_line(bare):
    plain, window = "tests/app/start/test_folders.py", "tests/app/window/test_plain_words.py"
    told = bare("pytest", plain, window, "-p", "no:cacheprovider", "-k", "not crash")
    assert told.returncode == 0, told.stdout
    (loud,) = (line for line in told.stdout.splitlines() if "NOT TESTED" in line)
    assert LIBRARY.search(loud)
    assert "passed, 1 skipped" in told.stdout.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac always has one")
def test_what_a_display_is_named_by():
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        assert has_display({name: ":0"})
    assert has_display({"QT_QPA_PLATFORM": "offscreen"})
    assert not has_display({"DISPLAY": ""})


@pytest.mark.parametrize("names", [{}, {"DISPLAY": ":987"}, {"WAYLAND_DISPLAY": "no-such-server"}])
def test_a_model_is_chatted_with_where_no_display_answers(needs_window, tmp_path, names):
    """Qt ends the process, for `headstart FILE` over ssh; what it says is told."""
    gone = tmp_path / "gone.gguf"
    told = subprocess.run(
        [sys.executable, "-m", "app", str(gone)],
        cwd=ROOT,
        env={"HEADSTART_FOLDER": str(tmp_path), "PATH": ""} | names,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2, told.stderr
    assert "display" in told.stderr or "plugin" in told.stderr
    assert "the chat in the terminal" in told.stderr
    assert "gone.gguf" in told.stderr.splitlines()[-1]
