"""A box to tick, with our own tick in the colours of the theme."""

from PySide6.QtCore import QRect
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton

from app.window.controls.icons import paint_icon


class Tick(QCheckBox):
    """Signal `clicked`(bool), as a QCheckBox has it."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.setAccessibleName(words)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The style's own, and our tick."""
        super().paintEvent(event)
        if not self.isChecked():
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box: QRect = self.style().subElementRect(
            QStyle.SubElement.SE_CheckBoxIndicator, option, self
        )
        painter = QPainter(self)
        paint_icon(painter, box.adjusted(1, 1, -1, -1), "check", "on_accent")
        painter.end()
