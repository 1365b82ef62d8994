"""Choices between several values, as a list or as segments; check boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QMargins, QRect, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetrics,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QStandardItemModel,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStyleOptionComboBox,
)
from typing_extensions import override

from app.window.controls.bound import Control
from app.window.controls.icons import paint_icon
from app.window.controls.labels import describe, plain, restyle, unmarked
from app.window.controls.layouts import row
from app.window.language import said
from app.window.look import look


@dataclass(frozen=True, slots=True)
class Option:
    """A value, its label, and why it cannot be chosen ("" if it can). what: its explanation."""

    value: object
    words: str
    why_not: str = ""
    what: str = ""

    @property
    def tip(self) -> str:
        """Tooltip: why it cannot be chosen, else its explanation."""
        return said(self.why_not or self.what)


class DropDown(QComboBox):
    """A choice in a list. Signal `chosen`: the user's value."""

    chosen = Signal(object)

    def __init__(self, name: str, what: str = "") -> None:
        """what: explanation of the choice."""
        super().__init__()
        self._options: tuple[Option, ...] = ()
        self._what = what
        self.setAccessibleName(name)
        describe(self, what)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        self.activated.connect(lambda row: self.chosen.emit(self._options[row].value))

    def show_options(self, options: Sequence[Option], value: object = None) -> None:
        """Offer these options and show `value`, nothing for one that is not among them."""
        if self._options != tuple(options):
            self._options = tuple(options)
            self._have_items()
        self.set_value(value)

    def _have_items(self) -> None:
        self.clear()
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        for place, option in enumerate(self._options):
            self.addItem(said(option.words), option.value)
            model.item(place).setEnabled(not option.why_not)
            model.item(place).setToolTip(plain(option.tip))

    def set_value(self, value: object) -> None:
        """Show a value without emitting it."""
        values = [option.value for option in self._options]
        place = values.index(value) if value in values else -1
        self.setCurrentIndex(place)
        chosen = said(self._options[place].what) if place >= 0 else ""
        describe(self, "\n".join(filter(None, (self._what, chosen))))

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        size = look().icon_size
        place = QRect(self.width() - size - 6, (self.height() - size) // 2, size, size)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        style = self.style()
        room = style.subControlRect(
            QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, self
        )
        words = self.currentText() or self.placeholderText()
        end = Qt.TextElideMode.ElideRight
        option.currentText = self.fontMetrics().elidedText(words, end, room.width())
        with QPainter(self) as painter:
            style.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option, painter, self)
            style.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option, painter, self)
            paint_icon(painter, place, "chevron_down", "muted")

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        # it scrolls the panel
        event.ignore()


class _Segment(QPushButton):
    """A segment that reserves room for its bold text."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setAutoExclusive(True)  # a radio button for screen readers
        self.setProperty("role", "segment")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    # Qt

    @override
    def sizeHint(self) -> QSize:
        bold, hint = self.font(), super().sizeHint()
        bold.setWeight(QFont.Weight.DemiBold)
        wider = QFontMetrics(bold).horizontalAdvance(self.text())
        return hint.grownBy(
            QMargins(0, 0, wider - self.fontMetrics().horizontalAdvance(self.text()), 0)
        )

    @override
    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class Segments(Control):
    """Values side by side, or stacked without room; arrow keys move.

    Signal `chosen`: the user's value.
    """

    def __init__(self, name: str, options: Sequence[Option] = (), what: str = "") -> None:
        """what: explanation of the choice."""
        super().__init__()
        self.setAccessibleName(name)
        describe(self, what)
        self._name, self._what = name, what
        self._group = QButtonGroup(self)
        self._row = row(of=self, spacing=0)
        self._options: tuple[Option, ...] = ()
        self._have_buttons(1)  # what Tab comes by before and after it is settled now
        self._group.idClicked.connect(lambda row: self.chosen.emit(self._options[row].value))
        if options:
            self.show_options(options)

    def show_options(self, options: Sequence[Option], value: object = None) -> None:
        """Offer these options and show `value`."""
        if self._options != tuple(options):
            self._options = tuple(options)
            self._have_buttons(len(options))
            for place, button in enumerate(self._group.buttons()):
                self._show_option(button, place)
        self.set_value(value)

    def _show_option(self, button: QAbstractButton, place: int) -> None:
        option, last = self._options[place], len(self._options) - 1
        button.setText(unmarked(said(option.words)))
        button.setAccessibleName(f"{self._name}: {said(option.words)}")
        button.setEnabled(not option.why_not)
        describe(button, option.tip or self._what)
        restyle(button, "edge", {0: "first", last: "last"}.get(place, ""))

    def set_value(self, value: object) -> None:
        """Show a value, or none of them, without emitting it."""
        self._group.setExclusive(False)
        for button, option in zip(self._group.buttons(), self._options, strict=True):
            button.setChecked(option.value == value)
        self._group.setExclusive(True)
        self._take_tab()

    def _take_tab(self) -> None:
        """Let Tab stop only at the chosen segment, or the first."""
        buttons = self._group.buttons()
        stop = self._group.checkedButton() or next(iter(buttons), None)
        for button in buttons:
            policy = Qt.FocusPolicy.StrongFocus if button is stop else Qt.FocusPolicy.ClickFocus
            button.setFocusPolicy(policy)

    @property
    def value(self) -> object:
        """The chosen value."""
        row = self._group.checkedId()
        return self._options[row].value if row >= 0 else None

    def _have_buttons(self, count: int) -> None:
        """Add or remove buttons at the end, so that a clicked or focused one stays."""
        for surplus in self._group.buttons()[count:]:
            self._group.removeButton(surplus)
            self._row.removeWidget(surplus)
            surplus.hide()
            surplus.deleteLater()
        for place in range(len(self._group.buttons()), count):
            button, before = _Segment(), self._group.button(place - 1)
            self._group.addButton(button, place)
            self._row.addWidget(button)
            if before is not None:
                self.setTabOrder(before, button)

    def _fit(self) -> None:
        """Stack the buttons if they would be cut side by side."""
        beside = self.sizeHint().width() <= self.width()
        self._row.setDirection(
            QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        )

    # Qt

    @override
    def sizeHint(self) -> QSize:
        beside = sum(button.sizeHint().width() for button in self._group.buttons())
        return QSize(beside, super().sizeHint().height())

    @override
    def minimumSizeHint(self) -> QSize:
        widest = max(button.sizeHint().width() for button in self._group.buttons())
        return QSize(widest, super().minimumSizeHint().height())

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    @override
    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        stops = (b for b in self._group.buttons() if b.focusPolicy() == Qt.FocusPolicy.StrongFocus)
        next(stops, self).setFocus(event.reason())


BOX = 40
"""Pixels beside the text of a Tick at the largest usual zooms."""

NARROWEST = 120


class Tick(QCheckBox):
    """A check box with text that wraps."""

    def __init__(self, words: str, what: str = "") -> None:
        """what: explanation of the box, if it needs one."""
        super().__init__(words)
        self._words = words
        self.setAccessibleName(words)
        describe(self, what)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def chosen(self) -> SignalInstance:
        """Signal with True or False when the user checks or clears the box."""
        return self.clicked

    def set_value(self, value: bool) -> None:
        """Check or clear the box without emitting it."""
        self.setChecked(value)

    def _wrap(self) -> None:
        """Wrap the text to the width."""
        metrics, lines = self.fontMetrics(), [""]
        room = self.width() - BOX
        for word in self._words.split():
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and metrics.horizontalAdvance(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        self.setText("\n".join(lines))

    # Qt

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._wrap()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._wrap()

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(NARROWEST, super().minimumSizeHint().height())

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self.isChecked():
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box: QRect = self.style().subElementRect(
            QStyle.SubElement.SE_CheckBoxIndicator, option, self
        )
        with QPainter(self) as painter:
            paint_icon(painter, box.adjusted(1, 1, -1, -1), "check", "on_accent")
