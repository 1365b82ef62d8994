"""Downloads from the hub, one at a time, each in a process of its own that reports progress."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

from app.library.download_process import Job, read_figures
from app.state.settings import KeptSettings
from app.state.state import State
from app.values.models import DownloadFigures, Phase
from mlx_engine.hub.client import Hub
from mlx_engine.hub.plan import nearest_existing_folder
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.values.words import Words

LEAVE_MS = 1500
AT_WORK: tuple[Phase, ...] = ("looking", "running")
QUEUED: tuple[Phase, ...] = ("waiting", *AT_WORK)
PACKAGES = Path(__file__).parents[2]
"""Folder of the package app, for the child process's import path."""

START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from app.library.download_process import main; main()"
)


class DownloadProcess(QProcess):
    """Download one model in a child process.

    Signals:
        progressed: new DownloadFigures.
        ended: this process, once it has exited or could not be started.
    """

    progressed = Signal(object)
    ended = Signal(object)

    def __init__(self, first: DownloadFigures, parent: QObject) -> None:
        """first: figures until the process reports its own."""
        super().__init__(parent)
        self.figures = first
        self.readyReadStandardOutput.connect(self._read)
        self.finished.connect(self._end)
        self.errorOccurred.connect(self._end_unstarted)

    def begin(self, job: Job) -> None:
        """Start the child process."""
        self.start(sys.executable, ["-P", "-c", START, str(PACKAGES)])
        self.write(job.as_line())

    def _read(self) -> None:
        while self.canReadLine():
            self.figures = read_figures(bytes(self.readLine().data()), self.figures)
            self.progressed.emit(self.figures)

    def _end_unstarted(self, error: QProcess.ProcessError) -> None:
        """Qt does not emit `finished` for a process that could not be started."""
        if error == QProcess.ProcessError.FailedToStart:
            self._end()

    def _end(self) -> None:
        """Report a failure where the process ended without saying how."""
        self._read()
        if self.figures.phase in AT_WORK:
            errors = bytes(self.readAllStandardError().data()).decode(errors="replace")
            words = Words(
                "{name}: the download broke off ({last}). Start it again.",
                name=self.figures.name,
                last=errors.strip().rpartition("\n")[2] or self.errorString(),
            )
            self.figures = replace(self.figures, phase="failed", words=words, bytes_per_second=0.0)
            self.progressed.emit(self.figures)
        self.ended.emit(self)


class Downloads(State):
    """The queue of downloads; the first waiting one runs, alone.

    Unfinished downloads are stored in the settings.

    Signals:
        changed: other figures, or another folder.
        completed: DownloadFigures of a model that is complete.
    """

    completed = Signal(object)

    def __init__(self, hub: Hub, settings: KeptSettings, parent: QObject | None = None) -> None:
        """Queue the unfinished downloads of the last run, paused.

        hub: its cache is the default download folder.
        """
        super().__init__(parent)
        self._hub, self._settings = hub, settings
        models = map(read_hub_link, settings.value.downloads)
        paused = [_figures(model, "paused") for model in models if isinstance(model, HubModel)]
        self._figures = {figures.key: figures for figures in paused}
        self._process: DownloadProcess | None = None

    @property
    def figures(self) -> tuple[DownloadFigures, ...]:
        """All downloads, in the order they were asked for."""
        return tuple(self._figures.values())

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Keys of downloads that are not complete, in their order."""
        return tuple(f.key for f in self._figures.values() if f.phase != "done")

    @property
    def fraction(self) -> float | None:
        """Downloaded share of the bytes of all queued downloads, 0 to 1; None for no queue."""
        queued = [f for f in self._figures.values() if f.phase in QUEUED]
        if not queued:
            return None
        return sum(f.done for f in queued) / max(1, sum(f.total for f in queued))

    @property
    def hub(self) -> Hub:
        """The hub, with the folder that models are downloaded to as its cache."""
        return replace(self._hub, cache=self.folder)

    @property
    def folder(self) -> Path:
        """Where models are downloaded to."""
        return self._settings.value.download_folder or self._hub.cache

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders with downloads: the one in use, and the hub's default cache."""
        return tuple(dict.fromkeys((self.folder, self._hub.cache)))

    def use_folder(self, folder: Path) -> None:
        """Set the folder for downloads from now on."""
        chosen = None if folder == self._hub.cache else folder
        self._settings.change(replace(self._settings.value, download_folder=chosen))
        self.changed.emit()

    def free_bytes(self) -> int:
        """Free space on the folder's disk, 0 if unknown; may block."""
        try:
            return shutil.disk_usage(nearest_existing_folder(self.folder)).free
        except OSError:
            return 0

    def of(self, key: str) -> DownloadFigures | None:
        """The download of a model, by the link to it."""
        return self._figures.get(key)

    def resume(self, key: str) -> None:
        """Queue or continue the download of a link."""
        model, known = read_hub_link(key), self._figures.get(key)
        if isinstance(model, HubModel) and (known is None or known.phase not in QUEUED):
            self._keep(
                replace(
                    known or _figures(model, "waiting"),
                    phase="waiting",
                    words="",
                    needs_sign_in=False,
                )
            )
            self._start_next()

    def pause(self, key: str) -> None:
        """Stop a download; the downloaded bytes stay."""
        self._stop(key)
        figures = self._figures.get(key)
        if figures is not None and figures.phase in QUEUED:
            self._keep(replace(figures, phase="paused", bytes_per_second=0.0))
        self._start_next()

    def cancel(self, key: str) -> None:
        """Stop a download and remove it from the queue."""
        self._stop(key)
        self._figures.pop(key, None)
        self._tell()
        self._start_next()

    def forget(self, path: str) -> None:
        """Remove the download of a model that was deleted from a path."""
        for key in [f.key for f in self._figures.values() if f.path == path]:
            self.cancel(key)

    def close(self) -> None:
        """End the running download; the queue stays in the settings for the next start."""
        self._process = None
        for process in self.findChildren(DownloadProcess):
            process.blockSignals(True)  # it would report that it broke off
            process.kill()
            process.waitForFinished(LEAVE_MS)

    def _start_next(self) -> None:
        """Start the first waiting download, unless one runs."""
        waiting = next((f for f in self._figures.values() if f.phase == "waiting"), None)
        model = None if waiting is None else read_hub_link(waiting.key)
        if self._process is not None or waiting is None or not isinstance(model, HubModel):
            return
        process = DownloadProcess(replace(waiting, phase="looking"), self)
        self._process = process
        process.progressed.connect(self._progress)
        process.ended.connect(self._end)
        self._keep(process.figures)
        process.begin(Job(self.hub, model))

    def _stop(self, key: str) -> None:
        """Kill the process of a download and ignore its further reports."""
        process = self._process
        if process is not None and process.figures.key == key:
            self._process = None
            process.progressed.disconnect(self._progress)
            process.kill()

    def _progress(self, figures: DownloadFigures) -> None:
        self._keep(figures)
        if figures.phase == "done":
            self.completed.emit(figures)

    def _end(self, process: DownloadProcess) -> None:
        process.deleteLater()
        if self._process is process:
            self._process = None
            self._start_next()

    def _keep(self, figures: DownloadFigures) -> None:
        self._figures[figures.key] = figures
        self._tell()

    def _tell(self) -> None:
        self._settings.change(replace(self._settings.value, downloads=self.unfinished))
        self.changed.emit()


def _figures(model: HubModel, phase: Phase) -> DownloadFigures:
    """Make the figures of a download that has not begun."""
    name = f"{model.hub_id}:{model.quantisation}" if model.quantisation else model.hub_id
    if model.file is not None:
        name = f"{model.hub_id} · {model.file}"
    return DownloadFigures(model.shortest_link, name, phase)
