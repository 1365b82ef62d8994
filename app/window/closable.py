"""A page under its title, with a button that closes it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.window.controls.icons import IconButton
from app.window.controls.labels import label


class Closable(QFrame):
    """Signal `closed`: the user is done with it."""

    closed = Signal()

    def __init__(self, title: str, page: QWidget) -> None:
        super().__init__()
        self._close = IconButton("close", "Back to the chat")
        self._close.clicked.connect(self.closed)
        top = QHBoxLayout()
        top.setContentsMargins(24, 8, 12, 8)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(page, 1)
        column.insertLayout(0, top)
        top.addWidget(label(title, "title"), 1)
        top.addWidget(self._close)  # after the page, so that Tab comes by it last
        self.setFocusProxy(page.focusProxy() or page)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape closes it too."""
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)
