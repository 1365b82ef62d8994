"""The line of figures under an answer; a click asks for all of them."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.window.look import look
from app.window.transcript.figures import all_figures, footer_figures
from mlx_engine.values.stats import GenerationStats

SEPARATOR = "  ·  "
HEIGHT = 24


class MessageFooter(QAbstractButton):
    """Shows as many figures as fit; the rest is in the tooltip. Emits `clicked`."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: tuple[str, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_stats(self, stats: GenerationStats) -> None:
        """Show the figures of an answer."""
        self._figures = footer_figures(stats)
        self.setToolTip(all_figures(stats))
        self.setAccessibleName("Figures: " + ", ".join(self._figures))
        self.update()

    def shown(self) -> str:
        """The figures that fit into the width of now."""
        metrics, figures = QFontMetrics(look().small_font()), list(self._figures)
        while len(figures) > 1 and self._width(metrics, figures) > self.width():
            figures.pop()
        return SEPARATOR.join(figures)

    @staticmethod
    def _width(metrics: QFontMetrics, figures: list[str]) -> int:
        return metrics.horizontalAdvance(SEPARATOR.join(figures)) + 4

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """All figures."""
        return QSize(self._width(QFontMetrics(look().small_font()), list(self._figures)), HEIGHT)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """The first figure."""
        return QSize(
            self._width(QFontMetrics(look().small_font()), list(self._figures[:1])), HEIGHT
        )

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Muted text, darker under the pointer, with a line around it for the keyboard."""
        painter = QPainter(self)
        painter.setFont(look().small_font())
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(look().colour("accent"), 1))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setPen(look().colour("text" if self.underMouse() else "muted"))
        area = QRect(2, 0, self.width() - 2, self.height())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, self.shown())
