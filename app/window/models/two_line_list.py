"""Lists of two lines a row under headings, as the pages of models have them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPainterStateGuard,
    QShortcut,
)
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from app.window.controls.labels import plain
from app.window.language import said
from app.window.look import Look, look

T = TypeVar("T")
ENTRY, LINES, HEADING = (Qt.ItemDataRole.UserRole + number for number in range(3))
EDGE, GAP, STEP = 12, 2, 20


@dataclass(frozen=True, slots=True)
class TwoLines:
    """What a row says. detail: at the right of the first line. tone: the colour of the second.

    is_faint: it cannot be chosen. indent: how many steps it stands below another row. tip: more of
    it, for a pointer that rests there.
    """

    first: str
    detail: str
    second: str
    tone: str = "muted"
    is_faint: bool = False
    indent: int = 0
    tip: str = ""


class Row(QListWidgetItem, Generic[T]):
    """A row for `entry`, which says what `lines_of` it says: asked for once it is to be seen, since
    there may be hundreds.
    """

    def __init__(self, entry: T, lines_of: Callable[[T], TwoLines]) -> None:
        super().__init__()
        self._entry, self._lines_of = entry, lines_of

    @cached_property
    def _lines(self) -> TwoLines:
        """In the window's language."""
        lines = self._lines_of(self._entry)
        first, detail, second = said(lines.first), said(lines.detail), said(lines.second)
        return replace(lines, first=first, detail=detail, second=second)

    # Qt

    def data(self, role: int) -> Any:
        """Of the entry or of its lines."""
        if role == ENTRY:
            return self._entry
        if role == LINES:
            return self._lines
        if role == Qt.ItemDataRole.DisplayRole:
            return self._lines.first
        if role == Qt.ItemDataRole.AccessibleTextRole:
            lines = self._lines
            return ". ".join(filter(None, (lines.first, lines.detail, lines.second)))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain(self._lines.tip)
        return super().data(role)


class TwoLineList(QListWidget):
    """Has each `Row` under a heading made by `heading_item`.

    Signal `taken`(QListWidgetItem): it was clicked, or Return was pressed on it.
    """

    taken = Signal(QListWidgetItem)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setItemDelegate(_Rows(self))
        self.itemClicked.connect(self.taken)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return chooses; on a Mac Qt would begin to edit the row."""
        item = self.currentItem()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and item is not None:
            self.taken.emit(item)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Keys begin with the first row; a click has one of its own."""
        super().focusInEvent(event)
        if event.reason() != Qt.FocusReason.MouseFocusReason and not self.selectedItems():
            rows = map(self.item, range(self.count()))
            for first in (row for row in rows if row.flags() & Qt.ItemFlag.ItemIsSelectable):
                self.setCurrentItem(first)
                break


def goes_down(field: QLineEdit, rows: TwoLineList) -> None:
    """The down key leads from what is looked for to what was found."""
    down = QShortcut(Qt.Key.Key_Down, field)
    down.setContext(Qt.ShortcutContext.WidgetShortcut)
    down.activated.connect(lambda: rows.setFocus(Qt.FocusReason.ShortcutFocusReason))


def heading_item(words: str) -> QListWidgetItem:
    """Above the rows of one kind."""
    item = QListWidgetItem(said(words))
    item.setFlags(Qt.ItemFlag.NoItemFlags)
    item.setData(HEADING, True)
    return item


class _Type(NamedTuple):
    """Fonts of the two lines of a row; pixels of height of a row and of a heading."""

    big: QFont
    small: QFont
    row: int
    heading: int


@cache
def _type(now: Look) -> _Type:
    big = now.font(now.sizes.interface, QFont.Weight.Medium)
    small = now.font(now.sizes.small)
    first, second = QFontMetrics(big).lineSpacing(), QFontMetrics(small).lineSpacing()
    return _Type(big, small, first + GAP + second + 16, second + 20)


class _Rows(QStyledItemDelegate):
    """Paints headings and rows."""

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str, font: QFont) -> None:
        painter.setFont(font)
        painter.setPen(look().colour("muted"))
        painter.drawText(rect.adjusted(EDGE, 8, -EDGE, 0), Qt.AlignmentFlag.AlignVCenter, text)

    # Qt

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        """Two lines for a row, one for a heading."""
        del option
        now = _type(look())
        return QSize(120, now.heading if index.data(HEADING) else now.row)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """One row."""
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        now = _type(look())
        with QPainterStateGuard(painter):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if index.data(HEADING):
                self._paint_heading(painter, rect, index.data(), now.small)
            else:
                self._paint_ground(painter, rect, state)
                lines: TwoLines = index.data(LINES)
                inner = rect.adjusted(EDGE + lines.indent * STEP, 8, -EDGE, -8)
                self._paint_lines(painter, inner, lines, now.big, now.small)

    def _paint_ground(self, painter: QPainter, rect: QRect, state: QStyle.StateFlag) -> None:
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        if is_selected or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(look().colour("selected" if is_selected else "hover"))
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 6, 6)

    def _paint_lines(
        self, painter: QPainter, rect: QRect, lines: TwoLines, big: QFont, small: QFont
    ) -> None:
        """The first line keeps room for its detail, and gives way in its middle."""
        wide, narrow = QFontMetrics(big), QFontMetrics(small)
        detail = narrow.horizontalAdvance(lines.detail)
        room = max(60, rect.width() - detail - 12)
        painter.setFont(big)
        painter.setPen(look().colour("muted" if lines.is_faint else "text"))
        first = wide.elidedText(lines.first, Qt.TextElideMode.ElideMiddle, room)
        painter.drawText(rect.left(), rect.top() + wide.ascent(), first)
        painter.setFont(small)
        painter.setPen(look().colour("muted"))
        painter.drawText(rect.right() - detail, rect.top() + wide.ascent(), lines.detail)
        base = rect.top() + wide.lineSpacing() + GAP + narrow.ascent()
        is_place = lines.tone == "muted"
        mode = Qt.TextElideMode.ElideMiddle if is_place else Qt.TextElideMode.ElideRight
        painter.setPen(look().colour(lines.tone))
        painter.drawText(rect.left(), base, narrow.elidedText(lines.second, mode, rect.width()))
