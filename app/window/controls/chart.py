"""Base of charts: theme colours, a small font, and texts for screen readers."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QLabel, QSizePolicy
from typing_extensions import override

from app.window.look import look

WIDTH, NARROWEST = 260, 120
WRAPPED = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap


class Chart(QLabel):
    """A chart painted from values; without values, its words say why.

    Subclasses implement `draw`, and `words`, which is the accessible text.
    """

    def __init__(self, lines: float) -> None:
        """lines: height in lines of the small font."""
        super().__init__()
        self._lines, self.is_empty = lines, True
        self._worn = look()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def words(self) -> str:
        """The chart as a sentence."""
        return ""

    def refresh(self, is_empty: bool) -> None:
        """Repaint after a change of values, and notify assistive technology."""
        self.is_empty = is_empty
        self.setAccessibleName(self.words())
        self.setFixedHeight(self.height_at(self.width()))
        self.update()

    @property
    def metrics(self) -> QFontMetricsF:
        """Metrics of the charts' font."""
        return QFontMetricsF(look().small_font())

    def height_wanted(self) -> int:
        """Height of the chart in pixels."""
        return ceil(self._lines * self.metrics.height())

    def height_at(self, width: int) -> int:
        """Height of the chart at a width, or of the words in its place."""
        return self.words_height(width) if self.is_empty else self.height_wanted()

    def words_height(self, width: int) -> int:
        """Height of the words at a width."""
        room = QRectF(0, 0, width, 0)
        flags = Qt.TextFlag.TextWordWrap
        return ceil(self.metrics.boundingRect(room, flags, self.words()).height())

    def draw(self, painter: QPainter) -> None:
        """Paint into the widget's rectangle."""

    def colour(self, name: str, opacity: float = 1.0) -> QColor:
        """Return a theme colour for painting."""
        return self._worn.colour(name, opacity)

    def draw_line(self, painter: QPainter, points: Sequence[QPointF]) -> None:
        """Draw a line through points."""
        painter.setPen(QPen(self.colour("accent"), 1.25))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))

    # Qt

    @override
    def sizeHint(self) -> QSize:
        return QSize(WIDTH, self.height_at(WIDTH))

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(NARROWEST, self.height())

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setFixedHeight(self.height_at(self.width()))

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.setFixedHeight(self.height_at(self.width()))

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        self._worn = look()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(self._worn.small_font())
            if self.is_empty:
                painter.setPen(self.colour("muted"))
                painter.drawText(self.rect(), WRAPPED, self.words())
            else:
                painter.setPen(Qt.PenStyle.NoPen)
                self.draw(painter)


class Part(NamedTuple):
    """A part of a bar: its end, 0 to 1, and its theme colour."""

    share: float
    colour: str
    opacity: float = 1.0


THIN = 6
"""Height of a ShareBar and least width of a part, in pixels."""


class ShareBar(Chart):
    """A thin bar with coloured parts, each painted over the one before."""

    def __init__(self, name: str) -> None:
        super().__init__(0)
        self._name = name
        self.show_parts("")

    def show_parts(self, words: str, *parts: Part) -> None:
        """Show these parts; words: for screen readers."""
        self._words, self._parts = words, parts
        self.refresh(is_empty=False)

    def words(self) -> str:
        """The name of the bar, and its words as they were given."""
        return ": ".join(filter(None, (self._name, self._words)))

    def height_wanted(self) -> int:
        """As thin at any size of text."""
        return THIN

    def draw(self, painter: QPainter) -> None:
        """The track, then the parts."""
        shown = (part for part in self._parts if part.share > 0)
        for part in (Part(1.0, "line"), *shown):
            filled = QRectF(self.rect())
            filled.setWidth(max(float(THIN), filled.width() * min(part.share, 1.0)))
            painter.setBrush(self.colour(part.colour, part.opacity))
            painter.drawRoundedRect(filled, THIN / 2, THIN / 2)
