"""Downloads from the hub, each on a thread of its own, with their figures a few times a second."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from PySide6.QtCore import QObject, Signal

from app.control.download_threads import FetchThread, HubThread, LookThread
from app.library.download import Hub
from app.library.hub import HubModel
from app.window.models.model_values import DownloadFigures, Phase

LEAVE_S = 1.5
AT_WORK: tuple[Phase, ...] = ("looking", "waiting", "running")


class Downloads(QObject):
    """All downloads since the program started, by key.

    Signals:
        changed: figures of all of them, in the order they were asked for.
        came: key of a model that is complete, and its path.
    """

    changed = Signal(tuple)
    came = Signal(str, str)

    def __init__(self, hub: Hub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._models: dict[str, HubModel] = {}
        self._threads: dict[str, HubThread] = {}
        self._alive: list[HubThread] = []
        self._figures: dict[str, DownloadFigures] = {}

    @property
    def is_running(self) -> bool:
        """Whether any thread of theirs runs."""
        return bool(self._alive)

    def look(self, model: HubModel) -> None:
        """Ask what would be fetched; one that runs or waits is left alone."""
        self._begin(LookThread, model, "looking")

    def start(self, model: HubModel) -> None:
        """Begin, or go on with one that was paused or failed."""
        self._begin(FetchThread, model, "waiting")

    def resume(self, key: str) -> None:
        """Begin what was offered, or go on."""
        if key in self._models:
            self.start(self._models[key])

    def choose(self, key: str, file: str) -> None:
        """Fetch this file of those there are."""
        model = self._models.get(key)
        if model is not None:
            self.cancel(key)
            self.start(replace(model, file=file))

    def pause(self, key: str) -> None:
        """Stop one; what came is kept."""
        self._with_thread(key, HubThread.stop)

    def cancel(self, key: str) -> None:
        """Stop one and list it no more."""
        self._with_thread(key, HubThread.stop)
        self._models.pop(key, None)
        self._figures.pop(key, None)
        self._show()

    def stop_all(self) -> None:
        """The program ends; a thread deep in the network may outlive the wait."""
        for thread in self._alive:
            thread.stop()
        deadline = monotonic() + LEAVE_S
        for thread in list(self._alive):
            thread.wait(max(0, int(1000 * (deadline - monotonic()))))

    def _begin(self, kind: type[HubThread], model: HubModel, phase: Phase) -> None:
        key = key_of(model)
        before = self._threads.get(key)
        if before is not None and before.figures.phase in AT_WORK:
            return
        self._models[key] = model
        name = model.hub_id if model.file is None else f"{model.hub_id} · {model.file}"
        thread = kind(self._hub, model, DownloadFigures(key, name, phase), self)
        thread.told.connect(self._take)
        thread.came.connect(self.came)
        thread.finished.connect(lambda: self._end(thread))
        self._threads[key] = thread
        self._alive.append(thread)
        self._take(thread.figures)
        thread.start()

    def _with_thread(self, key: str, action: Callable[[HubThread], None]) -> None:
        if key in self._threads:
            action(self._threads[key])

    def _take(self, figures: DownloadFigures) -> None:
        if figures.key in self._models:
            self._figures[figures.key] = figures
            self._show()

    def _end(self, thread: HubThread) -> None:
        self._alive.remove(thread)
        if self._threads.get(thread.figures.key) is thread:
            del self._threads[thread.figures.key]
        thread.deleteLater()

    def _show(self) -> None:
        self.changed.emit(tuple(self._figures.values()))


def key_of(model: HubModel) -> str:
    """What names a download: the model, its revision and file."""
    return f"{model.hub_id}@{model.revision}/{model.file or ''}"
