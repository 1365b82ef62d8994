"""What the tints of drafted words mean."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.look import DEEPEST_TINT, look
from app.window.transcript.tint_rects import RADIUS

TITLE = "Drafted at depth"
REST = "plain: the model itself"
GAP = 8


class DraftLegend(QWidget):
    """A line with one tinted sample for each depth that can be told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(f"{TITLE} 1 to {DEEPEST_TINT}: a deeper tint; {REST}")

    @staticmethod
    def samples() -> list[str]:
        """The numbers on the samples."""
        return [str(d) if d < DEEPEST_TINT else f"{d}+" for d in range(1, DEEPEST_TINT + 1)]

    def _sample_width(self) -> int:
        return QFontMetrics(look().small_font()).horizontalAdvance("4+") + 10

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """One line."""
        metrics = QFontMetrics(look().small_font())
        words = metrics.horizontalAdvance(TITLE) + metrics.horizontalAdvance(REST)
        samples = DEEPEST_TINT * (self._sample_width() + 4)
        return QSize(words + samples + 2 * GAP, metrics.height() + 12)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Words, samples, words."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        now = look()
        painter.setFont(now.small_font())
        metrics = QFontMetrics(now.small_font())
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        box = QRectF(0, 0, metrics.horizontalAdvance(TITLE) + GAP, self.height())
        painter.setPen(now.colour("muted"))
        painter.drawText(box, middle, TITLE)
        left, high = box.right(), metrics.height() + 2
        for depth, words in enumerate(self.samples(), 1):
            sample = QRectF(left, (self.height() - high) / 2, self._sample_width(), high)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(now.tint(depth))
            painter.drawRoundedRect(sample, RADIUS, RADIUS)
            painter.setPen(now.colour("text"))
            painter.drawText(sample, Qt.AlignmentFlag.AlignCenter, words)
            left = sample.right() + 4
        painter.setPen(now.colour("muted"))
        rest = QRectF(left + GAP - 4, 0, self.width() - left, self.height())
        painter.drawText(rest, middle, REST)
