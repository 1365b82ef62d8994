"""Tokens a pass gave on average in each answer of the chat, as dots on a line."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from app.window.drafting.chart import Chart

LEFT, TOP, BOTTOM = 34, 8, 8
MOST = 40
"""Newest answers on show."""


class AnswerLine(Chart):
    """Oldest answer at the left; the dashed line is plain decoding, one token a pass."""

    def __init__(self) -> None:
        super().__init__()
        self._means: tuple[float, ...] = ()

    def show_means(self, means: Sequence[float]) -> None:
        """Tokens per pass by answer, oldest first."""
        self._means = tuple(means[-MOST:])
        self.refresh()

    def words(self) -> str:
        """How many answers, their range, the newest."""
        if not self._means:
            return "No answer is complete yet."
        if len(self._means) == 1:
            return f"One answer: {self._means[0]:.2f} tokens a pass."
        low, high = min(self._means), max(self._means)
        return (
            f"The last {len(self._means)} answers: {low:.2f} to {high:.2f} tokens a pass, "
            f"the newest {self._means[-1]:.2f}."
        )

    def height_wanted(self) -> int:
        """Lower than the other charts: a trend, not a measurement."""
        return 64

    def draw(self, painter: QPainter) -> None:
        """Plain decoding's line, the highest mean's figure, line and dots."""
        if not self._means:
            painter.setPen(self.colour("muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, self.words())
            return
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.setPen(self.colour("muted"))
        highest = max(self._means)
        for mean in (1.0, highest) if highest >= 1.5 else (1.0,):
            y = self._point(0, mean).y()
            painter.drawText(QRectF(0, y - 8, LEFT - 8, 16), right, f"{mean:.1f}")
        painter.setPen(QPen(self.colour("muted"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(LEFT, self._point(0, 1.0).y()), self._end(1.0))
        points = [self._point(n, mean) for n, mean in enumerate(self._means)]
        painter.setPen(QPen(self.colour("accent"), 1.25))
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.colour("accent"))
        for point in points:
            painter.drawEllipse(point, 2.5, 2.5)

    def _end(self, mean: float) -> QPointF:
        return QPointF(self.width() - 4.0, self._point(0, mean).y())

    def _point(self, answer: int, mean: float) -> QPointF:
        across = answer / max(1, len(self._means) - 1)
        highest = max(2.0, *self._means)
        up = (mean - 0.8) / (highest - 0.8)
        height = self.height() - TOP - BOTTOM
        return QPointF(LEFT + 6 + across * (self.width() - LEFT - 14), TOP + (1 - up) * height)
