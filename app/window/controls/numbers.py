"""Number fields with steps and sliders."""

import re
from dataclasses import dataclass

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QValidator, QWheelEvent
from PySide6.QtWidgets import QDoubleSpinBox, QSlider
from typing_extensions import override

from app.window.controls.bound import Control
from app.window.controls.fields import buddy, settle_timer
from app.window.controls.labels import describe, restyle, say, tabular, wrapped
from app.window.controls.layouts import Wide, column, row
from app.window.language import decimal, tr
from mlx_engine.values.words import Words

GROUPED = re.compile(r"\d{1,3}([., ’\xa0\u202f]\d{3})+")
"""A whole number in groups of three digits: "32,768", "32.768"."""
GROUPED_SO_FAR = re.compile(r"\d{1,3}([., ’\xa0\u202f]\d{0,3})+")
"""The beginning of such a number, while it is typed."""


TOLD_MS = 8_000
"""How long a text that was not taken is told of, once the number before it stands there again."""
NOT_IN_RANGE = Words("“{text}” isn't possible here. Use a number from {least} to {most}.")


@dataclass(frozen=True, slots=True)
class NumberKind:
    """Range and step of a number.

    decimals: 0 for whole numbers. off: a number shown as "off". slides_to: maximum of a slider from
    `least` on, None for no slider.
    """

    least: float
    most: float
    step: float = 1
    decimals: int = 0
    off: float | None = None
    slides_to: float | None = None


INSET = 7
"""Pixels between the edge of a field and its text, as the style sheet gives other fields."""


class NumberEdit(QDoubleSpinBox):
    """A spin box for a number with a decimal point or comma, or a word in its place.

    The value `unset`, a step below the least number, stands for "not chosen"; the special value
    text then shows the default, and stepping begins at `start`. An invalid text stays while it is
    typed; afterwards the last value is shown again. Signal `refused`(str): an invalid text was
    left.
    """

    refused = Signal(str)

    def __init__(self, kind: NumberKind, unset: str) -> None:
        """unset: the special value text, "" if there always is a number."""
        super().__init__()
        self.unset, self._least = round(kind.least - kind.step, 6), kind.least
        self._off = kind.off
        self.start: float | None = None
        self.setDecimals(kind.decimals)
        self.setRange(self.unset if unset else kind.least, kind.most)
        self.setSingleStep(kind.step)
        self.setSpecialValueText(unset)
        self.setValue(self.minimum())
        self.kept = self.value()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setMinimumWidth(1)
        self.lineEdit().setTextMargins(INSET, 0, INSET, 0)  # a style sheet's padding has no effect
        tabular(self)

    def is_wrong(self, text: str) -> bool:
        """Whether no valid number begins with this text."""
        number = self._number(text)
        if number is not None:
            return number > self.maximum()
        begun = ("-", ".", ",", tr("off"), self.specialValueText())
        is_group = not self.decimals() and GROUPED_SO_FAR.fullmatch(text)
        return not is_group and not any(word.startswith(text) for word in begun)

    def _number(self, text: str) -> float | None:
        """Parse a number, None for a text that is none."""
        unset = self.specialValueText()
        if unset and text in ("", unset):
            return self.unset
        if self._off is not None and text == tr("off"):
            return self._off
        if not self.decimals() and GROUPED.fullmatch(text):
            text = re.sub(r"\D", "", text)
        try:
            return float(text.replace(",", ".")) if self.decimals() else int(text)
        except ValueError:
            return None

    def _without_unset(self, text: str, at: int) -> tuple[str, int]:
        """Remove the special value text around what was typed; return the new cursor too."""
        unset, after = self.specialValueText(), text[at:]
        before = unset[: len(unset) - len(after)]
        is_inside = len(text) > len(unset) and text.startswith(before) and unset.endswith(after)
        if not is_inside or not unset[:1].isalpha():
            return text, at
        typed = text[len(before) : at]
        return typed, len(typed)

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
        text, at = self._without_unset(text, at)
        number, state = self._number(text), QValidator.State.Intermediate
        if number is not None and (self._least <= number <= self.maximum() or number == self.unset):
            state = QValidator.State.Acceptable
        return state, text, at

    @override
    def fixup(self, text: str) -> str:
        self.refused.emit(text)
        return self.textFromValue(self.kept)

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
    """A slider for the mouse; the number field beside it takes the keys."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setAccessibleName(tr("{name}, slider", name=name))
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setRange(0, steps)

    # Qt

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # it scrolls the panel


class NumberField(Control):
    """A number with its label, and a slider for some kinds.

    Signal `chosen`(int | float | None): the number, None for "not chosen", once typing has paused.
    """

    def __init__(self, name: str, kind: NumberKind, what: str = "", unset: str = "") -> None:
        """what: explanation of the number. unset: text for "not chosen", "" for none."""
        super().__init__()
        self._kind, self.edit = kind, NumberEdit(kind, unset)
        self._pending = settle_timer(self, self.settle)
        self._what = tr(what)
        for part in (self.edit, self.edit.lineEdit()):
            part.setAccessibleName(name)
            describe(part, self._what)
        lines = column(
            row(Wide(buddy(name, self.edit), 3), Wide(self.edit, 2), spacing=4), of=self, spacing=4
        )
        self._slider: Slider | None = None
        if kind.slides_to is not None:
            self._slider = Slider(name, self._steps(kind.slides_to))
            describe(self._slider, self._what)
            self._slider.valueChanged.connect(self._slide)
            lines.addWidget(self._slider)
        self._passing = QTimer(self, singleShot=True, interval=TOLD_MS)
        self._passing.timeout.connect(lambda: self._show_problem(""))
        self._problem = wrapped("", "problem")
        self._problem.hide()
        lines.addWidget(self._problem)
        self.edit.valueChanged.connect(self._change)
        self.edit.lineEdit().textEdited.connect(self._take_text)
        self.edit.refused.connect(lambda text: self._show_problem(text, is_shown=False))
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
        if number != self.value:
            self._show_problem("")
        with QSignalBlocker(self.edit):
            self.edit.setValue(self.edit.unset if number is None else number)
        self.edit.kept = self.edit.value()
        self._pending.stop()
        self._refresh()

    def recommend(self, number: float | None) -> None:
        """Show the default where nothing was chosen, None if not known."""
        self.edit.start = number
        words = tr("default") if number is None else self.edit.textFromValue(number)
        self.edit.setSpecialValueText(words)
        self._refresh()

    def forbid(self, why: str) -> None:
        """Disable the field with a reason, "" enables it."""
        self.edit.setEnabled(not why)
        for part in (self.edit, self.edit.lineEdit()):
            describe(part, why or self._what)

    def settle(self) -> None:
        """Emit the number."""
        self._pending.stop()
        self.edit.kept = self.edit.value()
        self.chosen.emit(self.value)

    def leave(self) -> None:
        """Emit the typed number when the focus leaves."""
        if self._pending.isActive():
            self.settle()

    def _take_text(self, text: str) -> None:
        """Do not emit a number while the text is out of range."""
        is_wrong = self.edit.is_wrong(text)
        self._show_problem(text if is_wrong else "")
        if not self.edit.hasAcceptableInput():
            self._pending.stop()

    def _show_problem(self, text: str, *, is_shown: bool = True) -> None:
        """Show that a text is not a number in range, "" for none. is_shown: it is in the field."""
        least, most = decimal(self._kind.least), decimal(self._kind.most)
        words = tr(NOT_IN_RANGE.template, text=text, least=least, most=most)
        say(self._problem, words if text else "")
        restyle(self.edit, "bad", bool(text) and is_shown)
        if text and not is_shown:
            self._passing.start()
        else:
            self._passing.stop()

    def _change(self) -> None:
        if self.edit.value() != self.edit.kept:
            self._show_problem("")
        self._pending.start()
        self._refresh()

    def _refresh(self) -> None:
        """Update the slider, and the colour that shows whether a number was chosen."""
        chosen = self.value
        restyle(self.edit, "unset", chosen is None)
        number = self.edit.start if chosen is None else chosen
        if self._slider is not None and number is not None:
            with QSignalBlocker(self._slider):
                self._slider.setValue(self._steps(number))
            self._slider.setAccessibleDescription(self.edit.text())

    def _steps(self, number: float) -> int:
        return round((number - self._kind.least) / self._kind.step)

    def _slide(self, steps: int) -> None:
        self.edit.setValue(self._kind.least + steps * self._kind.step)
