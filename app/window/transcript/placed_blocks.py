"""Where the paragraphs of a document are drawn, and the boxes of ranges of their text."""

from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QTextBlock, QTextDocument, QTextLine

OVERHANG = 1.0
"""Pixels a box is wider than its text on either side."""


class PlacedBlock(NamedTuple):
    """A paragraph or line of code, and where its top left corner is drawn."""

    block: QTextBlock
    corner: QPointF


def placed(document: QTextDocument) -> Iterator[PlacedBlock]:
    """All blocks of a rich text document; it must be laid out."""
    layout, block = document.documentLayout(), document.begin()
    while block.isValid():
        yield PlacedBlock(block, layout.blockBoundingRect(block).topLeft())
        block = block.next()


def boxes_of(placed_block: PlacedBlock, start: int, end: int) -> Iterator[QRectF]:
    """Boxes around block text start to end, one for each line it stands on."""
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
    """PySide6 returns the place and the position it belongs to."""
    found = line.cursorToX(position)
    assert isinstance(found, tuple)
    return float(found[0])
