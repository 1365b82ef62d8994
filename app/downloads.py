"""Downloads from the hub, each on a thread of its own, with their figures a few times a second."""

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QThread, Signal

from app.library.download import Hub, download, plan_download
from app.library.download_errors import DownloadError, DownloadStoppedError
from app.library.hub_link import HubModel
from app.window.models.model_values import DownloadFigures

INTERVAL_S = 0.25
LEAVE_MS = 5000


class DownloadThread(QThread):
    """Plans and fetches one model.

    Signals:
        told: DownloadFigures.
        came: the path to load, once everything is here.
    """

    told = Signal(object)
    came = Signal(str)

    def __init__(self, hub: Hub, model: HubModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub, self._model = hub, model
        self._is_stopped = False
        self._told_at, self._told_bytes, self._speed = 0.0, 0, 0.0
        self.figures = DownloadFigures(key_of(model), model.hub_id, "waiting")

    def stop(self) -> None:
        """End soon; what came is kept for the next time."""
        self._is_stopped = True

    def run(self) -> None:
        """From the plan to the last checksum."""
        try:
            plan = plan_download(self._hub, self._model)
            self._tell(phase="running", done=plan.have_bytes, total=plan.total_bytes)
            place = download(self._hub, plan, self._progress, lambda: self._is_stopped)
        except DownloadStoppedError:
            self._tell(phase="paused", bytes_per_second=0.0)
        except DownloadError as error:
            self._tell(phase="failed", words=str(error))
        else:
            self._tell(phase="done", done=plan.total_bytes)
            self.came.emit(str(place))

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        passed = now - self._told_at
        if passed < INTERVAL_S and done < total:
            return
        if self._told_bytes:
            speed = (done - self._told_bytes) / max(passed, 1e-3)
            self._speed = 0.7 * self._speed + 0.3 * speed if self._speed else speed
        self._told_at, self._told_bytes = now, done
        self._tell(phase="running", done=done, total=total, bytes_per_second=self._speed)

    def _tell(self, **changes: object) -> None:
        self.figures = replace(self.figures, **changes)  # type: ignore[arg-type]
        self.told.emit(self.figures)


class Downloads(QObject):
    """All downloads since the program started, by key.

    Signals:
        changed: figures of all of them, in the order they were asked for.
        came: the path of a model that is complete.
    """

    changed = Signal(tuple)
    came = Signal(str)

    def __init__(self, hub: Hub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._models: dict[str, HubModel] = {}
        self._threads: dict[str, DownloadThread] = {}
        self._figures: dict[str, DownloadFigures] = {}

    @property
    def is_running(self) -> bool:
        """Whether any download runs."""
        return bool(self._threads)

    def start(self, model: HubModel) -> None:
        """Begin, or go on with one that was paused or failed."""
        key = key_of(model)
        if key in self._threads:
            return
        self._models[key] = model
        thread = DownloadThread(self._hub, model, self)
        thread.told.connect(self._take)
        thread.came.connect(self.came)
        thread.finished.connect(lambda: self._end(key))
        self._threads[key] = thread
        self._take(thread.figures)
        thread.start()

    def resume(self, key: str) -> None:
        """Go on with one."""
        if key in self._models:
            self.start(self._models[key])

    def pause(self, key: str) -> None:
        """Stop one; what came is kept."""
        self._with_thread(key, DownloadThread.stop)

    def cancel(self, key: str) -> None:
        """Stop one and list it no more."""
        self._with_thread(key, DownloadThread.stop)
        self._models.pop(key, None)
        self._figures.pop(key, None)
        self._show()

    def stop_all(self) -> None:
        """The program ends."""
        for thread in self._threads.values():
            thread.stop()
        for thread in list(self._threads.values()):
            thread.wait(LEAVE_MS)

    def _with_thread(self, key: str, action: Callable[[DownloadThread], None]) -> None:
        if key in self._threads:
            action(self._threads[key])

    def _take(self, figures: DownloadFigures) -> None:
        if figures.key in self._models:
            self._figures[figures.key] = figures
            self._show()

    def _end(self, key: str) -> None:
        thread = self._threads.pop(key, None)
        if thread is not None:
            thread.deleteLater()

    def _show(self) -> None:
        self.changed.emit(tuple(self._figures.values()))


def key_of(model: HubModel) -> str:
    """What names a download: the model, its revision and file."""
    return f"{model.hub_id}@{model.revision}/{model.file or ''}"
