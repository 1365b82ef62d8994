"""A side's speed as a bar, beside the faster side's."""

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter

from app.window.drafting.chart import Chart

HEIGHT = 6


class SpeedBar(Chart):
    """Full for the faster side; the figure stands above it in words."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0
        self._words = ""
        self._is_strong = True

    def show_share(self, share: float, words: str, is_strong: bool) -> None:
        """share: of the faster side's speed, 0 to 1. is_strong: in the accent colour."""
        self._share, self._words, self._is_strong = min(max(share, 0.0), 1.0), words, is_strong
        self.refresh()

    def words(self) -> str:
        """As it was given."""
        return self._words

    def height_wanted(self) -> int:
        """A thin line."""
        return HEIGHT

    def draw(self, painter: QPainter) -> None:
        """Track and bar."""
        radius = HEIGHT / 2
        painter.setBrush(self.colour("line"))
        painter.drawRoundedRect(QRectF(self.rect()), radius, radius)
        if self._share:
            bar = QRectF(self.rect())
            bar.setWidth(max(float(HEIGHT), bar.width() * self._share))
            painter.setBrush(self.colour("accent" if self._is_strong else "muted"))
            painter.drawRoundedRect(bar, radius, radius)

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as there is room."""
        return QSize(160, HEIGHT)
