"""A scroll area that follows growing content only while the reader is at its end."""

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget
from shiboken6 import isValid

SLACK = 4
"""Pixels from the end that still count as being there, on the way down."""


class Content(QWidget):
    """What is scrolled. Signal `resized`: its children have their new places."""

    resized = Signal()

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Say so."""
        super().resizeEvent(event)
        self.resized.emit()


class PinnedScroll(QScrollArea):
    """At the end it stays at the end; anywhere else what the reader looks at keeps its place.

    Any move up lets go, be it a pixel; coming down to the end takes hold again. Signal
    `pinned_changed`(bool).
    """

    pinned_changed = Signal(bool)

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
        self.verticalScrollBar().valueChanged.connect(self._moved)
        self.verticalScrollBar().rangeChanged.connect(self._grew)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._set_pinned(True)
        self._grew()

    def let_go(self) -> None:
        """Stop following, as if the reader had scrolled up."""
        self._set_pinned(False)
        self._remember()

    def _moved(self, value: int) -> None:
        bar = self.verticalScrollBar()
        down = value >= self._last
        self._last = value
        if self._moving:
            return
        at_end = value >= bar.maximum() - (SLACK if down else 0)
        self._set_pinned(at_end)
        self._remember()

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
        """What stands at the top of the view is what must not move."""
        top = QPoint(self.content.width() // 2, self.verticalScrollBar().value())
        self._anchor = self.content.childAt(top) or self.content.childAt(top + QPoint(0, 24))
        if self._anchor is not None:
            self._anchor_y = self._place_of(self._anchor) - self.verticalScrollBar().value()

    def _place_of(self, widget: QWidget) -> int:
        return widget.mapTo(self.content, QPoint(0, 0)).y()

    def _keep_place(self) -> None:
        if self.pinned or self._anchor is None:
            return
        if isValid(self._anchor) and self.content.isAncestorOf(self._anchor):
            self._move(self._place_of(self._anchor) - self._anchor_y)
        else:
            self._remember()
