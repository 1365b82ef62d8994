"""A sortable table of models; several sizes of one model are grouped."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QBrush, QFocusEvent, QFont, QKeyEvent, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QHeaderView,
    QLineEdit,
    QStyleOptionViewItem,
    QTreeWidget,
    QTreeWidgetItem,
)
from typing_extensions import override

from app.values.models import FITS
from app.window.controls.icons import icon
from app.window.controls.labels import plain
from app.window.controls.scroll_bar import overlay_bar
from app.window.language import said, tr
from app.window.look import look
from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.words import Words, count_words, size_words

NAME, PARAMETERS, FORMAT, SIZE, HEADS, MEMORY, ABOUT = range(7)
COLUMNS = (
    Words("Name"),
    Words("Parameters"),
    Words("Format"),
    Words("Size"),
    Words("Drafting", "whether a model has drafting heads, as the title of a column"),
    Words("Memory"),
    Words("About"),
)
HIDDEN_BELOW = {ABOUT: 760, FORMAT: 620, PARAMETERS: 560}
"""Columns that are hidden in a table narrower than so many pixels at a zoom of 1."""
WIDEST_AMONG = 30
"""Rows that are measured for the width of a column."""
FIT_ORDER: dict[Fit | None, int] = {"fits": 0, "tight": 1, "too-large": 2, None: 3}


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Content of a row, as far as known.

    entry: the model or download, passed on when the row is chosen. group: name of the model of
    which this is one size. problem: a line below the row; a warning unless the row is faint. tip:
    its tooltip. rows: rows of a group.
    """

    entry: Any
    name: str
    group: str = ""
    parameters: int = 0
    format: str = ""
    nbytes: int = 0
    heads: bool | None = None
    fit: Fit | None = None
    about: str = ""
    problem: str = ""
    tip: str = ""
    is_in_use: bool = False
    is_faint: bool = False
    rows: tuple["ModelRow", ...] = field(default=())

    @property
    def texts(self) -> tuple[str, ...]:
        """A text for each column, in the window's language."""
        heads = "" if self.heads is None else tr("Yes") if self.heads else tr("No")
        return (
            said(self.name),
            said(count_words(self.parameters)) if self.parameters else "",
            self.format,
            said(size_words(self.nbytes)) if self.nbytes else "",
            heads,
            said(FITS[self.fit]) if self.fit else "",
            said(self.about),
        )

    @property
    def keys(self) -> tuple[Any, ...]:
        """Sort key for each column; of a group, that of the first of its rows."""
        if self.rows and not self.nbytes:
            below = [row.keys for row in self.rows]
            return (
                self.name.casefold(),
                *map(min, zip(*(keys[1:] for keys in below), strict=True)),
            )
        return (
            self.name.casefold(),
            self.parameters,
            self.format.casefold(),
            self.nbytes,
            {True: 0, False: 1, None: 2}[self.heads],
            FIT_ORDER[self.fit],
            self.about.casefold(),
        )


def grouped(rows: Iterable[ModelRow]) -> list[ModelRow]:
    """Group rows that are several sizes of one model."""
    groups: dict[str, list[ModelRow]] = {}
    for row in rows:
        groups.setdefault((row.group or row.name).casefold(), []).append(row)
    return [_group(members) if len(members) > 1 else members[0] for members in groups.values()]


def _group(rows: list[ModelRow]) -> ModelRow:
    counts = {row.parameters for row in rows}
    parameters = counts.pop() if len(counts) == 1 else 0
    return ModelRow(None, rows[0].group, parameters=parameters, rows=tuple(rows))


class _Item(QTreeWidgetItem):
    """An item that takes its colours from the present theme."""

    def __init__(self, row: ModelRow) -> None:
        texts = row.texts
        super().__init__(list(texts))
        self.row = row
        if row.is_in_use:
            self.setIcon(NAME, icon("check", "accent"))
        spoken = [text for text in texts if text]
        if row.heads is not None:
            spoken[spoken.index(texts[HEADS])] = (
                tr("drafting heads") if row.heads else tr("no drafting heads")
            )
        in_use = [tr("in use")] if row.is_in_use else []
        problem = [said(row.problem)] if row.problem else []
        self.setData(
            NAME, Qt.ItemDataRole.AccessibleTextRole, ". ".join((*spoken, *in_use, *problem))
        )
        self.setToolTip(NAME, plain(row.tip))
        for column in (PARAMETERS, SIZE):
            self.setTextAlignment(
                column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            )
        for below in row.rows:
            self.addChild(_Item(below))
        if row.problem:
            self.addChild(_Problem(row))

    @override
    def data(self, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole:
            now, row = look(), self.row
            if column == MEMORY and row.fit in ("tight", "too-large"):
                return QBrush(now.colour("warning" if row.fit == "tight" else "error"))
            is_muted = row.is_faint or column != NAME
            return QBrush(now.colour("muted" if is_muted else "text"))
        if role == Qt.ItemDataRole.FontRole and column == NAME and self.row.is_in_use:
            return look().font(look().sizes.interface, QFont.Weight.DemiBold)
        return super().data(column, role)


class _Problem(QTreeWidgetItem):
    """A line across the table, below the row with the problem."""

    def __init__(self, row: ModelRow) -> None:
        super().__init__([said(row.problem)])
        self._colour = "error" if row.is_faint else "warning"
        self.setFlags(Qt.ItemFlag.ItemIsEnabled)
        self.setToolTip(NAME, plain(said(row.problem)))

    @override
    def data(self, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole:
            return QBrush(look().colour(self._colour))
        return super().data(column, role)


class ModelTable(QTreeWidget):
    """The table.

    Signals:
        taken(entry): a row was clicked, or Return was pressed.
        wanted: a row was double-clicked, or Return was pressed.
        picked: another row is current.
    """

    taken = Signal(object)
    wanted = Signal()
    picked = Signal()

    def __init__(self, name: str, columns: Sequence[int] = range(len(COLUMNS))) -> None:
        super().__init__()
        self._columns = columns
        self._given: tuple[ModelRow, ...] = ()
        self._filled = set(columns)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHeaderLabels([tr(words) for words in COLUMNS])
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setVerticalScrollMode(QTreeWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        overlay_bar(self)
        self.setIndentation(14)
        self.setExpandsOnDoubleClick(False)
        header = self.header()
        header.setStretchLastSection(False)
        header.setResizeContentsPrecision(WIDEST_AMONG)
        header.setSectionsMovable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.sortIndicatorChanged.connect(lambda *_: self.show_rows(self._given))
        self.itemClicked.connect(self._take)
        self.itemDoubleClicked.connect(lambda *_: self.wanted.emit())
        self.currentItemChanged.connect(lambda *_: self.picked.emit())

    @property
    def entry(self) -> Any:
        """The entry of the current row, None for none."""
        item = self.currentItem()
        return item.row.entry if isinstance(item, _Item) else None

    @property
    def rows(self) -> list[ModelRow]:
        """All rows in display order, those of a group after it."""
        return [item.row for item in self._items()]

    def item_of(self, is_it: Callable[[ModelRow], bool]) -> QTreeWidgetItem | None:
        """Return the first item whose row satisfies a condition."""
        return next((item for item in self._items() if is_it(item.row)), None)

    def entry_at(self, item: QTreeWidgetItem | None) -> Any:
        """Return the entry of an item, None for other lines."""
        return item.row.entry if isinstance(item, _Item) else None

    def show_rows(self, rows: Iterable[ModelRow], chosen: Any = None) -> None:
        """Replace the rows; all groups are open and the scroll position stays.

        chosen: entry of the row to make current, None to keep the current one.
        """
        self._given = tuple(rows)
        kept = self.entry if chosen is None else chosen
        offset = self.verticalScrollBar().value()
        self.blockSignals(True)
        self.clear()
        self.addTopLevelItems([_Item(row) for row in self._sorted(self._given)])
        filled = set[int]()
        for item in self._items():
            filled |= {column for column in self._columns if item.text(column)}
            item.setExpanded(True)
            for line in map(item.child, range(item.childCount())):
                if isinstance(line, _Problem):
                    line.setFirstColumnSpanned(True)
            if kept is not None and item.row.entry == kept:
                self.setCurrentItem(item)
        self._filled = filled or set(self._columns)
        self.blockSignals(False)
        self.verticalScrollBar().setValue(offset)
        if chosen is not None and (current := self.currentItem()):
            self.scrollToItem(current)
        self._fit()
        self.picked.emit()

    def _sorted(self, rows: tuple[ModelRow, ...]) -> list[ModelRow]:
        """Sort rows by the header's column, if one is chosen."""
        header = self.header()
        column, order = header.sortIndicatorSection(), header.sortIndicatorOrder()
        if column < 0:
            return list(rows)
        is_down = order == Qt.SortOrder.DescendingOrder
        found = sorted(rows, key=lambda row: row.keys[column], reverse=is_down)
        return [replace(row, rows=tuple(self._sorted(row.rows))) for row in found]

    def _items(self) -> Iterator[_Item]:
        waiting = [self.topLevelItem(number) for number in range(self.topLevelItemCount())]
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, _Item):
                yield item
                waiting[:0] = [item.child(number) for number in range(item.childCount())]

    def _take(self, item: QTreeWidgetItem) -> None:
        """Choose a row, or fold a group; a problem belongs to the row above it."""
        row = item.parent() if isinstance(item, _Problem) else item
        if self.entry_at(row) is not None:
            self.taken.emit(self.entry_at(row))
        elif row is not None:
            row.setExpanded(not row.isExpanded())

    def _fit(self) -> None:
        """Hide columns that are empty or have no room."""
        zoom = look().zoom
        for column in range(1, len(COLUMNS)):
            is_narrow = self.width() < HIDDEN_BELOW.get(column, 0) * zoom
            self.setColumnHidden(column, column not in self._filled or is_narrow)

    # Qt

    @override
    def initViewItemOption(self, option: QStyleOptionViewItem) -> None:
        super().initViewItemOption(option)
        option.decorationPosition = QStyleOptionViewItem.Position.Right

    @override
    def drawBranches(
        self, painter: Any, rect: Any, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Only a group can be folded away."""
        item = self.itemFromIndex(index)
        if isinstance(item, _Item) and item.row.rows:
            super().drawBranches(painter, rect, index)

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()
        super().resizeEvent(event)

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        item = self.currentItem()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and item is not None:
            self._take(item)
            self.wanted.emit()
        else:
            super().keyPressEvent(event)

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        is_click = event.reason() == Qt.FocusReason.MouseFocusReason
        item = self.currentItem() or self.topLevelItem(0)  # Qt makes one current, but marks none
        if not is_click and not self.selectedItems() and item is not None:
            self.setCurrentItem(item)


def goes_down(field: QLineEdit, table: ModelTable) -> None:
    """Let the down key move from a search field to the table."""
    down = QShortcut(Qt.Key.Key_Down, field)
    down.setContext(Qt.ShortcutContext.WidgetShortcut)
    down.activated.connect(lambda: table.setFocus(Qt.FocusReason.ShortcutFocusReason))
