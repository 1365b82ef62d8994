"""A box to tick, with our own tick in the colours of the theme."""

from PySide6.QtCore import QRect
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton

from app.window.icons import pixmap
from app.window.theme import Theme, TypeSizes


class Tick(QCheckBox):
    """Signal `clicked`(bool), as a QCheckBox has it."""

    def __init__(self, words: str, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__(words)
        self.setAccessibleName(words)
        self._theme, self._sizes = theme, sizes

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._theme, self._sizes = theme, sizes
        self.update()

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
        size = min(box.width(), box.height()) - 2
        picture = pixmap("check", self._theme.on_accent, size, self.devicePixelRatioF())
        place = QRect(0, 0, size, size)
        place.moveCenter(box.center())
        painter = QPainter(self)
        painter.drawPixmap(place, picture)
        painter.end()
