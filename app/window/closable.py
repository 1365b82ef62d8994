"""A page with a button in its corner that closes it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from app.window.controls.icon_button import IconButton
from app.window.theme import Theme, TypeSizes

EDGE = 12


class Closable(QFrame):
    """Signal `closed`: the user is done with it. The page leaves its upper right corner free."""

    closed = Signal()

    def __init__(self, page: QWidget, close_words: str, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__()
        self._close = IconButton("close", close_words, theme, sizes)
        self._close.clicked.connect(self.closed)
        grid = QGridLayout(self)
        grid.setContentsMargins(8, EDGE, EDGE, 8)
        grid.addWidget(page, 0, 0)
        grid.addWidget(self._close, 0, 0, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight)
        self._close.raise_()
        self.setFocusProxy(page)

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes; the page is dressed on its own."""
        self._close.set_theme(theme, sizes)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape closes it too."""
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)
