"""The whole app, offscreen and in folders of its own, for what is measured and drawn of it."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app.app import App
from app.start.folders import Folders
from app.worker.model_in_use import ModelSource

PATIENCE_S = 120.0


@contextmanager
def whole_window(source: ModelSource | None = None) -> Iterator[App]:
    """Made, not yet started. source: of models, None for the engine.

    What is left of it at Python's end is destroyed after the application, which may crash; the
    program itself leaves before.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication.instance() or QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory() as data:
        place = Path(data)
        folders = Folders(place, place, place / "cache", place / "logs", place / "hub")
        app = App(application, folders, source)
        try:
            yield app
        finally:
            app.close()
            app.worker.wait(10_000)
            app.widgets.window.deleteLater()
            app.deleteLater()
            turn()


def turn() -> None:
    """One of the loop of events, with the deletions that a loop of Qt's own would do."""
    QApplication.processEvents()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def until(is_so: Callable[[], bool]) -> None:
    """Let Qt work until then; TimeoutError where that takes minutes."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("the window did not come that far")
        turn()
        time.sleep(0.002)


def rest(seconds: float = 0.3) -> None:
    """Let Qt work for a while."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end)
