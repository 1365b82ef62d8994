"""A line that says what was just done, with a button to take it back for a while."""

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from app.window.controls.labels import ShortLabel
from app.window.motion import fade_in

SHOWN_MS = 10_000


class UndoBar(QFrame):
    """Hidden until something can be undone."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "undo-bar")
        self.setAccessibleName("Undo")
        self._undo: Callable[[], None] | None = None
        self._words = ShortLabel()
        self._button = QPushButton("Undo")
        self._button.setCursor(Qt.CursorShape.PointingHandCursor)
        self._button.setProperty("role", "link")
        self._button.clicked.connect(self.undo)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(8)
        row.addWidget(self._words, 1)
        row.addWidget(self._button)
        self._timer = QTimer(self, singleShot=True, interval=SHOWN_MS)
        self._timer.timeout.connect(self.forget)
        self.hide()

    def offer(self, words: str, undo: Callable[[], None]) -> None:
        """Show `words`; `undo` runs if the user asks for it in time."""
        self._words.show_text(words)
        self._undo = undo
        self.show()
        fade_in(self)
        self._timer.start()

    def undo(self) -> None:
        """Take it back, if there is something."""
        undo = self._undo
        self.forget()
        if undo is not None:
            undo()

    def forget(self) -> None:
        """It stays done."""
        self._timer.stop()
        self._undo = None
        self.hide()
