"""Downloads from the hub, one after the other, each in a process of its own that tells of it."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

from app.library.download_process import Job, read_figures
from app.values.models import DownloadFigures, Phase
from app.window.language import tr
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel, read_hub_link

LEAVE_MS = 1500
AT_WORK: tuple[Phase, ...] = ("looking", "running")
QUEUED: tuple[Phase, ...] = ("waiting", *AT_WORK)
PACKAGES = Path(__file__).parents[2]
"""The folder that holds the package app, for a process that does not find it by itself."""

START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from app.library.download_process import main; main()"
)


class DownloadProcess(QProcess):
    """One download.

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
            words = tr(
                "{name}: the download broke off ({last}). Start it again.",
                name=self.figures.name,
                last=last,
            )
            self.figures = replace(self.figures, phase="failed", words=words, bytes_per_second=0.0)
            self.told.emit(self.figures)
        self.left.emit(self)


class Downloads(QObject):
    """A queue, by key: the first that waits is at work, alone.

    Signals:
        changed: figures of all of them, in the order they were asked for.
        came: DownloadFigures of a model that is complete.
    """

    changed = Signal(tuple)
    came = Signal(object)

    def __init__(self, hub: Hub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._figures: dict[str, DownloadFigures] = {}
        self._process: DownloadProcess | None = None

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Keys of those that are not complete, in their order."""
        return tuple(f.key for f in self._figures.values() if f.phase != "done")

    def restore(self, keys: Iterable[str]) -> None:
        """Show those of an earlier day, to be resumed; what is no key is passed over."""
        models = [model for model in map(read_hub_link, keys) if isinstance(model, HubModel)]
        old = {
            model.link: DownloadFigures(model.link, _name_of(model), "paused") for model in models
        }
        self._figures = old | self._figures
        self._show()

    def start(self, model: HubModel) -> None:
        """Begin, or go on, when its turn comes; one that waits or is at work is left alone."""
        known = self._figures.get(model.link)
        if known is None or known.phase not in QUEUED:
            first = known or DownloadFigures(model.link, _name_of(model), "waiting")
            self._take(replace(first, phase="waiting", words=""))
            self._go_on()

    def resume(self, key: str) -> None:
        """Go on with one that was paused or failed, when its turn comes."""
        model = read_hub_link(key)
        if isinstance(model, HubModel):
            self.start(model)

    def path_of(self, key: str) -> str:
        """Where a model lies that is complete."""
        return self._figures[key].path

    def pause(self, key: str) -> None:
        """Stop one; what came is kept."""
        self._stop(key)
        figures = self._figures.get(key)
        if figures is not None and figures.phase in QUEUED:
            self._take(replace(figures, phase="paused", bytes_per_second=0.0))
        self._go_on()

    def cancel(self, key: str) -> None:
        """Stop one and list it no more."""
        self._stop(key)
        self._figures.pop(key, None)
        self._show()
        self._go_on()

    def forget(self, path: str) -> None:
        """The model that came to lie there is no more."""
        for key in [f.key for f in self._figures.values() if f.path == path]:
            self.cancel(key)

    def stop_all(self) -> None:
        """The program ends, and what is in the queue stays in it for the next start."""
        self._process = None
        for process in self.findChildren(DownloadProcess):
            process.blockSignals(True)  # else it says that it broke off
            process.kill()
            process.waitForFinished(LEAVE_MS)

    def _go_on(self) -> None:
        """Begin the first that waits, unless one is at work."""
        waiting = next((f for f in self._figures.values() if f.phase == "waiting"), None)
        model = None if waiting is None else read_hub_link(waiting.key)
        if self._process is not None or waiting is None or not isinstance(model, HubModel):
            return
        process = DownloadProcess(replace(waiting, phase="looking"), self)
        self._process = process
        process.told.connect(self._hear)
        process.left.connect(self._part)
        self._take(process.figures)
        process.begin(Job(self._hub, model))

    def _stop(self, key: str) -> None:
        """It is heard no more, and leaves by itself."""
        process = self._process
        if process is not None and process.figures.key == key:
            self._process = None
            process.told.disconnect(self._hear)
            process.kill()

    def _hear(self, figures: DownloadFigures) -> None:
        self._take(figures)
        if figures.phase == "done":
            self.came.emit(figures)

    def _part(self, process: DownloadProcess) -> None:
        process.deleteLater()
        if self._process is process:
            self._process = None
            self._go_on()

    def _take(self, figures: DownloadFigures) -> None:
        self._figures[figures.key] = figures
        self._show()

    def _show(self) -> None:
        self.changed.emit(tuple(self._figures.values()))


def _name_of(model: HubModel) -> str:
    if model.file is not None:
        return f"{model.hub_id} · {model.file}"
    return f"{model.hub_id}:{model.quantisation}" if model.quantisation else model.hub_id
