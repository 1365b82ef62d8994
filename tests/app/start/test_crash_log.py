"""The log keeps what went wrong, also a sudden end, and never stops the program."""

import subprocess
import sys
from pathlib import Path
from threading import Thread
from weakref import ref

import pytest
from chat_stores import without_rights
from PySide6.QtCore import QObject

from app.start.crash_log import LARGEST_LOG, CrashLog, watch_for_crashes

CRASH = """
import faulthandler, sys
from pathlib import Path
from app.start.crash_log import watch_for_crashes
watch_for_crashes(Path(sys.argv[1]), print)
faulthandler._sigsegv()
"""


@pytest.fixture
def crash_log(tmp_path):
    made = CrashLog(tmp_path / "logs")
    end = made.catch_all()
    yield made
    end()


def test_lines_have_their_time_and_half_characters_do_no_harm(crash_log):
    crash_log.note("The disk is full \ud800.")
    crash_log.note("Again.")
    first, second = crash_log.log_file.read_text().splitlines()
    assert first[:2] == "20" and "The disk is full" in first
    assert second.endswith(" Again.")


def test_mistakes_of_other_threads_and_what_qt_warns_of_are_logged(crash_log, tmp_path):
    thread = Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    assert "ZeroDivisionError" in crash_log.log_file.read_text()
    code = "from app.start.crash_log import *; from PySide6.QtCore import qWarning, qDebug;"
    code += "watch_for_crashes(Path(sys.argv[1]), print); qDebug('no'); qWarning('no timer')"
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "other")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "Qt: no timer\n"


def test_what_failed_is_let_go_once_it_is_told(crash_log):
    held = []

    def fail() -> None:
        widget = QObject()
        held.append(ref(widget))
        raise ValueError("lost")

    try:
        fail()
    except ValueError as error:
        crash_log.take(ValueError, error, error.__traceback__)
        assert held[0]() is None, "as Python keeps the last mistake"
    assert 'raise ValueError("lost")' in crash_log.log_file.read_text()


def test_the_log_does_not_grow_for_ever(crash_log):
    for _ in range(5):
        crash_log.note("x" * (LARGEST_LOG // 2))
    files = sorted(crash_log.log_file.parent.iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 2 * LARGEST_LOG


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "logs").write_text("a file where the folder should be")
    made = CrashLog(tmp_path / "logs")
    end = made.catch_all()
    made.note("Lost.")
    end()
    watch_for_crashes(tmp_path / "logs", made.note)


def test_a_log_that_may_not_be_written_stops_nothing(crash_log):
    crash_log.note("First.")
    with without_rights(crash_log.log_file.parent):
        crash_log.note("x" * LARGEST_LOG)
        crash_log.note("Again.")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is full here")
def test_a_full_disk_does_not_hold_up_the_end(tmp_path):
    (tmp_path / "headstart.log").symlink_to("/dev/full")
    made = CrashLog(tmp_path)
    end = made.catch_all()
    made.note("Lost.")
    end()


def test_a_sudden_end_is_in_the_next_log(tmp_path):
    root = Path(__file__).parents[3]
    crashed = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path)], cwd=root, capture_output=True, check=False
    )
    assert crashed.returncode != 0
    said: list[str] = []
    code = "from app.start.crash_log import *; watch_for_crashes(Path(sys.argv[1]), print)"
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", f"import sys\n{code}", str(tmp_path)],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
        said.append(told.stdout)
    assert "sudden end" in said[0]
    assert "Segmentation fault" in said[0]
    assert said[1] == "", "it is told once"


def test_other_users_cannot_read_the_logs(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    for name in ("headstart.log", "headstart.log.1", "crash.log"):
        (logs / name).touch(0o644)
    CrashLog(logs).note("Something that was said.")
    code = "from app.start.crash_log import *; watch_for_crashes(Path(sys.argv[1]), print)"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code, str(logs)], cwd=root, check=True)
    assert {file.stat().st_mode & 0o777 for file in logs.iterdir()} == {0o600}
    assert logs.stat().st_mode & 0o777 == 0o700
