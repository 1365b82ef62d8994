"""Numbers and lines of text to type, each with its mistake said below it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import QEvent, QLocale, QMimeData, QObject, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QGridLayout, QLineEdit, QPlainTextEdit, QSlider, QWidget

from app.window.controls.labels import label, paragraph, restyle, say, set_tip, tabular
from app.window.controls.layouts import column
from app.window.controls.writing import follow_writing
from app.window.language import said, tr
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words

T = TypeVar("T")


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


class SearchField(QLineEdit):
    """What to look for. Signal `left`: Escape was pressed in it, where that is a shortcut too."""

    left = Signal()

    def __init__(self, placeholder: str, name: str) -> None:
        super().__init__()
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name)
        self.setClearButtonEnabled(True)
        keep_key(self, Qt.Key.Key_Escape)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape leaves it."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


SETTLED_MS = 300
"""A value counts once nothing was typed for so long, or the field was left."""


class Field(QWidget):
    """Something to type into, and what is wrong with it; subclasses send it off in `settle`."""

    def __init__(self, edit: QLineEdit | QPlainTextEdit) -> None:
        super().__init__()
        self.pending = QTimer(self, singleShot=True, interval=SETTLED_MS)
        self.pending.timeout.connect(self.settle)
        self.problem = paragraph("", "problem")
        self._edited = edit
        self.show_problem("")

    def show_problem(self, words: str) -> None:
        """Say what is wrong with the value, "" for nothing."""
        say(self.problem, words)
        restyle(self._edited, "bad", bool(words))

    def tried(self, make: Callable[[], T]) -> T | None:
        """What is made of the value; None for a BadOption, which the field says."""
        try:
            made = make()
        except BadOption as problem:
            self.show_problem(str(problem))
            return None
        self.show_problem("")
        return made

    def leave(self) -> None:
        """The focus went elsewhere: what was typed counts now."""
        if self.pending.isActive():
            self.settle()

    def settle(self) -> None:
        """Nothing more is typed for now."""
        self.pending.stop()


MOST_DIGITS = 20
"""Enough for any seed."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a field holds; `number` None with is_number True is none, or none that was chosen."""

    number: float | None
    is_number: bool


@dataclass(frozen=True, slots=True)
class NumberKind:
    """How a number is read and stepped.

    off: the word for `neutral`, None where there is none. is_choice: an empty field means that
    nothing was chosen, not `neutral`. ends: of a slider below it, None for no slider.
    """

    read: Callable[[str], int | float]
    step: float
    off: str | None = None
    neutral: float | None = None
    is_choice: bool = False
    ends: tuple[float, float] | None = None

    def at(self, steps: int) -> int | float:
        """The number so many steps from the slider's start."""
        assert self.ends is not None
        return self.read(f"{self.ends[0] + steps * self.step:.6g}")

    def steps(self, number: float) -> int:
        """Where a number is on the slider, or the end beyond which it is."""
        assert self.ends is not None
        start, end = self.ends
        return round((min(max(start, number), end) - start) / self.step)

    def text(self, number: float | None) -> str:
        """What a field shows of a number."""
        if number is None:
            return ""
        if self.off is None or number != self.neutral:
            return number_text(number).replace(".", QLocale().decimalPoint())
        return said(self.off) if self.is_choice else ""

    def typed(self, text: str) -> Typed:
        """What a text means."""
        if not text or (self.off is not None and text.lower() == said(self.off).lower()):
            return Typed(self.neutral if text or not self.is_choice else None, True)
        try:
            return Typed(self.read(text.replace(",", ".")), True)
        except ValueError:
            return Typed(None, False)


class NumberEdit(QLineEdit):
    """Signal `stepped`(int): the user pressed Up (1) or Down (-1)."""

    stepped = Signal(int)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up and Down step."""
        steps = {Qt.Key.Key_Up.value: 1, Qt.Key.Key_Down.value: -1}
        if event.key() in steps:
            self.stepped.emit(steps[event.key()])
        else:
            super().keyPressEvent(event)


class Slider(QSlider):
    """A number by hand, beside the field that takes it from the keys."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setAccessibleName(tr("{name}, slider", name=name))
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setRange(0, steps)

    # Qt

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll the panel, never a setting."""
        event.ignore()


SLIDER_ROW = 1


class LineField(Field):
    """One line behind its name. Signal `changed`: what to try, as subclasses read it."""

    changed = Signal(object)

    def __init__(self, edit: QLineEdit, name: str, what: str, empty: str) -> None:
        """what: the field in a sentence. empty: what is shown where nothing is typed."""
        super().__init__(edit)
        what = said(what)
        edit.setAccessibleName(name)
        edit.setAccessibleDescription(what)
        set_tip(edit, what)
        edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        edit.setPlaceholderText(empty)
        heading = label(name)
        set_tip(heading, what)
        heading.setBuddy(edit)
        self._grid = grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        grid.addWidget(heading, 0, 0)
        grid.addWidget(edit, 0, 1)
        grid.addWidget(self.problem, SLIDER_ROW + 1, 0, 1, 2)
        grid.setColumnStretch(0, 3)
        grid.setColumnStretch(1, 2)
        edit.textEdited.connect(lambda _: self.pending.start())
        edit.editingFinished.connect(self.leave)


class NumberField(LineField):
    """Signal `changed`(int | float | None): a number to try; an empty field is the neutral one, or
    None for no choice.
    """

    def __init__(self, name: str, kind: NumberKind, what: str = "") -> None:
        edit = NumberEdit()
        super().__init__(edit, name, what, said(kind.off or ""))
        self._edit, self._kind = edit, kind
        self._recommended: float | None = None
        edit.setMaxLength(MOST_DIGITS)
        tabular(edit)
        edit.stepped.connect(self._step)
        self._slider = None if kind.ends is None else Slider(name, kind.steps(kind.ends[1]))
        if self._slider is not None:
            self._slider.valueChanged.connect(self._slide)
            self._grid.addWidget(self._slider, SLIDER_ROW, 0, 1, 2)

    def show_number(self, number: float | None) -> None:
        """Show a number, None as an empty field; nothing is emitted."""
        self.pending.stop()
        if self._typed() != Typed(number, True):
            self._edit.setText(self._kind.text(number))
        self._place_slider()
        self.show_problem("")

    def show_recommended(self, number: float | None) -> None:
        """What holds where nothing is chosen, None where that is not known."""
        self._recommended = number
        self._edit.setPlaceholderText(self._kind.text(number) or tr("default"))
        self._place_slider()

    def forbid(self, why: str) -> None:
        """Disable it with a reason, "" enables it."""
        self._edit.setEnabled(not why)
        set_tip(self._edit, why or self._edit.accessibleDescription())

    def settle(self) -> None:
        """A number is tried, anything else is a mistake."""
        super().settle()
        typed = self._typed()
        self._place_slider()
        if typed.is_number:
            self.changed.emit(typed.number)
        else:
            text = self._edit.text().strip()
            self.show_problem(tr("“{text}” is not a number.", text=text))

    def _typed(self) -> Typed:
        return self._kind.typed(self._edit.text().strip())

    def _place_slider(self) -> None:
        """At the number that holds; it stays where it is when there is none."""
        chosen = self._typed().number
        number = self._recommended if chosen is None else chosen
        if self._slider is not None and number is not None:
            with QSignalBlocker(self._slider):
                self._slider.setValue(self._kind.steps(number))

    def _slide(self, steps: int) -> None:
        self._edit.setText(self._kind.text(self._kind.at(steps)))
        self.pending.start()

    def _step(self, direction: int) -> None:
        typed = self._typed()
        if not typed.is_number or not self._edit.isEnabled():
            return
        start = self._recommended if typed.number is None else typed.number
        number = (start or 0) + direction * self._kind.step
        exact = number if isinstance(number, int) else round(number, 6)
        self._edit.setText(number_text(exact))
        self.settle()


def number_text(number: float) -> str:
    """As short as it can be without losing anything: 1, 0.7, 18446744073709551615."""
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


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
    """Signal `changed`(str): text to try, once typing paused or the field was left."""

    changed = Signal(str)

    def __init__(self, name: str, lines: int, hint: str = "", shows_name: bool = True) -> None:
        edit = Lines(lines)
        super().__init__(edit)
        self._edit = edit
        self._edit.setAccessibleName(name)
        self._edit.setPlaceholderText(hint)
        heading = (label(name),) if shows_name else ()
        column(*heading, self._edit, self.problem, of=self, spacing=4)
        self._edit.textChanged.connect(self.pending.start)
        self._edit.left.connect(self.leave)
        self._edit.refused.connect(lambda: self.show_problem(TOO_LONG))

    def text(self) -> str:
        """What is typed."""
        return self._edit.toPlainText()

    def show_text(self, text: str) -> None:
        """Show a text; nothing is emitted."""
        if text != self.text():
            self._edit.setPlainText(text)
        self.pending.stop()
        self.show_problem("")

    def settle(self) -> None:
        """Any text is tried."""
        super().settle()
        self.changed.emit(self.text())
