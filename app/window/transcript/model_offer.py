"""A quiet line above a chat that another model answered: offers to load it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton

from app.window.controls.labels import paragraph


class ModelOffer(QFrame):
    """Hidden unless there is something to say. Signal `load_wanted`: the button was pressed."""

    load_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAccessibleName("Model of this chat")
        self._words = paragraph("", "note")
        self.load = QPushButton()
        self.load.setAccessibleName("Load this model")
        self.load.setProperty("role", "link")
        self.load.setCursor(Qt.CursorShape.PointingHandCursor)
        self.load.clicked.connect(self.load_wanted)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 6, 20, 6)
        row.setSpacing(8)
        row.addWidget(self._words, 1)
        row.addWidget(self.load)
        self.hide()

    def offer(self, name: str) -> None:
        """Say which model answered, and offer to load it."""
        self._say(f"This chat was answered by {name}.")
        self.load.setText(f"Load {name}")
        self.load.setAccessibleName(f"Load {name}")
        self.load.show()

    def say_gone(self, name: str, path: str) -> None:
        """The model that answered cannot be loaded any more."""
        words = f"This chat was answered by {name}, which is no longer at {path}. "
        self._say(words + "The model in use goes on with it.")
        self.load.hide()

    def words(self) -> str:
        """What is said now, "" when nothing is."""
        return "" if self.isHidden() else self._words.text()

    def _say(self, words: str) -> None:
        self._words.setText(words)
        self.setAccessibleDescription(words)
        self.show()
