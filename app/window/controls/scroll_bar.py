"""Scroll bars over the content, where the system has none of its own."""

import sys

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QAbstractScrollArea, QScrollBar
from typing_extensions import override

SYSTEM_HAS_THEM = sys.platform == "darwin"
SHOWN_MS = 1200
"""A bar is seen for so long after the content moved, or the pointer came to it."""


def overlay_bar(area: QAbstractScrollArea) -> None:
    """Let an area show its vertical scroll bar over its content instead of beside it."""
    if not SYSTEM_HAS_THEM:
        _OverlayBar(area)


class _OverlayBar(QScrollBar):
    """Moves with the area's own bar, which stays hidden and in charge: of keys, wheel and range."""

    def __init__(self, area: QAbstractScrollArea) -> None:
        super().__init__(Qt.Orientation.Vertical, area)
        self._area, self._own = area, area.verticalScrollBar()
        self._rest = QTimer(self, interval=SHOWN_MS, singleShot=True)
        self._rest.timeout.connect(self.update)
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.installEventFilter(self)
        area.viewport().installEventFilter(self)  # sized after the area itself
        self._own.rangeChanged.connect(self._fit)
        self._own.valueChanged.connect(self._follow)
        self.actionTriggered.connect(lambda _: self._own.setValue(self.sliderPosition()))
        self._fit()

    def _fit(self) -> None:
        """Lie over the right edge of what is scrolled, if there is anything to scroll."""
        own, view = self._own, self._area.viewport().geometry()
        width = self.sizeHint().width()
        self.setGeometry(view.right() + 1 - width, view.top(), width, view.height())
        self.setPageStep(view.height())  # its own is set after its range
        self.setSingleStep(own.singleStep())
        self.setRange(own.minimum(), own.maximum())
        self.setValue(own.value())
        self.setVisible(own.maximum() > own.minimum())

    def _follow(self, value: int) -> None:
        self.setValue(value)
        if value < self._own.maximum():  # else it may follow an answer that grows
            self._flash()

    def _flash(self) -> None:
        self._rest.start()
        self.update()

    # Qt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fit()
        elif event.type() == QEvent.Type.Enter:
            self._flash()
        return super().eventFilter(watched, event)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        if self._rest.isActive() or self.underMouse() or self.isSliderDown():
            super().paintEvent(event)
