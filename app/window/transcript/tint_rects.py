"""Where drafted words stand on the page: one rounded box for each, line by line."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QPainter

from app.window.transcript.drafted_spans import Tint
from app.window.transcript.look import Look
from app.window.transcript.placed_blocks import PlacedBlock, boxes_of

RADIUS = 3.0


class TintBox(NamedTuple):
    """A box in the coordinates of the blocks it came from."""

    rect: QRectF
    depth: int


def boxes(blocks: Iterable[PlacedBlock], tints: Sequence[Tint]) -> list[TintBox]:
    """Boxes of those tints that lie in `blocks`; both in order, positions of the document.

    Spaces at either end of a tint, and the ends of lines in it, have no box.
    """
    found: list[TintBox] = []
    index = 0
    for placed_block in blocks:
        block = placed_block.block
        start, text = block.position(), block.text()
        end = start + block.length()
        while index < len(tints) and tints[index].start < end:
            tint = tints[index]
            first, last = _without_spaces(text, max(0, tint.start - start), tint.end - start)
            if first < last:
                found += [TintBox(box, tint.depth) for box in boxes_of(placed_block, first, last)]
            if tint.end > end:
                break
            index += 1
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


def paint(painter: QPainter, found: Sequence[TintBox], area: QRectF, look: Look) -> None:
    """Draw the boxes that touch `area`."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    brushes = {depth: QBrush(look.tint(depth)) for depth in {box.depth for box in found}}
    for rect, depth in found:
        if rect.intersects(area):
            painter.setBrush(brushes[depth])
            painter.drawRoundedRect(rect, RADIUS, RADIUS)
