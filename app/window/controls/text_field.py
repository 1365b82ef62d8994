"""A few lines of text to type, with their mistake said below them."""

from PySide6.QtCore import QEvent, QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QPlainTextEdit, QVBoxLayout, QWidget

from app.window.controls.labels import label, paragraph, restyle, say
from app.window.controls.number_field import SETTLED_MS

LONGEST = 20_000
"""Characters a paste may make it; laying out more would freeze the window."""


class Lines(QPlainTextEdit):
    """A small editor; Tab goes on to the next control.

    Signals: `left` (the focus went elsewhere), `refused` (a paste that is too long).
    """

    left = Signal()
    refused = Signal()

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._lines = lines
        self.setTabChangesFocus(True)
        self.setAcceptDrops(False)
        self.viewport().setAcceptDrops(False)
        self.setProperty("role", "field")
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.fit()

    def fit(self) -> None:
        """Be as high as the lines asked for in the font of now."""
        margins = 2 * round(self.document().documentMargin()) + 10
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing() + margins)

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Lines of another font are of another height."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.fit()

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """Plain text that is not too long."""
        if self.document().characterCount() + len(source.text()) > LONGEST:
            self.refused.emit()
        else:
            self.insertPlainText(source.text())

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Say so."""
        super().focusOutEvent(event)
        self.left.emit()


TOO_LONG = f"That text is too long for this field: {LONGEST:,} characters at most."


class TextField(QWidget):
    """Signal `changed`(str): text to try, once typing paused or the field was left."""

    changed = Signal(str)

    def __init__(self, name: str, lines: int, hint: str = "", shows_name: bool = True) -> None:
        super().__init__()
        self._pending = QTimer(self)
        self._pending.setSingleShot(True)
        self._pending.setInterval(SETTLED_MS)
        self._pending.timeout.connect(self._settle)
        self._edit = Lines(lines)
        self._edit.setAccessibleName(name)
        self._edit.setPlaceholderText(hint)
        self._problem = paragraph("", "problem")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        heading = label(name)
        heading.setVisible(shows_name)
        for widget in (heading, self._edit, self._problem):
            column.addWidget(widget)
        self._edit.textChanged.connect(self._pending.start)
        self._edit.left.connect(self._leave)
        self._edit.refused.connect(lambda: self.show_problem(TOO_LONG))
        self.show_problem("")

    def text(self) -> str:
        """What is typed."""
        return self._edit.toPlainText()

    def show_text(self, text: str) -> None:
        """Show a text; nothing is emitted."""
        if text != self.text():
            self._edit.setPlainText(text)
        self._pending.stop()
        self.show_problem("")

    def show_problem(self, words: str) -> None:
        """Say what is wrong with the text, "" for nothing."""
        say(self._problem, words)
        self._edit.setProperty("bad", bool(words))
        restyle(self._edit)

    def problem(self) -> str:
        """What is said to be wrong."""
        return self._problem.text()

    def _leave(self) -> None:
        if self._pending.isActive():
            self._settle()

    def _settle(self) -> None:
        self._pending.stop()
        self.changed.emit(self.text())
