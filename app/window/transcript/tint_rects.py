"""Where drafted words stand on the page: one rounded box for each, line by line."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QPainter

from app.window.look import look
from app.window.transcript.drafted_spans import Tint
from app.window.transcript.placed_blocks import PlacedBlock, boxes_of

RADIUS = 3.0


class TintBox(NamedTuple):
    """A box in the coordinates of the blocks it came from."""

    rect: QRectF
    depth: int


class _Paragraph(NamedTuple):
    """What the boxes of a block depend on; tints count from its beginning."""

    text: str
    corner: QPointF
    lines: QRectF
    tints: tuple[Tint, ...]


class TintRects:
    """Boxes of a document that grows: paragraphs that stay as they are keep theirs."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Paragraph, list[TintBox]]] = {}

    def boxes(self, blocks: Iterable[PlacedBlock], tints: Sequence[Tint]) -> list[TintBox]:
        """Boxes of those tints that lie in `blocks`; both in order, positions of the document.

        Spaces at either end of a tint, and the ends of lines in it, have no box.
        """
        kept, self._kept = self._kept, {}
        index = 0
        for placed_block in blocks:
            start = placed_block.block.position()
            end = start + placed_block.block.length()
            inside = []
            while index < len(tints) and tints[index].start < end:
                tint = tints[index]
                inside.append(tint._replace(start=max(0, tint.start - start), end=tint.end - start))
                if tint.end > end:
                    break
                index += 1
            if inside:
                paragraph = _paragraph(placed_block, inside)
                before = kept.get(start)
                same = before is not None and before[0] == paragraph
                found = before[1] if before and same else _boxes_in(placed_block, paragraph)
                self._kept[start] = paragraph, found
        return [box for _, found in self._kept.values() for box in found]


def _paragraph(placed_block: PlacedBlock, tints: list[Tint]) -> _Paragraph:
    block, corner = placed_block
    return _Paragraph(block.text(), corner, block.layout().boundingRect(), tuple(tints))


def _boxes_in(placed_block: PlacedBlock, paragraph: _Paragraph) -> list[TintBox]:
    found = []
    for tint in paragraph.tints:
        first, last = _without_spaces(paragraph.text, tint.start, tint.end)
        if first < last:
            found += [TintBox(box, tint.depth) for box in boxes_of(placed_block, first, last)]
    return found


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without spaces at its ends; a text with wide letters keeps them: see in_utf16."""
    end = min(end, len(text.encode("utf-16-le")) // 2)
    if not text.isascii():
        return start, end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def paint(painter: QPainter, found: Sequence[TintBox], area: QRectF) -> None:
    """Draw the boxes that touch `area`."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    now = look()
    brushes = {depth: QBrush(now.tint(depth)) for depth in {box.depth for box in found}}
    for rect, depth in found:
        if rect.intersects(area):
            painter.setBrush(brushes[depth])
            painter.drawRoundedRect(rect, RADIUS, RADIUS)
