"""A panel under a title with a button that closes it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.window.controls.icons import IconButton
from app.window.controls.labels import label


class Titled(QFrame):
    """Signal `closed`: the user is done with it."""

    closed = Signal()

    def __init__(self, title: str, content: QWidget, close_words: str) -> None:
        super().__init__()
        self._close = IconButton("close", close_words)
        self._close.clicked.connect(self.closed)
        top = QHBoxLayout()
        top.setContentsMargins(16, 8, 8, 4)
        top.addWidget(label(title, "heading"), 1)
        top.addWidget(self._close)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(content, 1)
