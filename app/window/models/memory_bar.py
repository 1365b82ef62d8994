"""Memory a model needs against what it may use, as one thin bar."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from app.values.model_card import MemorySum
from app.window.drafting.chart import Chart

BAR = 6


class MemoryBar(Chart):
    """Weights solid, caches paler; in the warning colour where it is tight or too much."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Memory")
        self._memory: MemorySum | None = None

    def show_memory(self, memory: MemorySum | None) -> None:
        """Show this sum."""
        self._memory = memory
        self.refresh()

    def words(self) -> str:
        """The sum in words."""
        return self._memory.words if self._memory is not None else ""

    def height_wanted(self) -> int:
        """Only the bar."""
        return BAR

    def draw(self, painter: QPainter) -> None:
        """Track, weights, caches."""
        track = QRectF(0, 0, self.width(), BAR)
        painter.setBrush(self.colour("line"))
        painter.drawRoundedRect(track, BAR / 2, BAR / 2)
        if self._memory is None or not self._memory.usable:
            return
        colours = {"fits": "accent", "tight": "warning"}
        colour = colours.get(self._memory.fit, "error")
        needed = self._memory.weights + self._memory.short_cache
        scale = self.width() / max(self._memory.usable, needed)
        both = QRectF(0, 0, needed * scale, BAR)
        painter.setBrush(self.colour(colour, 0.5))
        painter.drawRoundedRect(both, BAR / 2, BAR / 2)
        painter.setBrush(self.colour(colour))
        both.setWidth(max(BAR, self._memory.weights * scale))
        painter.drawRoundedRect(both, BAR / 2, BAR / 2)
