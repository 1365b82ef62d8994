"""Downloads run beside the window, pause, go on, and say what is wrong."""

import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from fake_hub import FakeHub, serving
from PySide6.QtCore import QProcess
from pytestqt.qtbot import QtBot
from windows import PATIENCE_MS

from app.control.downloads import Downloads, key_of
from app.library.download_process import Job
from app.values.models import DownloadFigures
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel

pytestmark = pytest.mark.qt_log_level_fail("WARNING")
MODEL = HubModel("org/small")
WEIGHTS = bytes(range(256)) * 40_000


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": WEIGHTS}
    with serving(FakeHub({"org/small": files})) as made:
        yield made


@pytest.fixture
def downloads(qtbot: QtBot, fake: FakeHub, tmp_path: Path) -> Iterator[Downloads]:
    made = Downloads(Hub(tmp_path / "hub", fake.endpoint, token=False))
    yield made
    made.stop_all()


class Seen:
    """The newest figures of all downloads, and where models came to lie."""

    def __init__(self, downloads: Downloads) -> None:
        self.figures: tuple[DownloadFigures, ...] = ()
        self.came: list[str] = []
        downloads.changed.connect(self._take)
        downloads.came.connect(lambda figures: self.came.append(figures.path))

    def _take(self, figures: tuple[DownloadFigures, ...]) -> None:
        self.figures = figures

    def phase(self) -> str:
        return self.figures[0].phase if self.figures else ""


def test_a_model_comes_whole(downloads: Downloads, qtbot: QtBot) -> None:
    seen = Seen(downloads)
    downloads.start(MODEL)
    downloads.start(MODEL)
    qtbot.waitUntil(lambda: bool(seen.came), timeout=PATIENCE_MS)
    assert len(seen.figures) == 1
    assert seen.phase() == "done"
    assert (Path(seen.came[0]) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_pause_keeps_what_came(
    downloads: Downloads, qtbot: QtBot, fake: FakeHub, tmp_path: Path
) -> None:
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    downloads.start(MODEL)
    weights = hashlib.sha256(WEIGHTS).hexdigest()
    part = tmp_path / "hub" / "models--org--small" / "blobs" / f"{weights}.incomplete"
    qtbot.waitUntil(lambda: part.exists() and part.stat().st_size > 0, timeout=PATIENCE_MS)
    downloads.pause(key_of(MODEL))
    assert seen.phase() == "paused"
    qtbot.wait(300)
    came = part.stat().st_size
    qtbot.wait(300)
    assert part.stat().st_size == came < len(WEIGHTS), "stopped means stopped"
    fake.slow.clear()
    downloads.resume(key_of(MODEL))
    qtbot.waitUntil(lambda: seen.phase() == "done", timeout=PATIENCE_MS)
    assert (Path(seen.came[0]) / "model.safetensors").read_bytes() == WEIGHTS
    assert fake.ranges


def test_a_process_that_dies_is_a_download_that_failed(
    downloads: Downloads, qtbot: QtBot, fake: FakeHub
) -> None:
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    downloads.start(MODEL)
    qtbot.waitUntil(lambda: seen.phase() == "running", timeout=PATIENCE_MS)
    (process,) = downloads.findChildren(QProcess)
    os.kill(process.processId(), signal.SIGKILL)
    qtbot.waitUntil(lambda: seen.phase() == "failed", timeout=PATIENCE_MS)
    assert "broke off" in seen.figures[0].words
    fake.slow.clear()
    downloads.resume(key_of(MODEL))
    qtbot.waitUntil(lambda: seen.phase() == "done", timeout=PATIENCE_MS)


def test_a_download_ends_with_the_program(fake: FakeHub, tmp_path: Path) -> None:
    fake.slow["model.safetensors"] = 2**20
    hub = Hub(tmp_path / "hub", fake.endpoint, token=False)
    command = [sys.executable, "-m", "app.library.download_process"]
    with Popen(command, stdin=PIPE, stdout=PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(Job(hub, MODEL, fetches=True).as_line())
        process.stdin.flush()
        assert b"running" in process.stdout.readline()
        process.stdin.close()  # as a program that is killed leaves it
        assert process.wait(20) == 1


def test_an_unknown_model_is_said_in_words(downloads: Downloads, qtbot: QtBot) -> None:
    seen = Seen(downloads)
    downloads.start(HubModel("org/nothing"))
    qtbot.waitUntil(lambda: seen.phase() == "failed", timeout=PATIENCE_MS)
    assert "no such model" in seen.figures[0].words


def test_a_cancelled_one_is_listed_no_more(downloads: Downloads, qtbot: QtBot) -> None:
    seen = Seen(downloads)
    downloads.start(MODEL)
    downloads.cancel(key_of(MODEL))
    assert seen.figures == ()
    qtbot.waitUntil(lambda: not downloads.findChildren(QProcess), timeout=PATIENCE_MS)
    assert seen.figures == ()
