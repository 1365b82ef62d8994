"""Numbers and text to type; a message below a field says what is wrong with a text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QToolButton,
    QWidget,
)
from typing_extensions import override

from app.window.controls.labels import label, paragraph, restyle, say, set_tip, tabular
from app.window.controls.layouts import Wide, column, row
from app.window.controls.writing import follow_writing
from app.window.language import decimal, tr
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words


class _KeptKey(QObject):
    """Answers Qt when it asks whether a key is one here."""

    def __init__(self, widget: QWidget, key: Qt.Key) -> None:
        super().__init__(widget)
        self._key = key

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take it."""
        del watched
        is_key = isinstance(event, QKeyEvent) and event.key() == self._key
        if is_key and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return False


def keep_key(widget: QWidget, key: Qt.Key) -> None:
    """A key for this widget and what is in it, instead of the shortcut that it is elsewhere."""
    widget.installEventFilter(_KeptKey(widget, key))


def add_clear_button(edit: QLineEdit) -> None:
    """Add Qt's button that clears a text, with a name for screen readers."""
    edit.setClearButtonEnabled(True)
    for button in edit.findChildren(QToolButton):
        button.setAccessibleName(tr("Clear"))


class SearchField(QLineEdit):
    """What to look for. Signal `left`: Escape was pressed in it, where that is a shortcut too."""

    left = Signal()

    def __init__(self, placeholder: str, name: str) -> None:
        super().__init__()
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name)
        add_clear_button(self)
        keep_key(self, Qt.Key.Key_Escape)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape leaves it."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


SETTLED_MS = 300
"""A value counts when nothing was typed for so long, or the focus left the field."""


def settle_timer(parent: QObject, settle: Callable[[], None]) -> QTimer:
    """A timer that calls `settle` SETTLED_MS after its last start."""
    timer = QTimer(parent, singleShot=True, interval=SETTLED_MS)
    timer.timeout.connect(settle)
    return timer


class Field(QWidget):
    """A text to type; `read` parses it and `write` shows a value.

    Signal `chosen`: the typed value, once typing has paused or the focus has left.
    """

    chosen = Signal(object)

    def __init__(
        self,
        edit: QLineEdit | QPlainTextEdit,
        name: str,
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
    ) -> None:
        """read: raises BadOption for a text that is no value."""
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
        """Show a value without emitting it; what was typed is gone."""
        edit, text = self._edit, self._write(value)
        if text != self.text():
            edit.setPlainText(text) if isinstance(edit, QPlainTextEdit) else edit.setText(text)
        self._pending.stop()
        self._show_problem("")

    def settle(self) -> None:
        """Emit the value of the text, or say what is wrong with it."""
        self._pending.stop()
        try:
            value = self._read(self.text())
        except BadOption as problem:
            self._show_problem(str(problem))
        else:
            self._show_problem("")
            self.chosen.emit(value)

    def leave(self) -> None:
        """Settle what was typed when the focus leaves."""
        if self._pending.isActive():
            self.settle()

    def _show_problem(self, words: str) -> None:
        say(self.problem, words)
        restyle(self._edit, "bad", bool(words))


LONGEST_LINE = 2000


class LineField(Field):
    """One line of text beside its name."""

    def __init__(
        self,
        name: str,
        what: str,
        empty: str,
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
    ) -> None:
        """what: the field in a sentence. empty: shown while there is no text."""
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


def describe(control: QWidget, what: str) -> None:
    """Give a control a sentence, for its tooltip and screen readers."""
    control.setAccessibleDescription(what)
    set_tip(control, what)


def buddy(name: str, control: QWidget) -> QLabel:
    """A label that names a control."""
    heading = label(name)
    heading.setToolTip(control.toolTip())
    heading.setBuddy(control)
    return heading


@dataclass(frozen=True, slots=True)
class NumberKind:
    """Range and step of a number.

    decimals: 0 for whole numbers. off: a number that is shown as the word "off". slides_to: where a
    slider from `least` ends, None for no slider.
    """

    least: float
    most: float
    step: float = 1
    decimals: int = 0
    off: float | None = None
    slides_to: float | None = None


class NumberEdit(QDoubleSpinBox):
    """A number with a decimal point or comma, or a word that stands for one.

    The value `unset`, a step below the least number, stands for "not chosen"; the special value
    text says what is used then, and stepping begins at `start`.
    """

    def __init__(self, kind: NumberKind, unset: str) -> None:
        """unset: the special value text, "" where there always is a number."""
        super().__init__()
        self.unset, self._least = round(kind.least - kind.step, 6), kind.least
        self._off = kind.off
        self.start: float | None = None
        self.setDecimals(kind.decimals)
        self.setRange(self.unset if unset else kind.least, kind.most)
        self.setSingleStep(kind.step)
        self.setSpecialValueText(unset)
        self.setValue(self.minimum())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setMinimumWidth(1)
        tabular(self)

    def _number(self, text: str) -> float | None:
        """The number that a text means, None for none."""
        unset = self.specialValueText()
        if unset and text in ("", unset):
            return self.unset
        if self._off is not None and text == tr("off"):
            return self._off
        try:
            return float(text.replace(",", "."))
        except ValueError:
            return None

    # Qt

    @override
    def textFromValue(self, value: float) -> str:
        number = round(value, self.decimals())
        if number == self.unset and self.specialValueText():
            return self.specialValueText()  # which Qt shows by itself, but tells no screen reader
        return tr("off") if number == self._off else decimal(number)

    @override
    def valueFromText(self, text: str) -> float:
        number = self._number(text)
        return self.value() if number is None else number

    @override
    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        number, state = self._number(text), QValidator.State.Intermediate
        if number is None:
            begun = ("-", ".", ",", tr("off"), self.specialValueText())
            if not any(word.startswith(text) for word in begun):
                state = QValidator.State.Invalid
        elif number > self.maximum() or (not self.decimals() and number % 1):
            state = QValidator.State.Invalid
        elif number >= self._least or number == self.unset:
            state = QValidator.State.Acceptable
        return state, text, at

    @override
    def stepBy(self, steps: int) -> None:
        if self.start is not None and self.specialValueText() and self.value() == self.unset:
            self.setValue(self.start)
        super().stepBy(steps)
        if self.value() < self._least:
            self.setValue(self.minimum())

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # it scrolls the panel


class Slider(QSlider):
    """A number by hand, beside the field that takes it from the keys."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setAccessibleName(tr("{name}, slider", name=name))
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setRange(0, steps)

    # Qt

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # it scrolls the panel


class NumberField(QWidget):
    """A number beside its name, with a slider where its kind has one.

    Signal `chosen`(int | float | None): the number, None for "not chosen", once it has settled.
    """

    chosen = Signal(object)

    def __init__(self, name: str, kind: NumberKind, what: str = "", unset: str = "") -> None:
        """what: the number in a sentence. unset: words of "not chosen", "" for no such choice."""
        super().__init__()
        self._kind, self.edit = kind, NumberEdit(kind, unset)
        self._pending = settle_timer(self, self.settle)
        for part in (self.edit, self.edit.lineEdit()):
            part.setAccessibleName(name)
        self._what = tr(what)
        describe(self.edit, self._what)
        lines = column(
            row(Wide(buddy(name, self.edit), 3), Wide(self.edit, 2), spacing=4), of=self, spacing=4
        )
        self._slider: Slider | None = None
        if kind.slides_to is not None:
            self._slider = Slider(name, self._steps(kind.slides_to))
            self._slider.valueChanged.connect(self._slide)
            lines.addWidget(self._slider)
        self.edit.valueChanged.connect(self._change)
        self.edit.editingFinished.connect(self.leave)
        self._refresh()

    @property
    def value(self) -> int | float | None:
        """The number on show, None for "not chosen"."""
        edit = self.edit
        number = round(edit.value(), edit.decimals())
        if edit.specialValueText() and number == edit.unset:
            return None
        return number if edit.decimals() else int(number)

    def set_value(self, number: float | None) -> None:
        """Show a number without emitting it."""
        with QSignalBlocker(self.edit):
            self.edit.setValue(self.edit.unset if number is None else number)
        self._pending.stop()
        self._refresh()

    def recommend(self, number: float | None) -> None:
        """Show what is used where nothing was chosen, None where that is not known."""
        self.edit.start = number
        words = tr("default") if number is None else self.edit.textFromValue(number)
        self.edit.setSpecialValueText(words)
        self._refresh()

    def forbid(self, why: str) -> None:
        """Disable the field with a reason, "" enables it."""
        self.edit.setEnabled(not why)
        set_tip(self.edit, why or self._what)

    def settle(self) -> None:
        """Emit the number."""
        self._pending.stop()
        self.chosen.emit(self.value)

    def leave(self) -> None:
        """Settle what was typed when the focus leaves."""
        if self._pending.isActive():
            self.settle()

    def _change(self) -> None:
        self._pending.start()
        self._refresh()

    def _refresh(self) -> None:
        """Keep the slider and the colour in step with the number."""
        chosen = self.value
        restyle(self.edit, "unset", chosen is None)
        number = self.edit.start if chosen is None else chosen
        if self._slider is not None and number is not None:
            with QSignalBlocker(self._slider):
                self._slider.setValue(self._steps(number))

    def _steps(self, number: float) -> int:
        return round((number - self._kind.least) / self._kind.step)

    def _slide(self, steps: int) -> None:
        self.edit.setValue(self._kind.least + steps * self._kind.step)


LONGEST = 20_000
"""Characters a paste may make it; laying out more would freeze the window."""
TOO_LONG = Words("That text is too long for this field: {most:,} characters at most.", most=LONGEST)


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
        follow_writing(self)
        self.fit()

    def fit(self) -> None:
        """Be as high as the lines asked for in the font of now."""
        margins = 2 * round(self.document().documentMargin()) + 10
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing() + margins)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        """Lines of another font are of another height."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.fit()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Plain text that is not too long."""
        if self.document().characterCount() + len(source.text()) > LONGEST:
            self.refused.emit()
        else:
            self.insertPlainText(source.text())

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Say so."""
        super().focusOutEvent(event)
        self.left.emit()


class TextField(Field):
    """Some lines of text below their name."""

    def __init__(
        self,
        name: str,
        lines: int,
        hint: str = "",
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
        shows_name: bool = True,
    ) -> None:
        edit = Lines(lines)
        super().__init__(edit, name, read, write)
        edit.setPlaceholderText(hint)
        heading = (label(name),) if shows_name else ()
        column(*heading, edit, self.problem, of=self, spacing=4)
        edit.textChanged.connect(self._pending.start)
        edit.left.connect(self.leave)
        edit.refused.connect(lambda: self._show_problem(TOO_LONG))
