"""A line above the transcript that stays until it is read: a problem, or something to know."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton

from app.window.controls.icons import IconButton
from app.window.controls.labels import paragraph, set_role
from app.window.motion import fade_in


class NoticeBar(QFrame):
    """Shows the newest notice; `details_wanted` asks for what is behind it, `taken` for the
    model it offers.
    """

    details_wanted = Signal(str)
    taken = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAccessibleName("Notice")
        self._words = paragraph("", "note")
        self._details, self._offered = "", ""
        self._take = QPushButton("Load…")
        self._take.clicked.connect(self._take_up)
        self._more = QPushButton("Details")
        self._more.setProperty("role", "link")
        self._more.clicked.connect(lambda: self.details_wanted.emit(self._details))
        self._close = IconButton("close", "Dismiss")
        self._close.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 6, 12, 6)
        row.setSpacing(8)
        row.addWidget(self._words, 1)
        row.addWidget(self._take)
        row.addWidget(self._more)
        row.addWidget(self._close)
        self.hide()

    def say(self, words: str, details: str = "", *, is_problem: bool = False) -> None:
        """Show a notice in place of the one before."""
        self._details = details
        self._words.setText(words)
        set_role(self._words, "problem" if is_problem else "note")
        self._more.setVisible(bool(details))
        self._take.hide()
        self.setAccessibleDescription(words)
        appears = self.isHidden()
        self.show()
        if appears:
            fade_in(self)

    def offer(self, words: str, model: str) -> None:
        """Show a notice of a model that can be loaded; `taken` brings its path."""
        self.say(words)
        self._offered = model
        self._take.show()

    def _take_up(self) -> None:
        self.hide()
        self.taken.emit(self._offered)

    def words(self) -> str:
        """What is said now, "" when nothing is."""
        return "" if self.isHidden() else self._words.text()
