"""Labels with a role that the style sheet knows, and figures that keep their width."""

from html import escape
from textwrap import TextWrapper

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget
from typing_extensions import override

from app.window.language import said


def label(text: str = "", role: str = "") -> QLabel:
    """One line or more of plain text; roles: title, heading, muted, problem, warning, note."""
    result = QLabel()
    result.setTextFormat(Qt.TextFormat.PlainText)  # first: HTML would be read as it is set
    result.setText(said(text))
    if role:
        result.setProperty("role", role)
    return result


def wrapped(text: str, role: str = "") -> QLabel:
    """Text that wraps; its longest word keeps nothing else from its place."""
    result = label(text, role)
    result.setWordWrap(True)
    result.setMinimumWidth(1)
    return result


def paragraph(text: str = "", role: str = "") -> QLabel:
    """The same to be selected; Qt makes a document of it, which takes three times as long."""
    result = wrapped(text, role)
    result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return result


LONGEST_TIP, TIP_COLUMNS = 1000, 72
"""Characters of a tooltip and of a line of it."""


def plain(text: str) -> str:
    """Text for a tooltip in lines, which Qt does not wrap; it would take for HTML what looks so."""
    shown = text if len(text) <= LONGEST_TIP else f"{text[:LONGEST_TIP]} …"
    wrap = TextWrapper(TIP_COLUMNS, break_long_words=False, break_on_hyphens=False)
    shown = "\n".join(wrap.fill(line) for line in shown.split("\n"))
    return f"<span>{escape(shown).replace(chr(10), '<br>')}</span>" if "<" in shown else shown


def set_tip(widget: QWidget, text: str) -> None:
    """Give a widget a tooltip: plain text, wherever it comes from."""
    widget.setToolTip(plain(text))


def describe(control: QWidget, what: str) -> None:
    """Give a control a sentence, for its tooltip and screen readers."""
    control.setAccessibleDescription(what)
    set_tip(control, what)


def unmarked(text: str) -> str:
    """Text for a button or menu, where & marks the key for what follows."""
    return text.replace("&", "&&")


def say(target: QLabel, text: str) -> None:
    """Show a text, or hide the label when there is none."""
    target.setText(said(text))
    target.setVisible(bool(text))


def announce(widget: QWidget, words: str) -> None:
    """Have a screen reader say this, wherever its user is."""
    from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent  # a start needs neither

    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, words))


def set_role(widget: QWidget, role: str) -> None:
    """Give a widget another role after it was styled."""
    restyle(widget, "role", role)


def restyle(widget: QWidget, name: str, value: str | bool) -> None:
    """Give a widget another value of a property that the style sheet knows."""
    before = widget.property(name)
    widget.setProperty(name, value)
    if (before or value) and before != value:
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def tabular(widget: QWidget) -> None:
    """Figures of one width, so that changing numbers do not shake."""
    font = QFont(widget.font())
    font.setFeature(QFont.Tag("tnum"), 1)
    widget.setFont(font)


class ShortLabel(QLabel):
    """Text on one line, or a few, that gives way: what does not fit ends in an ellipsis and is in
    the tooltip, and all of it is the accessible name. Its height never changes.
    """

    def __init__(
        self,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        what: str = "",
        name: str = "",
        lines: int = 1,
    ) -> None:
        """what: a sentence about the text, for the tooltip. name: for screen readers, which then
        hear the text as a description.
        """
        super().__init__()
        self._mode, self._what, self._name, self._lines = mode, what, name, lines
        self.setWordWrap(lines > 1)
        self._whole = ""
        self.setAccessibleName(name)
        self.setAccessibleDescription(what)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str) -> None:
        """Show one line of text."""
        self._whole = " ".join(said(text).split())
        if self._name:
            self.setAccessibleDescription(self._whole)
        else:
            self.setAccessibleName(self._whole)
        self._fit()
        self.updateGeometry()

    def _fit(self) -> None:
        shown = self._elided() if self._lines == 1 else self._wrapped()
        if shown != self.text():
            self.setText(shown)
        cut = self._whole if shown != self._whole else ""
        set_tip(self, "\n".join(filter(None, (cut, self._what))))

    def _elided(self) -> str:
        return self.fontMetrics().elidedText(self._whole, self._mode, self.width())

    def _wrapped(self) -> str:
        """As many words as there are lines for, whose height is taken."""
        metrics, words, shown = self.fontMetrics(), self._whole.split(), self._whole
        height = self._lines * metrics.lineSpacing()
        self.setFixedHeight(height)
        room, way = QRect(0, 0, self.width(), height), Qt.TextFlag.TextWordWrap
        while len(words) > 1 and metrics.boundingRect(room, way, shown).height() > height:
            words.pop()
            shown = f"{' '.join(words)} …"
        return shown

    # Qt

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        del event
        self._fit()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._fit()

    @override
    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self._whole) + 2
        return QSize(width, super().sizeHint().height())

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())


SHORTEST = 64
"""Pixels of a ShortButton: an icon and a few letters."""


class ShortButton(QPushButton):
    """A button whose words give way: what does not fit ends in an ellipsis."""

    def __init__(self) -> None:
        super().__init__()
        self._whole, self._hint = "", QSize()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str) -> None:
        """Show these words, which are its name for screen readers unless it has another."""
        self._whole = said(text)
        self._fit()
        self.updateGeometry()

    def _fit(self) -> None:
        self.setText(unmarked(self._whole))
        self._hint = super().sizeHint()
        metrics = self.fontMetrics()
        room = 1 + self.width() - self._hint.width() + metrics.horizontalAdvance(self._whole)
        shown = metrics.elidedText(self._whole, Qt.TextElideMode.ElideMiddle, room)
        self.setText(unmarked(shown))

    # Qt

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    @override
    def sizeHint(self) -> QSize:
        return self._hint

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(SHORTEST, self._hint.height())
