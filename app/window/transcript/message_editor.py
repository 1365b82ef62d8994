"""Where the words of a message are changed, in the place of the message."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QPushButton, QWidget

from app.window.controls.fields import TOO_LONG, Lines, keep_key
from app.window.controls.labels import paragraph, say
from app.window.controls.layouts import SPARE, Wide, column, row
from app.window.language import tr
from app.window.look import look


class MessageEditor(QWidget):
    """Signals `changed`(str), `accepted`(str), and `given_up`. verb: on the button that accepts."""

    changed = Signal(str)
    accepted = Signal(str)
    given_up = Signal()

    def __init__(self, text: str, name: str, verb: str) -> None:
        super().__init__()
        beginning = text[:4000]
        self.field = Lines(min(16, max(3, text.count("\n", 0, 4000) + 1 + len(beginning) // 80)))
        self.field.setAccessibleName(name)
        self.field.setFont(look().text_font())
        self.field.fit()
        self.field.setPlainText(text)
        self._problem = paragraph("", "problem")
        say(self._problem, "")
        self.send = QPushButton(verb)
        self.send.setProperty("role", "primary")
        cancel = QPushButton(tr("Cancel"))
        foot = row(Wide(self._problem), SPARE, cancel, self.send)
        column(self.field, foot, of=self, spacing=8)
        self.field.textChanged.connect(lambda: self.changed.emit(self.field.toPlainText()))
        self.field.refused.connect(lambda: say(self._problem, TOO_LONG))
        self.send.clicked.connect(self._accept)
        cancel.clicked.connect(self.given_up)
        keep_key(self, Qt.Key.Key_Escape)

    def _accept(self) -> None:
        text = self.field.toPlainText()
        if text.strip():
            self.accepted.emit(text)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape gives up; Command or Control with Return sends."""
        if event.matches(QKeySequence.StandardKey.Cancel):
            self.given_up.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (
            event.modifiers() & Qt.KeyboardModifier.ControlModifier
        ):
            self._accept()
        else:
            super().keyPressEvent(event)
