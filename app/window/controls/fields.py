"""Text fields: search, one line, several lines; a problem is shown below the field."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)
from typing_extensions import override

from app.window.controls.bound import Control
from app.window.controls.icons import paint_icon
from app.window.controls.labels import describe, label, paragraph, restyle, say
from app.window.controls.layouts import Wide, column, row, scroll_to
from app.window.language import tr
from app.window.look import look
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words


def follow_writing(edit: QPlainTextEdit) -> None:
    """Align a text to the right if its first line is written from right to left."""
    edit.textChanged.connect(lambda: _align(edit))


def is_composing(edit: QPlainTextEdit) -> bool:
    """Whether an input method is composing a character."""
    layout = edit.textCursor().block().layout()
    return bool(layout is not None and layout.preeditAreaText())


def _align(edit: QPlainTextEdit) -> None:
    document, sides = edit.document(), Qt.AlignmentFlag
    from_right = document.firstBlock().textDirection() == Qt.LayoutDirection.RightToLeft
    side = sides.AlignRight if from_right else sides.AlignLeft
    option = document.defaultTextOption()
    if option.alignment() != side:
        option.setAlignment(side)
        document.setDefaultTextOption(option)


class _OwnKey(QObject):
    """Gives a key to a widget instead of a shortcut; do: None for the widget's own action."""

    def __init__(self, widget: QWidget, key: Qt.Key, do: Callable[[], object] | None) -> None:
        super().__init__(widget)
        self._key, self._do = key, do
        widget.installEventFilter(self)

    # Qt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        del watched
        if not isinstance(event, QKeyEvent) or event.key() != self._key:
            return False
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress and self._do is not None:
            self._do()
            return True
        return False


def on_key(widget: QWidget, key: Qt.Key, do: Callable[[], object] | None = None) -> None:
    """Let a key in a widget, or in a part of it that ignores the key, call `do`.

    Overrides a shortcut with the same key. do: None for the widget's own action.
    """
    _OwnKey(widget, key, do)


def add_clear_button(edit: QLineEdit) -> None:
    """Add Qt's clear button, with a name for screen readers."""
    edit.setClearButtonEnabled(True)
    for button in edit.findChildren(QToolButton):
        button.setAccessibleName(tr("Clear"))


SIGN_LEFT, SIGN_RIGHT = 8, 6
"""Pixels beside the icon of a SearchField."""


class SearchField(QLineEdit):
    """A search field with a magnifying glass that grows with the text."""

    def __init__(self, placeholder: str, name: str) -> None:
        super().__init__()
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name)
        add_clear_button(self)

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.setTextMargins(look().icon_size + SIGN_RIGHT, 0, 0, 0)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        size = look().icon_size
        place = QRect(SIGN_LEFT, (self.height() - size) // 2, size, size)
        with QPainter(self) as painter:
            paint_icon(painter, place, "search", "muted")


SETTLED_MS = 300
"""Milliseconds without typing after which a value counts."""


def settle_timer(parent: QObject, settle: Callable[[], None]) -> QTimer:
    """Make a timer that calls `settle` SETTLED_MS after its last start."""
    timer = QTimer(parent, singleShot=True, interval=SETTLED_MS)
    timer.timeout.connect(settle)
    return timer


class Field(Control):
    """A text field; `read` parses its text and `write` formats a value.

    Signal `chosen`: the typed value, once typing has paused or the focus has left.
    """

    def __init__(
        self,
        edit: QLineEdit | QPlainTextEdit,
        name: str,
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
    ) -> None:
        """read: raises BadOption for an invalid text."""
        super().__init__()
        self._edit, self._read, self._write = edit, read, write
        self._pending = settle_timer(self, self.settle)
        self.problem = paragraph("", "problem")
        edit.setAccessibleName(name)
        self._show_problem("")

    def text(self) -> str:
        """The text in the field."""
        edit = self._edit
        return edit.toPlainText() if isinstance(edit, QPlainTextEdit) else edit.text().strip()

    def set_value(self, value: object) -> None:
        """Show a value without emitting it, replacing text being typed."""
        edit, text = self._edit, self._write(value)
        if text != self.text():
            edit.setPlainText(text) if isinstance(edit, QPlainTextEdit) else edit.setText(text)
        self._pending.stop()
        self._show_problem("")

    def settle(self) -> None:
        """Emit the value of the text, or show the problem."""
        self._pending.stop()
        try:
            value = self._read(self.text())
        except BadOption as problem:
            self._show_problem(str(problem))
            QTimer.singleShot(0, self, lambda: scroll_to(self.problem))  # once it is laid out
        else:
            self._show_problem("")
            self.chosen.emit(value)

    def leave(self) -> None:
        """Emit the typed value when the focus leaves."""
        if self._pending.isActive():
            self.settle()

    def _show_problem(self, words: str) -> None:
        say(self.problem, words)
        restyle(self._edit, "bad", bool(words))


LONGEST_LINE = 2000


class LineField(Field):
    """A one-line text field beside its label."""

    def __init__(
        self,
        name: str,
        what: str,
        empty: str,
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
    ) -> None:
        """what: explanation of the field. empty: placeholder."""
        edit = QLineEdit()
        super().__init__(edit, name, read, write)
        edit.setMaxLength(LONGEST_LINE)
        edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        edit.setPlaceholderText(empty)
        describe(edit, what)
        self.line = row(Wide(buddy(name, edit), 3), Wide(edit, 2), spacing=4)
        column(self.line, self.problem, of=self, spacing=4)
        edit.textEdited.connect(lambda _: self._pending.start())
        edit.editingFinished.connect(self.leave)


def buddy(name: str, control: QWidget) -> QLabel:
    """Make a label for a control."""
    heading = label(name)
    heading.setToolTip(control.toolTip())
    heading.setBuddy(control)
    return heading


LONGEST = 20_000
"""Most characters after a paste; laying out more would freeze the window."""
TOO_LONG = Words("That text is too long for this field: {most:,} characters at most.", most=LONGEST)


class Lines(QPlainTextEdit):
    """A small text editor; Tab moves the focus.

    Signals: `left` (it lost the focus), `refused` (a paste was too long).
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
        follow_writing(self)
        self.fit()

    def show_lines(self, lines: int) -> None:
        """Set the height to another number of lines."""
        if lines != self._lines:
            self._lines = lines
            self.fit()

    def fit(self) -> None:
        """Set the height to the wanted number of lines."""
        margins = 2 * round(self.document().documentMargin()) + 10
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing() + margins)

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.fit()

    @override
    def insertFromMimeData(self, source: QMimeData) -> None:
        if self.document().characterCount() + len(source.text()) > LONGEST:
            self.refused.emit()
        else:
            self.insertPlainText(source.text())

    @override
    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()


class TextField(Field):
    """A text field of several lines below its label."""

    def __init__(
        self,
        name: str,
        lines: int,
        hint: str = "",
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
        shows_name: bool = True,
        what: str = "",
    ) -> None:
        """hint: placeholder. what: explanation of the field."""
        edit = Lines(lines)
        super().__init__(edit, name, read, write)
        edit.setPlaceholderText(hint)
        describe(edit, what)
        heading = (buddy(name, edit),) if shows_name else ()
        column(*heading, edit, self.problem, of=self, spacing=4)
        edit.textChanged.connect(self._pending.start)
        edit.left.connect(self.leave)
        edit.refused.connect(lambda: self._show_problem(TOO_LONG))
