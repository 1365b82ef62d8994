"""Acceptance of the recent rounds as a thin line, its last value as a dot."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from app.window.drafting.chart import Chart

SMOOTHED = 8
"""Rounds in the running mean: single rounds only zig-zag."""


class Sparkline(Chart):
    """Values between 0 and 1, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self._values: tuple[float, ...] = ()

    def show_values(self, values: Sequence[float]) -> None:
        """Show their running mean."""
        self._values = running_mean(values, SMOOTHED)
        self.refresh()

    def words(self) -> str:
        """The newest value in words."""
        if not self._values:
            return "No draft has been checked yet."
        return f"{100 * self._values[-1]:.0f} % of recently drafted tokens were accepted."

    def draw(self, painter: QPainter) -> None:
        """The line, and a faint base line."""
        left, right = 2.0, self.width() - 4.0
        top, bottom = 3.0, self.height() - 3.0
        painter.setPen(QPen(self.colour("line"), 1))
        painter.drawLine(QPointF(left, bottom), QPointF(right, bottom))
        if not self._values:
            return
        step = (right - left) / max(1, len(self._values) - 1)
        points = [
            QPointF(left + n * step, bottom - value * (bottom - top))
            for n, value in enumerate(self._values)
        ]
        painter.setPen(QPen(self.colour("accent"), 1.25))
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.colour("accent"))
        painter.drawEllipse(points[-1], 2.5, 2.5)

    def height_wanted(self) -> int:
        """A line of text high."""
        return 24

    def sizeHint(self) -> QSize:  # noqa: N802
        """Short enough for the status strip."""
        return QSize(96, self.height_wanted())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Still readable."""
        return QSize(48, self.height_wanted())


def running_mean(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Each value averaged with up to `count` - 1 before it."""
    means: list[float] = []
    total = 0.0
    for n, value in enumerate(values):
        total += value - (values[n - count] if n >= count else 0.0)
        means.append(total / min(n + 1, count))
    return tuple(means)
