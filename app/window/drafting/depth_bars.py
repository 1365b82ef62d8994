"""Acceptance per depth: a bar each, with its share and exact counts beside it."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from app.window.drafting.chart import Chart
from app.window.drafting.drafting_values import DepthRow

ROW = 24
LABEL, FIGURES = 28, 128


class DepthBars(Chart):
    """One row a depth; without rows a sentence says why."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[DepthRow, ...] = ()

    def show_rows(self, rows: Sequence[DepthRow]) -> None:
        """Show these depths."""
        self._rows = tuple(rows)
        self.refresh()

    def words(self) -> str:
        """Every row in words."""
        if not self._rows:
            return "Acceptance appears here when tokens are drafted."
        return " ".join(
            f"Depth {row.depth}: {row.accepted} of {row.drafted} accepted, {100 * row.share:.0f} %."
            for row in self._rows
        )

    def height_wanted(self) -> int:
        """A row a depth."""
        return ROW * max(1, len(self._rows))

    def draw(self, painter: QPainter) -> None:
        """Label, bar on its track, figures."""
        if not self._rows:
            painter.setPen(self.colour("muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, self.words())
            return
        for n, row in enumerate(self._rows):
            self._draw_row(painter, row, n * ROW)

    def _draw_row(self, painter: QPainter, row: DepthRow, top: int) -> None:
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(self.colour("muted"))
        painter.drawText(QRectF(0, top, LABEL, ROW), middle, f"d{row.depth}")
        track = QRectF(LABEL, top + 8, max(20, self.width() - LABEL - FIGURES), ROW - 16)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.colour("line"))
        painter.drawRoundedRect(track, 4, 4)
        if row.accepted:
            bar = QRectF(track)
            bar.setWidth(max(8.0, track.width() * row.share))
            painter.setBrush(self.colour("accent"))
            painter.drawRoundedRect(bar, 4, 4)
        painter.setPen(self.colour("text"))
        figures = QRectF(self.width() - FIGURES + 8, top, FIGURES - 8, ROW)
        right = Qt.AlignmentFlag.AlignRight
        painter.drawText(figures, middle, f"{100 * row.share:.0f} %")
        painter.setPen(self.colour("muted"))
        painter.drawText(figures, middle | right, f"{row.accepted}/{row.drafted}")
