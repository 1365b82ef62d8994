"""A second launch hands its paths to the first window."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from windows import running, scripted

from app.__main__ import main, paths_to_open
from app.start.outside import Application, SingleInstance, as_typed, paths_in


@pytest.fixture
def first(qtbot, tmp_path):
    made = SingleInstance(tmp_path)
    assert made.listen()
    yield made
    made.close()


def hand_over_elsewhere(folder: Path, paths: list[str]) -> threading.Thread:
    thread = threading.Thread(target=lambda: SingleInstance(folder).hand_over(paths))
    thread.start()
    return thread


def test_paths_arrive_in_the_first_window(first, tmp_path, qtbot):
    with qtbot.waitSignal(first.called) as heard:
        thread = hand_over_elsewhere(tmp_path, ["/models/ünï code.gguf", "b"])
    thread.join()
    assert heard.args == [["/models/ünï code.gguf", "b"]]


def test_without_a_first_window_nothing_is_handed_over(qtbot, tmp_path):
    assert SingleInstance(tmp_path).hand_over(["a"]) is False


def test_another_profile_is_another_window(first, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    assert SingleInstance(other).hand_over(["a"]) is False


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
        driven.widgets.actions["library"].trigger()
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


def test_the_place_of_a_window_that_crashed_is_free(qtbot, tmp_path):
    code = "import os, sys; from app.start.outside import *;"
    code += "one = SingleInstance(Path(sys.argv[1])); assert one.claim(); os._exit(0)"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=True)
    assert (tmp_path / "headstart.lock").exists()
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
