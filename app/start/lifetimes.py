"""Where objects of Qt end: on the window's thread, and before Python does."""

import gc

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication

LOOK_MS = 500


class Collector(QObject):
    """In place of Python's automatic collection, which runs on whatever thread makes an object,
    the engine's too: a widget in a cycle that ends there takes the program with it.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def look(self) -> None:
        """Collect the oldest generation that is due, as Python itself would."""
        counts, limits = gc.get_count(), gc.get_threshold()
        due = [age for age in (2, 1, 0) if counts[age] > limits[age]]
        if due:
            gc.collect(due[0])

    def settle(self) -> None:
        """What there is now stays: leave it out of later collections, which are quick then."""
        gc.freeze()

    def close(self) -> None:
        """Back to Python's own way."""
        self._timer.stop()
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()


def keep_clipboard() -> None:
    """Leave what we copied as plain text, in an object of Qt's own.

    One made in Python is destroyed by Qt when Python is gone already, and that crashes.
    """
    clipboard = QGuiApplication.clipboard()
    if clipboard.ownsClipboard():
        clipboard.setText(clipboard.text())
