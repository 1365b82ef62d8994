"""Measured cost of a pass of 1 to 9 rows, the point in use, and where drafting breaks even."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from app.window.drafting.chart import Chart

LEFT, BOTTOM, TOP = 34, 22, 8


class CostCurve(Chart):
    """Milliseconds by rows as dots on a line.

    The dashed line is plain decoding's price for as many tokens: a round below it would pay if
    every draft stood.
    """

    def __init__(self) -> None:
        super().__init__()
        self._costs: tuple[float, ...] = ()
        self._rows_in_use = 1

    def show_costs(self, verify_ms: Sequence[float], rows_in_use: int) -> None:
        """verify_ms[r-1]: milliseconds of a pass of r rows; rows_in_use from 1."""
        self._costs = tuple(verify_ms)
        self._rows_in_use = rows_in_use
        self.refresh()

    def words(self) -> str:
        """Costs relative to one row."""
        if not self._costs:
            return "Pass costs are measured when drafting first chooses its depth."
        one = self._costs[0]
        rest = ", ".join(f"{n} rows {cost / one:.2f}" for n, cost in enumerate(self._costs, 1))
        return f"Cost of a pass relative to one row ({one:.1f} ms): {rest}."

    def height_wanted(self) -> int:
        """Room for the curve and its axis."""
        return 132

    def draw(self, painter: QPainter) -> None:
        """Axis, break-even line, curve, dots."""
        if not self._costs:
            painter.setPen(self.colour("muted"))
            painter.drawText(
                self.rect(), Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap, self.words()
            )
            return
        self._draw_axis(painter)
        self._draw_break_even(painter)
        points = [self._point(rows, cost) for rows, cost in enumerate(self._costs, 1)]
        painter.setPen(QPen(self.colour("accent"), 1.25))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))
        for rows, point in enumerate(points, 1):
            in_use = rows == self._rows_in_use
            painter.setBrush(self.colour("accent" if in_use else "page"))
            painter.drawEllipse(point, 4.0 if in_use else 3.0, 4.0 if in_use else 3.0)

    def _highest(self) -> float:
        return max(self._costs) * 1.1

    def _point(self, rows: float, cost: float) -> QPointF:
        across = (rows - 1) / max(1, len(self._costs) - 1)
        up = cost / self._highest()
        width, height = self.width() - LEFT - 10, self.height() - TOP - BOTTOM
        return QPointF(LEFT + across * width, TOP + (1 - up) * height)

    def _draw_axis(self, painter: QPainter) -> None:
        painter.setPen(self.colour("muted"))
        centre = Qt.AlignmentFlag.AlignCenter
        for rows in range(1, len(self._costs) + 1):
            x = self._point(rows, 0).x()
            painter.drawText(QRectF(x - 12, self.height() - BOTTOM + 4, 24, 16), centre, str(rows))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for cost in (self._costs[0], self._costs[-1]):
            y = self._point(1, cost).y()
            painter.drawText(QRectF(0, y - 8, LEFT - 8, 16), right, f"{cost:.0f}")
        painter.setPen(QPen(self.colour("line"), 1))
        painter.drawLine(self._point(1, 0), self._point(len(self._costs), 0))

    def _draw_break_even(self, painter: QPainter) -> None:
        """rows times the cost of one row, up to the top of the chart."""
        one = self._costs[0]
        last = min(float(len(self._costs)), self._highest() / one)
        painter.setPen(QPen(self.colour("muted"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(self._point(1, one), self._point(last, last * one))
