"""Tokens that each recent pass of the model gave, newest at the right."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from app.window.drafting.chart import Chart

BAR, GAP = 3, 1


class PassBars(Chart):
    """A thin bar a pass; what the model's own token gives is fainter than what drafts added."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: tuple[int, ...] = ()

    def show_tokens(self, tokens: Sequence[int]) -> None:
        """Tokens by pass, oldest first."""
        self._tokens = tuple(tokens)
        self.refresh()

    def words(self) -> str:
        """The mean in words."""
        if not self._tokens:
            return "No pass yet."
        mean = sum(self._tokens) / len(self._tokens)
        return f"The last {len(self._tokens)} passes gave {mean:.2f} tokens each."

    def height_wanted(self) -> int:
        """Nine tokens at most."""
        return 56

    def draw(self, painter: QPainter) -> None:
        """Bars from the right edge."""
        if not self._tokens:
            painter.setPen(self.colour("muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, self.words())
            return
        unit = (self.height() - 4) / max(4, *self._tokens)
        fitting = self._tokens[-(self.width() // (BAR + GAP)) :]
        left = self.width() - len(fitting) * (BAR + GAP)
        for n, tokens in enumerate(fitting):
            x = left + n * (BAR + GAP)
            base = QRectF(x, self.height() - unit, BAR, unit)
            painter.setBrush(self.colour("accent", 0.35))
            painter.drawRect(base)
            if tokens > 1:
                painter.setBrush(self.colour("accent"))
                top = QRectF(x, self.height() - tokens * unit, BAR, (tokens - 1) * unit - 1)
                painter.drawRect(top)
