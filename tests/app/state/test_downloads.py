"""Downloads run beside the window, pause, go on, and say what is wrong."""

import hashlib
import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from fake_hub import FakeHub, serving
from PySide6.QtCore import QProcess
from windows import PATIENCE_MS

from app.library.download_process import Job
from app.state.downloads import PACKAGES, START, Downloads
from app.state.settings import KeptSettings
from app.values.app_settings import AppSettings
from app.values.models import DownloadFigures
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel
from mlx_engine.values.words import Words

MODEL = HubModel("org/small")
WEIGHTS = bytes(range(256)) * 40_000


@pytest.fixture
def fake():
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": WEIGHTS}
    with serving(FakeHub({"org/small": files, "org/ggufs": {"m-Q8_0.gguf": b"GGUF"}})) as made:
        yield made


@pytest.fixture
def downloads(qtbot, fake, tmp_path):
    made = downloads_in(tmp_path, fake)
    yield made
    made.close()


def downloads_in(place: Path, fake: FakeHub, *links: str) -> Downloads:
    """With these of an earlier day."""
    settings = KeptSettings(place / "settings.json")
    settings.change(AppSettings(downloads=links))
    return Downloads(Hub(place / "hub", fake.endpoint, token=False), settings)


class Seen:
    """The newest figures of all downloads, and where models came to lie."""

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self.came: list[str] = []
        downloads.completed.connect(lambda figures: self.came.append(figures.path))

    @property
    def figures(self) -> tuple[DownloadFigures, ...]:
        return self._downloads.figures

    def phase(self, number: int = 0) -> str:
        return self.figures[number].phase if len(self.figures) > number else ""


def test_a_model_comes_whole(downloads, qtbot):
    seen = Seen(downloads)
    downloads.resume(MODEL.shortest_link)
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: bool(seen.came), timeout=PATIENCE_MS)
    assert len(seen.figures) == 1
    assert seen.phase() == "done"
    assert (Path(seen.came[0]) / "model.safetensors").read_bytes() == WEIGHTS


def test_what_was_deleted_is_listed_no_more(downloads, qtbot):
    seen = Seen(downloads)
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: bool(seen.came), timeout=PATIENCE_MS)
    downloads.forget("/elsewhere")
    assert seen.phase() == "done"
    downloads.forget(seen.came[0])
    assert seen.figures == ()


def test_a_pause_keeps_what_came(downloads, qtbot, fake, tmp_path):
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    downloads.resume(MODEL.shortest_link)
    weights = hashlib.sha256(WEIGHTS).hexdigest()
    part = tmp_path / "hub" / "models--org--small" / "blobs" / f"{weights}.incomplete"
    qtbot.waitUntil(lambda: part.exists() and part.stat().st_size > 0, timeout=PATIENCE_MS)
    downloads.pause(MODEL.shortest_link)
    assert seen.phase() == "paused"
    qtbot.wait(300)
    came = part.stat().st_size
    qtbot.wait(300)
    assert part.stat().st_size == came < len(WEIGHTS), "stopped means stopped"
    fake.slow.clear()
    fake.stalls_at["model.safetensors"] = 2**20
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: part.stat().st_size > came, timeout=PATIENCE_MS)
    downloads.pause(MODEL.shortest_link)
    assert seen.phase() == "paused", "at once, though no piece comes any more"
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: seen.phase() == "done", timeout=PATIENCE_MS)
    assert (Path(seen.came[0]) / "model.safetensors").read_bytes() == WEIGHTS
    assert fake.ranges


def test_a_process_that_dies_is_a_download_that_failed(downloads, qtbot, fake):
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: seen.phase() == "running", timeout=PATIENCE_MS)
    (process,) = downloads.findChildren(QProcess)
    os.kill(process.processId(), signal.SIGKILL)
    qtbot.waitUntil(lambda: seen.phase() == "failed", timeout=PATIENCE_MS)
    assert "broke off" in seen.figures[0].words
    fake.slow.clear()
    downloads.resume(MODEL.shortest_link)
    qtbot.waitUntil(lambda: seen.phase() == "done", timeout=PATIENCE_MS)


def test_a_download_ends_with_the_program(fake, tmp_path):
    fake.slow["model.safetensors"] = 2**20
    hub = Hub(tmp_path / "hub", fake.endpoint, token=False)
    command = [sys.executable, "-P", "-c", START, str(PACKAGES)]
    with Popen(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(Job(hub, MODEL).as_line())
        process.stdin.flush()
        assert b"running" in process.stdout.readline()
        process.stdin.close()  # as a program that is killed leaves it
        assert process.wait(60) == 1


def test_an_unknown_model_is_said_in_words(downloads, qtbot):
    seen = Seen(downloads)
    downloads.resume("org/nothing")
    qtbot.waitUntil(lambda: seen.phase() == "failed", timeout=PATIENCE_MS)
    assert "no such model" in seen.figures[0].words
    assert isinstance(seen.figures[0].words, Words), "and can be said in the window's language"


def test_a_cancelled_one_is_listed_no_more(downloads, qtbot):
    seen = Seen(downloads)
    downloads.resume(MODEL.shortest_link)
    downloads.cancel(MODEL.shortest_link)
    assert seen.figures == ()
    qtbot.waitUntil(lambda: not downloads.findChildren(QProcess), timeout=PATIENCE_MS)
    assert seen.figures == ()


SECOND = HubModel("org/ggufs", quantisation="Q8_0")


def test_one_at_a_time_in_the_order_they_were_asked_for(downloads, qtbot, fake):
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    for model in (HubModel("org/nothing"), MODEL, SECOND):
        downloads.resume(model.shortest_link)
    assert [seen.phase(n) for n in range(3)] == ["looking", "waiting", "waiting"]
    qtbot.waitUntil(lambda: seen.phase(1) == "running", timeout=PATIENCE_MS)
    assert [seen.phase(n) for n in range(3)] == ["failed", "running", "waiting"]
    downloads.cancel(MODEL.shortest_link)
    qtbot.waitUntil(lambda: seen.phase(1) == "done", timeout=PATIENCE_MS)
    assert [figures.name for figures in seen.figures] == ["org/nothing", "org/ggufs:Q8_0"]
    assert downloads.unfinished == ("org/nothing",)


def test_one_that_waits_can_be_paused(downloads, qtbot, fake):
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    downloads.resume(MODEL.shortest_link)
    downloads.resume(SECOND.shortest_link)
    downloads.pause(SECOND.shortest_link)
    downloads.cancel(MODEL.shortest_link)
    assert [figures.phase for figures in seen.figures] == ["paused"]


def test_those_of_an_earlier_day_wait_to_be_resumed(qtbot, tmp_path, fake):
    downloads = downloads_in(tmp_path, fake, "no key", SECOND.shortest_link)
    seen = Seen(downloads)
    assert [(f.name, f.phase) for f in seen.figures] == [("org/ggufs:Q8_0", "paused")]
    assert downloads.unfinished == (SECOND.shortest_link,)
    downloads.resume(SECOND.shortest_link)
    qtbot.waitUntil(lambda: seen.phase() == "done", timeout=PATIENCE_MS)
    assert downloads.unfinished == ()


def test_the_end_of_the_program_changes_nothing_in_the_queue(downloads, qtbot, fake):
    """What is told after the last save would be kept in the place of all the others."""
    seen = Seen(downloads)
    fake.slow["model.safetensors"] = 2**20
    for model in (MODEL, SECOND):
        downloads.resume(model.shortest_link)
    qtbot.waitUntil(lambda: seen.phase() == "running", timeout=PATIENCE_MS)
    kept = downloads.unfinished
    told: list[object] = []
    downloads.changed.connect(lambda: told.append(downloads.figures))
    downloads.close()
    assert (downloads.unfinished, told) == (kept, [])


def test_the_share_of_what_is_here_is_of_all_in_the_queue(downloads, qtbot, fake):
    assert downloads.fraction is None
    fake.slow["model.safetensors"] = 2**20
    downloads.resume(MODEL.shortest_link)
    downloads.resume(SECOND.shortest_link)
    assert downloads.fraction == 0.0, "nothing is known yet"
    qtbot.waitUntil(lambda: 0 < (downloads.fraction or 0) < 1, timeout=PATIENCE_MS)
    downloads.pause(SECOND.shortest_link)
    downloads.pause(MODEL.shortest_link)
    assert downloads.fraction is None


def test_another_folder_is_used_from_the_next_download_on(downloads, qtbot, tmp_path):
    assert downloads.folders == (tmp_path / "hub",)
    downloads.use_folder(tmp_path / "large disk")
    assert downloads.folders == (tmp_path / "large disk", tmp_path / "hub")
    assert downloads.free_bytes() > 0, "also of a folder that is not there yet"
    seen = Seen(downloads)
    downloads.resume(SECOND.shortest_link)
    qtbot.waitUntil(lambda: bool(seen.came), timeout=PATIENCE_MS)
    assert Path(seen.came[0]).is_relative_to(tmp_path / "large disk")
    downloads.use_folder(tmp_path / "hub")
    assert downloads.folders == (tmp_path / "hub",)
