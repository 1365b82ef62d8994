"""Downloads from the hub, each in a process of its own, with their figures a few times a second."""

import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

from app.library.download_process import Job, read_figures
from app.values.models import DownloadFigures, Phase
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel

LEAVE_MS = 1500
AT_WORK: tuple[Phase, ...] = ("looking", "waiting", "running")
PACKAGES = Path(__file__).parents[2]
"""The folder that holds the package app, for a process that does not find it by itself."""

START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from app.library.download_process import main; main()"
)


class DownloadProcess(QProcess):
    """One download, or one look at what it would fetch.

    Signals:
        told: its DownloadFigures.
        left: itself, when it has come to its end.
    """

    told = Signal(object)
    left = Signal(object)

    def __init__(self, first: DownloadFigures, parent: QObject) -> None:
        """first: what is told before anything is known."""
        super().__init__(parent)
        self.figures = first
        self.readyReadStandardOutput.connect(self._read)
        self.finished.connect(self._end)
        self.errorOccurred.connect(self._miss)

    def begin(self, job: Job) -> None:
        """Do it."""
        self.start(sys.executable, ["-P", "-c", START, str(PACKAGES)])
        self.write(job.as_line())

    def _read(self) -> None:
        while self.canReadLine():
            self.figures = read_figures(bytes(self.readLine().data()), self.figures)
            self.told.emit(self.figures)

    def _miss(self, error: QProcess.ProcessError) -> None:
        """One that cannot be started does not end either."""
        if error == QProcess.ProcessError.FailedToStart:
            self._end()

    def _end(self) -> None:
        """One that did not say how it ended has failed."""
        self._read()
        if self.figures.phase in AT_WORK:
            said = bytes(self.readAllStandardError().data()).decode(errors="replace")
            last = said.strip().rpartition("\n")[2] or self.errorString()
            words = f"{self.figures.name}: the download broke off ({last}). Start it again."
            self.figures = replace(self.figures, phase="failed", words=words, bytes_per_second=0.0)
            self.told.emit(self.figures)
        self.left.emit(self)


class Downloads(QObject):
    """All downloads since the program started, by key.

    Signals:
        changed: figures of all of them, in the order they were asked for.
        came: DownloadFigures of a model that is complete.
    """

    changed = Signal(tuple)
    came = Signal(object)

    def __init__(self, hub: Hub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._models: dict[str, HubModel] = {}
        self._figures: dict[str, DownloadFigures] = {}
        self._processes: dict[str, DownloadProcess] = {}

    def look(self, model: HubModel) -> None:
        """Ask what would be fetched; one that is at work is left alone."""
        self._begin(model, "looking")

    def start(self, model: HubModel) -> None:
        """Begin, or go on with one that was paused or failed."""
        self._begin(model, "waiting")

    def resume(self, key: str) -> None:
        """Begin what was offered, or go on."""
        if key in self._models:
            self.start(self._models[key])

    def choose(self, key: str, file: str) -> None:
        """Fetch this file of those there are."""
        model = self._models.get(key)
        if model is not None:
            self.cancel(key)
            self.start(replace(model, file=file, quantisation=None))

    def path_of(self, key: str) -> str:
        """Where a model lies that is complete."""
        return self._figures[key].path

    def pause(self, key: str) -> None:
        """Stop one; what came is kept."""
        if self._stop(key):
            figures = replace(self._figures[key], phase="paused", bytes_per_second=0.0)
            self._figures[key] = figures
            self._show()

    def cancel(self, key: str) -> None:
        """Stop one and list it no more."""
        self._stop(key)
        self._models.pop(key, None)
        self._figures.pop(key, None)
        self._show()

    def stop_all(self) -> None:
        """The program ends."""
        self._processes.clear()
        for process in self.findChildren(DownloadProcess):
            process.kill()
            process.waitForFinished(LEAVE_MS)

    def _begin(self, model: HubModel, phase: Phase) -> None:
        key = key_of(model)
        before = self._processes.get(key)
        if before is not None and before.figures.phase in AT_WORK:
            return
        self._models[key] = model
        process = DownloadProcess(DownloadFigures(key, _name_of(model), phase), self)
        self._processes[key] = process
        process.told.connect(self._take)
        process.left.connect(self._part)
        self._take(process.figures)
        process.begin(Job(self._hub, model, fetches=phase == "waiting"))

    def _stop(self, key: str) -> bool:
        """Whether it was at work; it is heard no more, and leaves by itself."""
        process = self._processes.pop(key, None)
        if process is not None:
            process.told.disconnect(self._take)
            process.kill()
        return process is not None

    def _take(self, figures: DownloadFigures) -> None:
        if figures.key not in self._processes:
            return
        self._figures[figures.key] = figures
        self._show()
        if figures.phase == "done":
            self.came.emit(figures)

    def _part(self, process: DownloadProcess) -> None:
        if self._processes.get(process.figures.key) is process:
            del self._processes[process.figures.key]
        process.deleteLater()

    def _show(self) -> None:
        self.changed.emit(tuple(self._figures.values()))


def key_of(model: HubModel) -> str:
    """What names a download: the model, its revision, and which of its files."""
    return f"{model.hub_id}@{model.revision}/{model.file or model.quantisation or ''}"


def _name_of(model: HubModel) -> str:
    if model.file is not None:
        return f"{model.hub_id} · {model.file}"
    return f"{model.hub_id}:{model.quantisation}" if model.quantisation else model.hub_id
