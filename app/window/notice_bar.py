"""A line above the transcript that stays until it is read: a problem, or something to know."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton

from app.window.controls.icon_button import IconButton
from app.window.controls.labels import paragraph, set_role
from app.window.theme import Theme, TypeSizes


class NoticeBar(QFrame):
    """Shows the newest notice; `details_wanted` asks for what is behind it."""

    details_wanted = Signal(str)

    def __init__(self, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAccessibleName("Notice")
        self._words = paragraph("", "note")
        self._details = ""
        self._more = QPushButton("Details")
        self._more.setProperty("role", "link")
        self._more.clicked.connect(lambda: self.details_wanted.emit(self._details))
        self._close = IconButton("close", "Dismiss", theme, sizes)
        self._close.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 6, 12, 6)
        row.setSpacing(8)
        row.addWidget(self._words, 1)
        row.addWidget(self._more)
        row.addWidget(self._close)
        self.hide()

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._close.set_theme(theme, sizes)

    def say(self, words: str, details: str = "", *, is_problem: bool = False) -> None:
        """Show a notice in place of the one before."""
        self._details = details
        self._words.setText(words)
        set_role(self._words, "problem" if is_problem else "note")
        self._more.setVisible(bool(details))
        self.setAccessibleDescription(words)
        self.show()

    def words(self) -> str:
        """What is said now, "" when nothing is."""
        return "" if self.isHidden() else self._words.text()
