"""Threads that ask the hub about a model, and fetch it."""

import time
from dataclasses import replace

from PySide6.QtCore import QObject, QThread, Signal

from app.library.download import Hub, download, plan_download
from app.library.download_errors import ChoiceNeededError, DownloadError, DownloadStoppedError
from app.library.hub import GgufChoice, HubModel
from app.window.models.model_values import DownloadFigures, FileChoice
from mlx_engine.values.words import size_words

INTERVAL_S = 0.25


class HubThread(QThread):
    """Does one thing with one model of the hub.

    Signals:
        told: DownloadFigures.
        came: its key and the path to load, once everything is here.
    """

    told = Signal(object)
    came = Signal(str, str)

    def __init__(
        self, hub: Hub, model: HubModel, first: DownloadFigures, parent: QObject | None = None
    ) -> None:
        """first: what is told before anything is known."""
        super().__init__(parent)
        self.hub, self.model, self.figures = hub, model, first
        self.is_stopped = False

    def stop(self) -> None:
        """End soon; what came is kept for the next time."""
        self.is_stopped = True

    def tell(self, **changes: object) -> None:
        """Other figures than before."""
        self.figures = replace(self.figures, **changes)  # type: ignore[arg-type]
        self.told.emit(self.figures)


class LookThread(HubThread):
    """Asks what a download would fetch: sizes to agree to, or files to choose from."""

    def run(self) -> None:
        """Ask once."""
        try:
            plan = plan_download(self.hub, self.model)
        except ChoiceNeededError as error:
            self.tell(phase="choice", choices=tuple(map(_choice, error.choices)))
        except DownloadError as error:
            self.tell(phase="failed", words=str(error))
        else:
            sizes = {"done": plan.have_bytes, "total": plan.total_bytes}
            phase = "failed" if plan.no_room else "offered"
            self.tell(phase=phase, words=plan.no_room or plan.words, **sizes)


class FetchThread(HubThread):
    """Fetches everything, from the plan to the last checksum."""

    def run(self) -> None:
        """What came before goes on where it stopped."""
        self._told_at, self._told_bytes, self._speed = 0.0, 0, 0.0
        try:
            plan = plan_download(self.hub, self.model)
            self.tell(phase="running", done=plan.have_bytes, total=plan.total_bytes)
            place = download(self.hub, plan, self._progress, lambda: self.is_stopped)
        except DownloadStoppedError:
            self.tell(phase="paused", bytes_per_second=0.0)
        except DownloadError as error:
            self.tell(phase="failed", words=str(error))
        else:
            self.tell(phase="done", done=plan.total_bytes)
            self.came.emit(self.figures.key, str(place))

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        passed = now - self._told_at
        if passed < INTERVAL_S and done < total:
            return
        if self._told_bytes:
            speed = (done - self._told_bytes) / max(passed, 1e-3)
            self._speed = 0.7 * self._speed + 0.3 * speed if self._speed else speed
        self._told_at, self._told_bytes = now, done
        self.tell(phase="running", done=done, total=total, bytes_per_second=self._speed)


def _choice(choice: GgufChoice) -> FileChoice:
    return FileChoice(choice.file, f"{choice.file} · {size_words(choice.nbytes)}")
