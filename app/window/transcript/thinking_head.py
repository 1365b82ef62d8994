"""The line that opens and closes a model's thinking."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.window.controls.icons import Colour, paint_icon
from app.window.look import look

HEIGHT = 28
GAP = 6


class ThinkingHead(QAbstractButton):
    """Checked while the thinking is on show."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """The chevron and the words."""
        words = QFontMetrics(self.font()).horizontalAdvance(self.text())
        return QSize(look().icon_size + GAP + words + 8, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Muted, darker under the pointer, with a line around it for the keyboard."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour: Colour = "text" if self.underMouse() else "muted"
        size = look().icon_size
        name = "chevron_down" if self.isChecked() else "chevron_right"
        top = (self.height() - size) // 2
        paint_icon(painter, QRect(0, top, size, size), name, colour)
        painter.setPen(look().colour(colour))
        words = QRect(size + GAP, 0, self.width() - size - GAP, self.height())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, self.text())
        if self.hasFocus():
            painter.setPen(QPen(look().colour("accent"), 1))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 2.5, -0.5, -2.5), 4, 4)
