"""The line that opens and closes a model's thinking."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.window.controls.icon_button import icon_size
from app.window.icons import icon
from app.window.transcript.look import Look

HEIGHT = 28
GAP = 6


class ThinkingHead(QAbstractButton):
    """Checked while the thinking is on show."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_words(self, words: str, look: Look) -> None:
        """Say this."""
        self._look = look
        self.setFont(look.interface_font())
        self.setText(words)
        self.setAccessibleName(words)
        self.updateGeometry()
        self.update()

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """The chevron and the words."""
        words = QFontMetrics(self.font()).horizontalAdvance(self.text())
        return QSize(icon_size(self._look.sizes) + GAP + words + 8, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Muted, darker under the pointer, with a line around it for the keyboard."""
        painter, theme = QPainter(self), self._look.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = theme.text if self.underMouse() else theme.muted
        size = icon_size(self._look.sizes)
        name = "chevron_down" if self.isChecked() else "chevron_right"
        top = (self.height() - size) // 2
        icon(name, colour, size).paint(painter, QRect(0, top, size, size))
        painter.setPen(QColor(colour))
        words = QRect(size + GAP, 0, self.width() - size - GAP, self.height())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, self.text())
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 1))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 2.5, -0.5, -2.5), 4, 4)
