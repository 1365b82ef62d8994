"""The list of models on disk: headings by place, two lines a model, what is broken with its why."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QPainter,
)
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from app.values.models import FoundModel
from app.window.look import look

ENTRY = Qt.ItemDataRole.UserRole
EDGE, GAP = 12, 2


class LibraryList(QListWidget):
    """Signals: `chosen`(FoundModel) to load; `resume_wanted`(id on the hub) for a download that was
    not finished; `reveal_wanted`(path), `forget_wanted`(path). Other broken ones are not chosen.
    """

    chosen = Signal(object)
    resume_wanted = Signal(str)
    reveal_wanted = Signal(str)
    forget_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Models on this computer")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setItemDelegate(_Rows(self))
        self.itemClicked.connect(self._choose)

    def show_entries(self, entries: Sequence[FoundModel]) -> None:
        """Show these in their order, under a heading for each place; the place on show is kept."""
        current = self.currentItem()
        kept = current.data(ENTRY).path if current is not None and current.data(ENTRY) else None
        offset = self.verticalScrollBar().value()
        self.clear()
        for place in dict.fromkeys(entry.place for entry in entries):
            heading = QListWidgetItem(place)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            self.addItem(heading)
            for entry in (e for e in entries if e.place == place):
                item = _item(entry)
                self.addItem(item)
                if entry.path == kept:
                    self.setCurrentItem(item)
        self.verticalScrollBar().setValue(offset)

    def _choose(self, item: QListWidgetItem) -> None:
        entry = item.data(ENTRY)
        if isinstance(entry, FoundModel):
            self._choose_entry(entry)

    def _choose_entry(self, entry: FoundModel) -> None:
        if entry.unfinished:
            self.resume_wanted.emit(entry.unfinished)
        elif not entry.problem:
            self.chosen.emit(entry)

    def menu_of(self, item: QListWidgetItem | None) -> QMenu | None:
        """What can be done with the model in a row, None for a heading."""
        entry = item.data(ENTRY) if item is not None else None
        if not isinstance(entry, FoundModel):
            return None
        menu = QMenu(self)
        first = "Go on with the download" if entry.unfinished else "Load…"
        choose = menu.addAction(first, lambda: self._choose_entry(entry))
        choose.setEnabled(not entry.problem or bool(entry.unfinished))
        path = str(entry.path)
        if not entry.is_built_in:
            menu.addAction("Show in its folder", lambda: self.reveal_wanted.emit(path))
            menu.addAction("Copy path", lambda: QGuiApplication.clipboard().setText(path))
        if entry.is_recent:
            menu.addSeparator()
            forget = "Remove from recent models"
            menu.addAction(forget, lambda: self.forget_wanted.emit(path))
        return menu

    # Qt

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """The menu of the row below the pointer, or of the current one for the menu key."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        item = self.currentItem() if by_key else self.itemAt(event.pos())
        menu = self.menu_of(item)
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return chooses; on a Mac Qt would begin to edit the row."""
        item = self.currentItem()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and item is not None:
            self._choose(item)
        else:
            super().keyPressEvent(event)


def second_line(entry: FoundModel) -> str:
    """Where it is, or why it cannot be loaded."""
    if entry.unfinished:
        return f"{entry.problem}: click to go on with it"
    return entry.problem or ("Comes with Headstart" if entry.is_built_in else str(entry.path))


def _item(entry: FoundModel) -> QListWidgetItem:
    item = QListWidgetItem(entry.name)
    item.setData(ENTRY, entry)
    broken = entry.problem and not entry.unfinished
    second = f"Cannot be loaded: {entry.problem}" if broken else second_line(entry)
    item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{entry.name}. {entry.detail}. {second}")
    item.setToolTip(f"{entry.path}\n{entry.problem}".strip())
    return item


class _Fonts(NamedTuple):
    """Of the two lines of a row."""

    big: QFont
    small: QFont


class _Rows(QStyledItemDelegate):
    """Paints headings and models."""

    def _fonts(self) -> _Fonts:
        now = look()
        big = now.font(now.sizes.interface, QFont.Weight.Medium)
        return _Fonts(big, now.font(now.sizes.small))

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str, font: QFont) -> None:
        painter.setFont(font)
        painter.setPen(look().colour("muted"))
        painter.drawText(rect.adjusted(EDGE, 8, -EDGE, 0), Qt.AlignmentFlag.AlignVCenter, text)

    # Qt

    def sizeHint(  # noqa: N802
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        """Two lines for a model, one for a heading."""
        del option
        big, small = (QFontMetrics(font).lineSpacing() for font in self._fonts())
        is_model = isinstance(index.data(ENTRY), FoundModel)
        return QSize(120, big + GAP + small + 16 if is_model else small + 20)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """One row."""
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        big, small = self._fonts()
        entry = index.data(ENTRY)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(entry, FoundModel):
            self._paint_ground(painter, rect, state)
            self._paint_model(painter, rect.adjusted(EDGE, 8, -EDGE, -8), entry, big, small)
        else:
            self._paint_heading(painter, rect, index.data(), small)
        painter.restore()

    def _paint_ground(self, painter: QPainter, rect: QRect, state: QStyle.StateFlag) -> None:
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        if is_selected or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(look().colour("selected" if is_selected else "hover"))
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 6, 6)

    def _paint_model(
        self, painter: QPainter, rect: QRect, entry: FoundModel, big: QFont, small: QFont
    ) -> None:
        """Name and detail on the first line, path or problem on the second."""
        wide, narrow = QFontMetrics(big), QFontMetrics(small)
        detail = narrow.horizontalAdvance(entry.detail)
        name_room = max(60, rect.width() - detail - 12)
        painter.setFont(big)
        painter.setPen(look().colour("muted" if entry.problem else "text"))
        name = wide.elidedText(entry.name, Qt.TextElideMode.ElideMiddle, name_room)
        painter.drawText(rect.left(), rect.top() + wide.ascent(), name)
        painter.setFont(small)
        painter.setPen(look().colour("muted"))
        painter.drawText(rect.right() - detail, rect.top() + wide.ascent(), entry.detail)
        base = rect.top() + wide.lineSpacing() + GAP + narrow.ascent()
        mode = Qt.TextElideMode.ElideMiddle
        if entry.problem:
            mode = Qt.TextElideMode.ElideRight
            painter.setPen(look().colour("warning" if entry.unfinished else "error"))
        second = narrow.elidedText(second_line(entry), mode, rect.width())
        painter.drawText(rect.left(), base, second)
