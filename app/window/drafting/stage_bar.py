"""Where the milliseconds of a round go: draft, verify, accept, host."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from app.window.drafting.chart import Chart
from app.window.drafting.drafting_values import Stages


class StageBar(Chart):
    """One bar in four shades, the figures below it."""

    def __init__(self) -> None:
        super().__init__()
        self._stages = Stages()

    def show_stages(self, stages: Stages) -> None:
        """Show these sums."""
        self._stages = stages
        self.refresh()

    def _parts(self) -> tuple[tuple[str, float, float], ...]:
        stages = self._stages
        return (
            ("draft", stages.draft_ms, 0.55),
            ("verify", stages.verify_ms, 1.0),
            ("accept", stages.accept_ms, 0.4),
            ("host", stages.host_ms, 0.25),
        )

    def words(self) -> str:
        """Shares in words."""
        total = self._stages.total_ms
        if not total:
            return "No round yet."
        parts = (f"{name} {100 * ms / total:.0f} % ({ms:,.0f} ms)" for name, ms, _ in self._parts())
        return ", ".join(parts) + "."

    def height_wanted(self) -> int:
        """The bar and two lines of text."""
        return 52

    def draw(self, painter: QPainter) -> None:
        """The bar, then each stage's share under the next."""
        total = self._stages.total_ms
        if not total:
            painter.setPen(self.colour("muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, self.words())
            return
        x = 0.0
        for _, milliseconds, opacity in self._parts():
            width = self.width() * milliseconds / total
            painter.setBrush(self.colour("accent", opacity))
            painter.drawRect(QRectF(x, 4, max(0.0, width - 1), 8))
            x += width
        painter.setPen(self.colour("muted"))
        painter.drawText(QRectF(0, 18, self.width(), 34), Qt.TextFlag.TextWordWrap, self.words())
