"""The system asks the window to end: at the end of a session, or with its terminal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.run import ENDINGS, hear_the_end
from app.start.outside import SingleInstance

ROOT = Path(__file__).parents[3]
STARTED_MS = 60_000


def test_the_window_keeps_all(qapp, qtbot, tmp_path):
    """As when it is closed: its place is in the settings."""
    window = subprocess.Popen(
        [sys.executable, "-m", "app", "app"],
        cwd=ROOT,
        env=os.environ | {"HEADSTART_FOLDER": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
    )
    try:
        qtbot.waitUntil(lambda: SingleInstance(tmp_path).hand_over([]), timeout=STARTED_MS)
        window.terminate()
        assert window.wait(STARTED_MS / 1000) == 0
    finally:
        window.kill()
    assert json.loads((tmp_path / "settings.json").read_text())["window_state"]


@pytest.fixture
def as_before():
    before = {ending: signal.getsignal(ending) for ending in ENDINGS}
    yield
    for ending, handler in before.items():
        signal.signal(ending, handler)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_heard(qapp, qtbot, as_before, ending):
    """Not in the middle of something, which would find its store closed."""
    heard: list[str] = []
    signal.signal(ending, signal.SIG_DFL)  # tests may run where it is ignored
    hear_the_end(lambda: heard.append("end"))
    signal.raise_signal(ending)
    assert not heard
    qtbot.waitUntil(lambda: heard == ["end"])


def test_what_was_ignored_stays_so(qapp, as_before):
    heard: list[str] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hear_the_end(lambda: heard.append("end"))
    signal.raise_signal(signal.SIGHUP)
    qapp.processEvents()
    assert not heard
