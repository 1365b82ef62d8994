"""A scroll area that stays at its end, or keeps its place while content changes."""

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget
from shiboken6 import isValid
from typing_extensions import override

from app.window.controls.scroll_bar import overlay_bar
from app.window.transcript.reader import MARGIN

SLACK = 4
"""Pixels from the end that still count as the end when scrolling down."""


class Content(QWidget):
    """The scrolled widget. Signal `resized`: its children were laid out."""

    resized = Signal()

    # Qt

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()


class PinnedScroll(QScrollArea):
    """At its end it follows growing content; elsewhere the content in view stays in place.

    Any scroll up stops following; scrolling to the end starts it again.

    Signals:
        pinned_changed(bool): whether it follows.
        scrolled: other parts are in view.
    """

    pinned_changed = Signal(bool)
    scrolled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.pinned = True
        self._anchor: QWidget | None = None
        self._anchor_y = 0
        self._last = 0
        self._moving = False
        self.content = Content()
        self.content.resized.connect(self._keep_place)
        self.setWidget(self.content)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        overlay_bar(self)
        self.verticalScrollBar().valueChanged.connect(self._moved)
        self.verticalScrollBar().rangeChanged.connect(self._grew)

    def follow(self) -> None:
        """Scroll to the end and stay there."""
        self._set_pinned(True)
        self._grew()

    def go_to(self, widget: QWidget, place: QPoint, room: int) -> None:
        """Scroll to a position in a widget, with so many pixels above and below it.

        The widget then keeps its place while others around it are built.
        """
        inside = widget.mapTo(self.content, place)
        self.ensureVisible(inside.x(), inside.y(), 0, room)
        self._hold(widget)

    def stay(self) -> None:
        """Keep the content in view in place, even at the end."""
        self._remember()
        self._set_pinned(False)

    def go_to_top(self, widget: QWidget) -> None:
        """Scroll to the top of a widget, once it is laid out."""
        self._set_pinned(False)
        self._anchor, self._anchor_y = widget, MARGIN
        self._keep_place()

    def _moved(self, value: int) -> None:
        bar = self.verticalScrollBar()
        down = value >= self._last
        self._last = value
        if not self._moving:
            at_end = value >= bar.maximum() - (SLACK if down else 0)
            self._set_pinned(at_end and self._is_whole_below())
            self._remember()
        self.scrolled.emit()

    def _is_whole_below(self) -> bool:
        """Whether the content includes the end of the chat."""
        return True

    def _grew(self) -> None:
        if self.pinned:
            self._move(self.verticalScrollBar().maximum())

    def _move(self, value: int) -> None:
        self._moving = True
        self.verticalScrollBar().setValue(value)
        self._moving = False

    def _set_pinned(self, pinned: bool) -> None:
        if pinned != self.pinned:
            self.pinned = pinned
            self.pinned_changed.emit(pinned)

    def _remember(self) -> None:
        """Remember what is at the top of the viewport."""
        top = QPoint(self.content.width() // 2, self.verticalScrollBar().value())
        self._hold(self.content.childAt(top) or self.content.childAt(top + QPoint(0, 24)))

    def _hold(self, widget: QWidget | None) -> None:
        self._anchor = widget
        if widget is not None:
            self._anchor_y = self._top_of(widget) - self.verticalScrollBar().value()

    def _top_of(self, widget: QWidget) -> int:
        return widget.mapTo(self.content, QPoint(0, 0)).y()

    def _keep_place(self) -> None:
        if self.pinned or self._anchor is None:
            return
        if isValid(self._anchor) and self.content.isAncestorOf(self._anchor):
            self._move(self._top_of(self._anchor) - self._anchor_y)
        else:
            self._remember()
