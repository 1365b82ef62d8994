"""What charts share: colours of the look of now, a small font, and words for screen readers."""

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
    """A picture painted from values; where there are none, the words say why.

    Subclasses paint in `draw` and put the picture in words in `words`, which a screen reader says
    as those of a label.
    """

    def __init__(self, lines: float) -> None:
        """lines: height in lines of the small font."""
        super().__init__()
        self._lines, self.is_empty = lines, True
        self._worn = look()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def words(self) -> str:
        """The chart in a sentence."""
        return ""

    def refresh(self, is_empty: bool) -> None:
        """After new values: paint, and tell assistive technology."""
        self.is_empty = is_empty
        self.setAccessibleName(self.words())
        self.setFixedHeight(self.height_at(self.width()))
        self.update()

    @property
    def metrics(self) -> QFontMetricsF:
        """Metrics of the font that charts are written in."""
        return QFontMetricsF(look().small_font())

    def height_wanted(self) -> int:
        """Pixels the picture needs now."""
        return ceil(self._lines * self.metrics.height())

    def height_at(self, width: int) -> int:
        """Pixels the picture needs at this width, or the words that stand for it."""
        return self.words_height(width) if self.is_empty else self.height_wanted()

    def words_height(self, width: int) -> int:
        """Pixels the words need in lines of this width."""
        room = QRectF(0, 0, width, 0)
        flags = Qt.TextFlag.TextWordWrap
        return ceil(self.metrics.boundingRect(room, flags, self.words()).height())

    def draw(self, painter: QPainter) -> None:
        """Paint into the widget's rectangle."""

    def colour(self, name: str, opacity: float = 1.0) -> QColor:
        """The theme's colour of this name, while it is painted."""
        return self._worn.colour(name, opacity)

    def draw_line(self, painter: QPainter, points: Sequence[QPointF]) -> None:
        """The values."""
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
    """Of a bar: how far it reaches, 0 to 1, and in which of the theme's colours."""

    share: float
    colour: str
    opacity: float = 1.0


THIN = 6
"""Pixels a ShareBar is high, and a part of it wide at least."""


class ShareBar(Chart):
    """A thin track with parts of it filled, each over the one before."""

    def __init__(self, name: str) -> None:
        super().__init__(0)
        self._name = name
        self.show_parts("")

    def show_parts(self, words: str, *parts: Part) -> None:
        """Show these; words: what they are, for screen readers."""
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
