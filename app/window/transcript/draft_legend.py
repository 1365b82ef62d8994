"""What the tints of drafted words mean."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.theme import DEEPEST_TINT
from app.window.transcript.look import Look
from app.window.transcript.tint_rects import RADIUS

TITLE = "Drafted at depth"
REST = "plain: the model itself"
GAP = 8


class DraftLegend(QWidget):
    """A line with one tinted sample for each depth that can be told apart."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(f"{TITLE} 1 to {DEEPEST_TINT}: a deeper tint; {REST}")
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        """Take other colours and sizes."""
        self._look = look
        self.setFont(look.small_font())
        self.updateGeometry()
        self.update()

    @staticmethod
    def samples() -> list[str]:
        """The numbers on the samples."""
        return [str(d) if d < DEEPEST_TINT else f"{d}+" for d in range(1, DEEPEST_TINT + 1)]

    def _sample_width(self) -> int:
        return QFontMetrics(self.font()).horizontalAdvance("4+") + 10

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """One line."""
        metrics = QFontMetrics(self.font())
        words = metrics.horizontalAdvance(TITLE) + metrics.horizontalAdvance(REST)
        samples = DEEPEST_TINT * (self._sample_width() + 4)
        return QSize(words + samples + 2 * GAP, metrics.height() + 12)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Words, samples, words."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = QFontMetrics(self.font())
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        box = QRectF(0, 0, metrics.horizontalAdvance(TITLE) + GAP, self.height())
        painter.setPen(QColor(self._look.theme.muted))
        painter.drawText(box, middle, TITLE)
        left, high = box.right(), metrics.height() + 2
        for depth, words in enumerate(self.samples(), 1):
            sample = QRectF(left, (self.height() - high) / 2, self._sample_width(), high)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._look.tint(depth))
            painter.drawRoundedRect(sample, RADIUS, RADIUS)
            painter.setPen(QColor(self._look.theme.text))
            painter.drawText(sample, Qt.AlignmentFlag.AlignCenter, words)
            left = sample.right() + 4
        painter.setPen(QColor(self._look.theme.muted))
        rest = QRectF(left + GAP - 4, 0, self.width() - left, self.height())
        painter.drawText(rest, middle, REST)
