"""Paints rows of the list of chats: headings, folders, titles with search snippets."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QPainter,
    QPainterStateGuard,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget
from typing_extensions import override

from app.values.chats import ListedChat, TextRange
from app.window.controls.icons import paint_icon
from app.window.language import number, said, tr
from app.window.look import TypeSizes, look
from app.window.sidebar.chat_list_model import ANSWERING_ROLE, ROW_ROLE, TARGET_ROLE, Row
from app.window.transcript.drafted_spans import units

Index = QModelIndex | QPersistentModelIndex
SIDE, INSET, RADIUS = 8, 10, 6
TITLE_PADDING, HEADING_TOP, HEADING_BOTTOM = 15, 10, 4
RING, FRAMES = 12, 15
"""The ring beside a chat that is being answered: pixels, and frames of a turn."""
MENU_BUTTON = 22
CHEVRON, STEP_IN = 12, 16
TITLE_CHARACTERS = 100


class ChatDelegate(QStyledItemDelegate):
    """Paints rows, so that ten thousand chats need no widgets. frame: of the spinning rings."""

    frame = 0

    def _paint_heading(self, painter: QPainter, rect: QRectF, text: str) -> None:
        painter.setFont(_font(look().sizes.small, bold=True))
        painter.setPen(look().colour("muted"))
        line = rect.adjusted(SIDE + INSET, HEADING_TOP, -SIDE, -HEADING_BOTTOM)
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_back(
        self, painter: QPainter, rect: QRectF, state: QStyle.StateFlag, is_target: bool = False
    ) -> None:
        selected = is_target or bool(state & QStyle.StateFlag.State_Selected)
        if selected or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(look().colour("accent") if is_target else Qt.PenStyle.NoPen)
            painter.setBrush(look().colour("selected" if selected else "hover"))
            painter.drawRoundedRect(rect.adjusted(SIDE, 1, -SIDE, -1), RADIUS, RADIUS)

    def _paint_folder(self, painter: QPainter, rect: QRectF, row: Row) -> None:
        """Paint the arrow of a folder, its name, and the number of its chats."""
        sizes, is_open = look().sizes, row.folder is not None and row.folder.is_open
        inner = rect.adjusted(SIDE + INSET, 0, -SIDE - INSET, 0)
        size = round(CHEVRON * look().zoom)
        arrow = QRect(round(inner.left()) - 2, round(inner.center().y() - size / 2), size, size)
        paint_icon(painter, arrow, "chevron_down" if is_open else "chevron_right", "muted")
        count = number(row.size)
        painter.setFont(_font(sizes.small))
        painter.setPen(look().colour("muted"))
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(inner, right, count)
        taken = QFontMetrics(_font(sizes.small)).horizontalAdvance(count) + 8
        name = inner.adjusted(size + 4, 0, -taken, 0)
        self._line(painter, name, row.heading, (), sizes.interface)

    def _paint_chat(
        self, painter: QPainter, rect: QRectF, listed: ListedChat, right: float
    ) -> None:
        """Paint title and snippet. right: pixels kept free at the right."""
        inner = rect.adjusted(SIDE + INSET, 0, -SIDE - max(INSET, right), 0)
        sizes, heights = look().sizes, _heights(look().sizes)
        title = QRectF(inner)
        title.setHeight(heights.title)
        self._line(painter, title, said(listed.title), listed.title_ranges, sizes.interface)
        if listed.snippet:
            below = QRectF(inner.left(), title.bottom() - 6, inner.width(), heights.snippet)
            self._line(painter, below, listed.snippet, listed.snippet_ranges, sizes.small)

    def _line(
        self, painter: QPainter, rect: QRectF, text: str, found: Sequence[TextRange], pixels: int
    ) -> None:
        """Paint one elided line, with search matches in bold."""
        main = pixels == look().sizes.interface
        font = _font(pixels)
        elided = QFontMetrics(font).elidedText(
            text[: 2 * TITLE_CHARACTERS], Qt.TextElideMode.ElideRight, int(rect.width())
        )
        layout = QTextLayout(elided, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        layout.setTextOption(option)
        layout.setFormats(_marks(elided, text, found))
        layout.beginLayout()
        line = layout.createLine()
        line.setLineWidth(rect.width() + 40)
        layout.endLayout()
        painter.setPen(look().colour("text" if main else "muted"))
        layout.draw(painter, rect.topLeft() + QPointF(0, (rect.height() - line.height()) / 2))

    def _paint_ring(self, painter: QPainter, place: QRectF) -> None:
        """Paint three quarters of a ring, rotated by the frame."""
        ring = QRectF(0, 0, RING, RING)
        ring.moveCenter(place.center())
        pen = QPen(look().colour("accent"), 1.5)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawArc(ring, -self.frame * 360 * 16 // FRAMES, 270 * 16)

    # Qt

    @override
    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        hover = option.state & QStyle.StateFlag.State_MouseOver
        with QPainterStateGuard(painter):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            rect, row = QRectF(option.rect), index.data(ROW_ROLE)
            button, is_answering = menu_button(option.rect), index.data(ANSWERING_ROLE)
            if row.listed is not None:
                self._paint_back(painter, rect, option.state)
                right = MENU_BUTTON if hover or is_answering else 0
                inner = rect.adjusted(_step_in(row), 0, 0, 0)
                self._paint_chat(painter, inner, row.listed, right)
                if is_answering and not hover:
                    self._paint_ring(painter, button)
            elif row.folder is not None:
                self._paint_back(painter, rect, option.state, index.data(TARGET_ROLE))
                self._paint_folder(painter, rect.adjusted(0, 0, -16 if hover else 0, 0), row)
            else:
                self._paint_heading(painter, rect, row.title)
                return
            if hover:
                size = look().icon_size
                place = QRect(0, 0, size, size)
                place.moveCenter(button.center().toPoint())
                paint_icon(painter, place, "more", "muted")

    @override
    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        # a heading is as high as a title, so that rows without snippets are all alike
        del option
        listed, heights = index.data(ROW_ROLE).listed, _heights(look().sizes)
        snippet = heights.snippet if listed is not None and listed.snippet else 0
        return QSize(80, heights.title + snippet)

    @override
    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        del option
        editor = QLineEdit(parent)
        editor.setFont(_font(look().sizes.interface))
        QTimer.singleShot(0, editor, lambda: _mark_from_the_end(editor))
        is_chat = index.data(ROW_ROLE).listed is not None
        editor.setAccessibleName(tr("Title of the chat") if is_chat else tr("Name of the folder"))
        return editor

    @override
    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        left = SIDE + _step_in(index.data(ROW_ROLE))
        editor.setGeometry(option.rect.adjusted(left, 1, -SIDE, -1))


def menu_button(rect: QRect) -> QRectF:
    """Return the rectangle of a row's menu button."""
    height = min(rect.height(), _heights(look().sizes).title)
    return QRectF(rect.right() + 1 - SIDE - MENU_BUTTON, rect.top(), MENU_BUTTON, height)


def _step_in(row: Row) -> int:
    """Return the indent of a row in pixels; chats of a folder are indented."""
    return round(STEP_IN * look().zoom) if row.listed is not None and row.folder is not None else 0


class _Heights(NamedTuple):
    """Pixels of the parts of a row."""

    title: int
    snippet: int


@cache
def _heights(sizes: TypeSizes) -> _Heights:
    """Return the heights of rows, cached: the view asks for every row."""
    title = QFontMetrics(_font(sizes.interface)).height() + TITLE_PADDING
    return _Heights(title, QFontMetrics(_font(sizes.small)).height() + 2)


def _mark_from_the_end(field: QLineEdit) -> None:
    """Select a text with the cursor at its beginning."""
    field.end(False)
    field.home(True)


def _font(pixels: int, *, bold: bool = False) -> QFont:
    font = QFont()
    font.setPixelSize(pixels)
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return font


def _marks(elided: str, text: str, found: Sequence[TextRange]) -> list[QTextLayout.FormatRange]:
    """Return formats for matches before the ellipsis."""
    seen = len(elided) if elided == text else len(elided) - 1
    ranges = (TextRange(start, min(end, seen)) for start, end in found if start < seen)
    return [_bold(elided, each) for each in ranges]


def _bold(line: str, found: TextRange) -> QTextLayout.FormatRange:
    """Return the format of a range, counted in UTF-16 units as Qt counts."""
    result = QTextLayout.FormatRange()
    result.start = units(line[: found.start])
    result.length = units(line[found.start : found.end])
    text = QTextCharFormat()
    text.setFontWeight(QFont.Weight.DemiBold)
    text.setForeground(look().colour("accent"))
    result.format = text
    return result
