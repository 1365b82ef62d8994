"""What is drawn under the text of a page: bars beside quotes, boxes behind code in a line."""

from collections.abc import Iterable, Iterator, Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QTextBlock, QTextFormat

from app.window.look import look, mixed
from app.window.transcript.placed_blocks import PlacedBlock, boxes_of
from app.window.transcript.reader import QUOTE_STEP

BAR = 3
CODE_OVERHANG = 2


class PageMarks:
    """The marks of one laid out document; made anew when it changes."""

    def __init__(self, blocks: Sequence[PlacedBlock], family: str, has_quotes: bool) -> None:
        """family: the font of code."""
        self._bars = list(quote_bars(blocks)) if has_quotes else []
        self._boxes = list(code_boxes(blocks, family))

    def paint(self, painter: QPainter) -> None:
        """Draw them."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        theme = look().theme
        painter.setBrush(QColor(mixed(theme.line, theme.muted, 0.25)))
        for bar in self._bars:
            painter.drawRoundedRect(bar, 1.5, 1.5)
        painter.setBrush(QColor(theme.bubble))
        for box in self._boxes:
            painter.drawRoundedRect(box, 4, 4)


def quote_bars(blocks: Iterable[PlacedBlock]) -> Iterator[QRectF]:
    """A bar for each level of each quoted paragraph, without gaps between paragraphs."""
    for block, corner in blocks:
        levels = min(_levels(block), _levels(block.next()) or _levels(block))
        height = block.layout().boundingRect().height()
        gap = block.blockFormat().bottomMargin()
        for level in range(_levels(block)):
            joined = gap if level < levels and _levels(block.next()) else 0
            yield QRectF(QUOTE_STEP * level, corner.y(), BAR, height + joined)


def code_boxes(blocks: Iterable[PlacedBlock], family: str) -> Iterator[QRectF]:
    """Boxes behind words in the font family of code; blocks that are all code have their own."""
    for placed_block in blocks:
        block = placed_block.block
        if block.blockFormat().background().style().value:
            continue
        fragments = block.begin()
        while not fragments.atEnd():
            fragment = fragments.fragment()
            if fragment.charFormat().fontFamilies() == [family]:
                start = fragment.position() - block.position()
                for box in boxes_of(placed_block, start, start + fragment.length()):
                    yield box.adjusted(-CODE_OVERHANG + 1, 0, CODE_OVERHANG - 1, 0)
            fragments += 1


def _levels(block: QTextBlock) -> int:
    """How many quotes a paragraph stands in."""
    form = block.blockFormat()
    if not block.isValid() or not form.hasProperty(QTextFormat.Property.BlockQuoteLevel):
        return 0
    return max(1, round(form.leftMargin() / QUOTE_STEP))
