"""Geometry of text ranges, and what is painted under them: tints, quote bars, code boxes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QPainter,
    QTextBlock,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextLine,
    QTextListFormat,
)

from app.window.look import look, mixed
from app.window.transcript.drafted_spans import Tint, units
from app.window.transcript.reader import QUOTE_STEP

OVERHANG = 1.0
"""Pixels that a box extends beyond its text at either side."""


class PlacedBlock(NamedTuple):
    """A text block, and the position of its top left corner."""

    block: QTextBlock
    corner: QPointF


def placed(document: QTextDocument) -> Iterator[PlacedBlock]:
    """Return the blocks of a document that is laid out."""
    layout, block = document.documentLayout(), document.begin()
    while block.isValid():
        yield PlacedBlock(block, layout.blockBoundingRect(block).topLeft())
        block = block.next()


def boxes_of(placed_block: PlacedBlock, start: int, end: int) -> Iterator[QRectF]:
    """Return the rectangles of a range in a block, one for each line."""
    layout = placed_block.block.layout()
    line = layout.lineForTextPosition(start)
    while line.isValid() and line.textStart() < end:
        yield _on_line(line, start, end).translated(placed_block.corner)
        following = line.lineNumber() + 1
        if following >= layout.lineCount():
            return
        line = layout.lineAt(following)


def _on_line(line: QTextLine, start: int, end: int) -> QRectF:
    last = line.textStart() + line.textLength()
    left = _x(line, max(start, line.textStart()))
    right = _x(line, min(end, last))
    box = QRectF(left, line.y(), right - left, line.ascent() + line.descent())
    return box.normalized().adjusted(-OVERHANG, 0, OVERHANG, 0)


def _x(line: QTextLine, position: int) -> float:
    """Return the x of a position; PySide6 returns a pair."""
    found = line.cursorToX(position)
    assert isinstance(found, tuple)
    return float(found[0])


RADIUS = 3.0


class TintBox(NamedTuple):
    """A rectangle in the coordinates of its blocks."""

    rect: QRectF
    depth: int


class TintRects:
    """Rectangles of tints in a growing document; those of unchanged blocks are cached."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], list[TintBox]] = {}

    def boxes(self, blocks: Iterable[PlacedBlock], tints: Sequence[Tint]) -> list[TintBox]:
        """Return the rectangles of tints in `blocks`; both are in order, as document positions.

        Spaces and line ends at either end of a tint have none.
        """
        kept, self._kept = self._kept, {}
        for placed_block in blocks:
            block, corner = placed_block
            first = bisect_right(tints, block.position(), key=itemgetter(1))
            last = bisect_left(tints, block.position() + block.length(), first, key=itemgetter(0))
            if first < last:
                lines = block.layout().boundingRect().getRect()
                inside = tints[first:last]
                paragraph = (block.text(), block.position(), corner.toTuple(), lines, *inside)
                self._kept[paragraph] = kept.get(paragraph) or _boxes_in(placed_block, inside)
        return [box for found in self._kept.values() for box in found]


def _boxes_in(placed_block: PlacedBlock, tints: Iterable[Tint]) -> list[TintBox]:
    block = placed_block.block
    found, text, start = [], block.text(), block.position()
    for tint in tints:
        first, last = _without_spaces(text, max(0, tint.start - start), tint.end - start)
        if first < last:
            found += [TintBox(box, tint.depth) for box in boxes_of(placed_block, first, last)]
    return found


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim spaces of a range, except in a text with wide characters: see in_utf16."""
    if not text.isascii():
        return start, min(end, units(text))
    words = text[start:end]
    start += len(words) - len(words.lstrip())
    return start, start + len(words.strip())


def paint_tints(painter: QPainter, found: Sequence[TintBox], area: QRectF) -> None:
    """Draw the rectangles that intersect `area`."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    now = look()
    brushes = {depth: QBrush(now.tint(depth)) for depth in {box.depth for box in found}}
    for rect, depth in found:
        if rect.intersects(area):
            painter.setBrush(brushes[depth])
            painter.drawRoundedRect(rect, RADIUS, RADIUS)


BAR = 3
WIDE = 250
"""Percent of a space between bullet and text."""
NO_MARKER = QTextBlockFormat.MarkerType.NoMarker
BULLETS = (
    QTextListFormat.Style.ListDisc,
    QTextListFormat.Style.ListCircle,
    QTextListFormat.Style.ListSquare,
)
CODE_OVERHANG = 2


class PageMarks:
    """Bars beside quotes and boxes behind code of a document."""

    def __init__(self, blocks: Sequence[PlacedBlock], family: str) -> None:
        """family: font family of code."""
        places = range(len(blocks))
        self._bars = [bar for at in places for bar in quote_bars(blocks[at : at + 2])]
        self._boxes = list(code_boxes(blocks, family))

    def paint(self, painter: QPainter) -> None:
        """Draw bars and boxes."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        theme = look().theme
        for bar in self._bars:  # whole pixels: where two bars meet, no seam is seen
            painter.fillRect(bar.toAlignedRect(), QColor(mixed(theme.line, theme.muted, 0.25)))
        painter.setBrush(QColor(theme.bubble))
        for box in self._boxes:
            painter.drawRoundedRect(box, 4, 4)


def quote_bars(blocks: Sequence[PlacedBlock]) -> Iterator[QRectF]:
    """Return a bar for each quote level of the first block, down to where the quote ends.

    Bars are at the side where lines begin.
    """
    block, corner = blocks[0]
    following = blocks[1] if len(blocks) > 1 else blocks[0]
    lines = block.layout().boundingRect()
    for level in range(_levels(block)):
        is_joined = following is not blocks[0] and level < _levels(following.block)
        height = following.corner.y() - corner.y() if is_joined else lines.height()
        step = QUOTE_STEP * (_levels(block) - level)
        edge = lines.right() + step - BAR if _is_from_right(block) else lines.x() - step
        yield QRectF(corner.x() + edge, corner.y(), BAR, height)


def soften_bullets(document: QTextDocument, pixels: int) -> None:
    """Make list bullets smaller and move them away from the text.

    Qt draws them in the font of the block. pixels: of the text's font.
    """
    first = block = document.begin()
    while block.isValid():
        style = block.textList().format().style() if block.textList() else None
        if style in BULLETS and block.blockFormat().marker() == NO_MARKER:
            form = block.charFormat()
            form.setProperty(QTextFormat.Property.FontPixelSize, pixels)
            form.setFontStretch(WIDE)
            QTextCursor(block).setBlockCharFormat(form)
        block = block.next()
    # Qt forgets the lines of a document's first block when its format alone has changed
    document.markContentsDirty(first.position(), first.length())


def set_in_from_right(document: QTextDocument) -> None:
    """Indent quotes in right-to-left text at the right, which HTML cannot."""
    block = document.begin()
    while block.isValid():
        form = block.blockFormat()
        if _levels(block) and _is_from_right(block) and form.leftMargin():
            form.setRightMargin(form.leftMargin())
            form.setLeftMargin(0)
            QTextCursor(block).setBlockFormat(form)
        block = block.next()


def _is_from_right(block: QTextBlock) -> bool:
    return block.textDirection() == Qt.LayoutDirection.RightToLeft


def code_boxes(blocks: Iterable[PlacedBlock], family: str) -> Iterator[QRectF]:
    """Return boxes behind text in the font family of code; blocks of code have their own."""
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
    """Return the number of quotes around a block."""
    form = block.blockFormat()
    if not block.isValid() or not form.hasProperty(QTextFormat.Property.BlockQuoteLevel):
        return 0
    return max(1, round((form.leftMargin() or form.rightMargin()) / QUOTE_STEP))
