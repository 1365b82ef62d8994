"""The bar to find text in a chat."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit

from app.window.controls.icons import IconButton
from app.window.controls.labels import label, tabular
from app.window.escape import closes


class FindBar(QFrame):
    """Signals `query_changed`(str), `step_wanted`(+1 or -1), `closed`."""

    query_changed = Signal(str)
    step_wanted = Signal(int)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this chat")
        self.field.setAccessibleName("Find in this chat")
        self.field.setClearButtonEnabled(True)
        self.field.setMinimumWidth(180)
        self.field.textChanged.connect(self.query_changed)
        self.count: QLabel = label("", "muted")
        tabular(self.count)
        self.count.setMinimumWidth(64)
        self._previous = IconButton("chevron_up", "Previous match")
        self._next = IconButton("chevron_down", "Next match")
        self._close = IconButton("close", "Close")
        self._previous.clicked.connect(lambda: self.step_wanted.emit(-1))
        self._next.clicked.connect(lambda: self.step_wanted.emit(1))
        self._close.clicked.connect(self.closed)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 2, 20, 6)
        row.setSpacing(4)
        for widget in (self.field, self.count, self._previous, self._next, self._close):
            row.addWidget(widget)

    def show_count(self, current: int, total: int, is_whole: bool) -> None:
        """Match `current` (from 1) of `total`, or of more; nothing without a query."""
        more = "" if is_whole else "…"
        words = f"{current} of {total}{more}" if total else more or "no match"
        self.count.setText(words if self.field.text() else "")
        for button in (self._previous, self._next):
            button.setEnabled(total > 0)

    # Qt

    def event(self, event: QEvent) -> bool:
        """Escape is ours before it stops an answer."""
        if closes(event):
            event.accept()
            return True
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return goes on, Shift-Return back, Escape closes."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self.step_wanted.emit(-1 if back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)
