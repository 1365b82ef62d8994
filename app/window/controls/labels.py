"""Labels with roles for the style sheet, tooltips, and figures of constant width."""

from html import escape
from textwrap import TextWrapper

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QCursor, QFont, QResizeEvent
from PySide6.QtWidgets import QLabel, QMenu, QPushButton, QSizePolicy, QWidget
from typing_extensions import override

from app.window.language import said


def label(text: str = "", role: str = "") -> QLabel:
    """Make a plain text label; roles: title, heading, muted, problem, warning, note."""
    result = QLabel()
    result.setTextFormat(Qt.TextFormat.PlainText)  # first: HTML would be read as it is set
    result.setText(said(text))
    if role:
        result.setProperty("role", role)
    return result


def wrapped(text: str, role: str = "") -> QLabel:
    """Make a label that wraps; a long word does not widen its parent."""
    result = label(text, role)
    result.setWordWrap(True)
    result.setMinimumWidth(1)
    return result


def paragraph(text: str = "", role: str = "") -> QLabel:
    """Make a selectable label that wraps; it takes three times as long to make as `wrapped`."""
    result = wrapped(text, role)
    result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return result


LONGEST_TIP, TIP_COLUMNS = 1000, 72
"""Most characters of a tooltip, and of one of its lines."""


def plain(text: str) -> str:
    """Wrap a text for a tooltip, and escape what looks like HTML."""
    shown = text if len(text) <= LONGEST_TIP else f"{text[:LONGEST_TIP]} …"
    wrap = TextWrapper(TIP_COLUMNS, break_long_words=False, break_on_hyphens=False)
    shown = "\n".join(wrap.fill(line) for line in shown.split("\n"))
    return f"<span>{escape(shown).replace(chr(10), '<br>')}</span>" if "<" in shown else shown


def set_tip(widget: QWidget, text: str) -> None:
    """Set a widget's tooltip to plain text."""
    widget.setToolTip(plain(text))


def describe(control: QWidget, what: str) -> None:
    """Set a control's explanation, for its tooltip and screen readers."""
    control.setAccessibleDescription(what)
    set_tip(control, what)


def unmarked(text: str) -> str:
    """Escape & in the text of a button or menu."""
    return text.replace("&", "&&")


def say(target: QLabel, text: str) -> None:
    """Show a text, or hide the label if it is empty."""
    target.setText(said(text))
    target.setVisible(bool(text))


def announce(widget: QWidget, words: str) -> None:
    """Let a screen reader speak a text."""
    from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent  # a start needs neither

    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, words))


def set_role(widget: QWidget, role: str) -> None:
    """Change the role of a widget that is already styled."""
    restyle(widget, "role", role)


def restyle(widget: QWidget, name: str, value: str | bool) -> None:
    """Change a property that the style sheet uses, and style the widget again."""
    before = widget.property(name)
    widget.setProperty(name, value)
    if (before or value) and before != value:
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def open_below(button: QPushButton, menu: QMenu) -> None:
    """Open a menu from a button, which does not look pointed at once the menu is closed."""

    def leave() -> None:
        is_over = button.rect().contains(button.mapFromGlobal(QCursor.pos()))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, is_over)
        button.update()

    button.setMenu(menu)
    menu.aboutToHide.connect(leave)


def tabular(widget: QWidget) -> None:
    """Use figures of equal width, so that changing numbers do not move."""
    font = QFont(widget.font())
    font.setFeature(QFont.Tag("tnum"), 1)
    widget.setFont(font)


class ShortLabel(QLabel):
    """A label of one or a few lines, elided if it does not fit; its height never changes.

    The whole text is in the tooltip and the accessible name.
    """

    def __init__(
        self,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        what: str = "",
        name: str = "",
        lines: int = 1,
    ) -> None:
        """what: explanation, for the tooltip. name: accessible name; the text then is the
        accessible description.
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
        """Return the text wrapped into the lines there are, elided."""
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
"""Least pixels of a ShortButton: an icon and a few letters."""


class ShortButton(QPushButton):
    """A button whose text is elided if it does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self._whole, self._hint = "", QSize()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str) -> None:
        """Set the text, which also is the accessible name unless there is another."""
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
