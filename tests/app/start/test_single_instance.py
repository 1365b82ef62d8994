"""A second launch hands its paths to the first window."""

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from windows import running, scripted

from app.__main__ import main, paths_to_open
from app.start.outside import Application, SingleInstance, as_typed, paths_in


@pytest.fixture
def data(tmp_path, request):
    """The folder of data, so deep in others; a socket's path has at most 103 bytes."""
    folder = tmp_path.joinpath(*["a folder of many letters"] * getattr(request, "param", 0))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def first(qtbot, data):
    made = SingleInstance(data)
    assert made.listen()
    yield made
    made.close()


def hand_over_elsewhere(folder: Path, paths: list[str]) -> threading.Thread:
    thread = threading.Thread(target=lambda: SingleInstance(folder).hand_over(paths))
    thread.start()
    return thread


@pytest.mark.parametrize("data", [0, 8], indirect=True)
def test_paths_arrive_in_the_first_window(first, data, qtbot, monkeypatch):
    """The answer cannot, as both windows are in one process and the second one waits."""
    monkeypatch.setattr("app.start.outside.ANSWER_MS", 100)
    with qtbot.waitSignal(first.called) as heard:
        thread = hand_over_elsewhere(data, ["/models/ünï code.gguf", "b"])
    thread.join()
    assert heard.args == [["/models/ünï code.gguf", "b"]]


def test_without_a_first_window_nothing_is_handed_over(qtbot, tmp_path):
    assert SingleInstance(tmp_path).hand_over(["a"]) is False


def test_another_profile_is_another_window(first, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    assert SingleInstance(other).hand_over(["a"]) is False


LISTEN = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("listening", flush=True)
caller, _ = server.accept()
print(caller.recv(1000).decode(), end="", flush=True)
caller.sendall(sys.argv[2].encode())
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("mode", "answer"),
    [(0o755, "taken\n"), (0o777, "taken\n"), (0o700, "no\n"), (0o700, ""), (0o700, "taken\n")],
)
def test_only_an_answering_window_of_this_user_is_called(
    qtbot, tmp_path, monkeypatch, mode, answer
):
    """Not a socket where others may write, however well it answers; nor what answers otherwise."""
    is_ours = mode == 0o700 and answer == "taken\n"
    monkeypatch.setattr("app.start.outside.ANSWER_MS", 60_000 if is_ours else 200)
    with TemporaryDirectory() as name:
        shared = Path(name)
        shared.chmod(mode)
        (tmp_path / "headstart.socket").symlink_to(shared)
        command = [sys.executable, "-S", "-c", LISTEN, str(shared / "window"), answer]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
            assert other.stdout is not None and other.stdout.readline() == "listening\n"
            instance = SingleInstance(tmp_path)
            assert instance.hand_over(["/secret"]) == is_ours
            if mode == 0o700:
                assert "secret" in other.stdout.readline()
            else:
                other.kill()
                assert other.stdout.read() == "", "it was told nothing"
        if mode == 0o700:
            assert instance.claim() and instance.listen(), "it is replaced"
            instance.close()
            shared.mkdir(exist_ok=True)


def test_nobody_else_can_reach_the_socket(first, tmp_path):
    folder = (tmp_path / "headstart.socket").readlink()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first.close()
    assert not folder.exists() and not (tmp_path / "headstart.socket").is_symlink()


def test_what_a_crash_left_behind_is_replaced(first, tmp_path):
    second = SingleInstance(tmp_path)
    assert second.listen()
    second.close()


@pytest.mark.parametrize(
    "message", [b"", b"no json", b'{"a": 1}', b"[1, null]", b"\xff\xfe", b'"text"']
)
def test_odd_messages_bring_no_paths(message):
    assert paths_in(message) == []


def test_a_file_opened_in_the_finder_is_passed_on(qapp, qtbot):
    event = QFileOpenEvent(QUrl.fromLocalFile("/models/a.gguf"))
    with qtbot.waitSignal(qapp.opened) as heard:
        assert QApplication.sendEvent(qapp, event)
    assert heard.args == [["/models/a.gguf"]]


def test_no_filter_in_python_sees_every_event(qapp, qtbot, tmp_path, monkeypatch):
    filters: list[QObject] = []
    monkeypatch.setattr(
        Application, "installEventFilter", lambda _, one: filters.append(one), raising=False
    )
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("Hello")
        driven.app.actions["library"].trigger()
    assert not filters, "Application.event is where its own events arrive"


def test_a_first_window_that_hangs_keeps_its_place(qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("app.start.outside.ANSWER_MS", 50)
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    assert first.claim() and first.listen()
    assert not second.hand_over(["a"]), "nobody answers while this thread is busy"
    assert not second.claim()
    first.close()
    assert second.claim()
    second.close()


def test_a_busy_window_that_takes_the_paths_later_has_taken_them(first, data):
    code = "import sys; from app.start.outside import *;"
    code += "print('ready', flush=True);"
    code += "sys.exit(not SingleInstance(Path(sys.argv[1])).hand_over(['a']))"
    command = [sys.executable, "-c", code, str(data)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as second:
        second.stdout.readline()
        time.sleep(1.2)  # at work for so long, the window hears nothing
        while second.poll() is None:
            QApplication.processEvents()
    assert second.returncode == 0


def test_the_place_of_a_window_that_crashed_is_free(qtbot, tmp_path):
    code = "import os, sys; from app.start.outside import *;"
    code += "one = SingleInstance(Path(sys.argv[1])); assert one.claim(); os._exit(0)"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=True)
    assert (tmp_path / "headstart.lock").exists()
    instance = SingleInstance(tmp_path)
    assert instance.claim()
    instance.close()


@pytest.mark.parametrize("left", ["", "1", "no number\nHeadstart\nhere\n"])
def test_a_lock_that_a_full_disk_cut_short_keeps_nobody_out(qapp, tmp_path, left):
    """As a window leaves it that was killed where its number could not be written."""
    (tmp_path / "headstart.lock").write_text(left)
    instance = SingleInstance(tmp_path)
    assert instance.claim()
    instance.close()


def test_arguments_become_whole_paths(tmp_path):
    (tmp_path / "a.gguf").touch()
    typed = as_typed(["a.gguf", "Qwen/Qwen3.5-4B"], tmp_path)
    assert typed == [os.fspath(tmp_path / "a.gguf"), "Qwen/Qwen3.5-4B"]


@pytest.mark.parametrize(
    ("arguments", "display", "paths"),
    [
        ([], True, []),
        ([], False, None),
        (["app"], False, []),
        (["app", "x.gguf"], True, ["x.gguf"]),
        (["x.gguf"], True, ["x.gguf"]),
        (["chat", "x.gguf"], True, None),
        (["--help"], True, None),
    ],
)
def test_what_arguments_mean(arguments, display, paths):
    meant = paths_to_open(arguments, display=display)
    assert meant is None if paths is None else list(meant) == paths


def test_the_help_of_the_window_is_that_of_all(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["headstart", "app", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "`headstart app [PATH ...]`" in capsys.readouterr().out


def test_deciding_loads_neither_qt_nor_the_terminal():
    import subprocess

    parts = "{name.split('.')[0] for name in sys.modules}"
    code = f"import sys, app.__main__; sys.exit(bool({parts} & {{'PySide6', 'mlx_engine'}}))"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
