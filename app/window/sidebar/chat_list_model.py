"""Groups of chats as a flat item model."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
)
from typing_extensions import override

from app.state.chat_list import ChatListState
from app.values.chats import PINNED, ChatGroup, Folder, ListedChat
from app.window.controls.labels import plain
from app.window.language import said, tr

Index = QModelIndex | QPersistentModelIndex
ROW_ROLE = Qt.ItemDataRole.UserRole
"""The Row of an index."""
ANSWERING_ROLE = Qt.ItemDataRole.UserRole + 1
"""Whether the chat of a row is being answered."""
TARGET_ROLE = Qt.ItemDataRole.UserRole + 2
"""Whether the folder of a row is under a drag."""


class Row(NamedTuple):
    """A heading, a folder, or a chat.

    folder: the row's own, or the one that contains the chat. size: number of chats of a folder.
    """

    heading: str
    listed: ListedChat | None = None
    folder: Folder | None = None
    size: int = 0

    @property
    def own_folder(self) -> Folder | None:
        """The folder that the row is."""
        return self.folder if self.listed is None else None

    @property
    def title(self) -> str:
        """Text of the row."""
        return said(self.heading if self.listed is None else self.listed.title)

    @property
    def typed(self) -> str:
        """Name as the user gave it, for renaming."""
        return self.heading if self.listed is None else self.listed.chat.title


class ChatListModel(QAbstractListModel):
    """Headings cannot be selected or edited; chats of a closed folder have no rows."""

    _chats: ChatListState

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[Row] = []
        self._inside: dict[int, tuple[int, ...]] = {}
        self._answering: frozenset[int] = frozenset()
        self._target: int | None = None

    def watch(self, chats: ChatListState) -> None:
        """Rename chats and folders in this list."""
        self._chats = chats

    def show_groups(self, groups: Iterable[ChatGroup]) -> None:
        """Replace all groups."""
        self.beginResetModel()
        self._rows, self._inside = [], {}
        for group in groups:
            folder = group.folder
            if folder is not None:
                self._inside[folder.id] = tuple(listed.chat.id for listed in group.chats)
            self._rows.append(Row(group.heading, None, folder, len(group.chats)))
            if folder is None or folder.is_open:
                self._rows.extend(Row("", listed, folder) for listed in group.chats)
        self.endResetModel()

    def show_first(self, heading: str, listed: ListedChat) -> None:
        """Show a chat without a folder, new or changed, as the first under a heading.

        A new heading comes after pinned chats and folders, before all other headings.
        """
        row, changed = self.index_of(listed.chat.id).row(), Row("", listed)
        if row > 0 and self._rows[row - 1] == Row(heading, size=self._rows[row - 1].size):
            self._rows[row] = changed
            self.dataChanged.emit(self.index(row), self.index(row))
            return
        if row >= 0:
            self._remove(row)
        place = self._heading(heading)
        if place is None:
            place = 0 if heading == PINNED else self._first_day()
            self._insert(place, Row(heading))
        self._insert(place + 1, changed)

    def _heading(self, heading: str) -> int | None:
        rows = enumerate(self._rows)
        return next((n for n, row in rows if row.heading == heading and row.folder is None), None)

    def _first_day(self) -> int:
        """Return the row of the first heading of a day."""
        rows = enumerate(self._rows)
        days = (
            n
            for n, row in rows
            if row.listed is None and row.folder is None and row.heading != PINNED
        )
        return next(days, len(self._rows))

    def _insert(self, row: int, what: Row) -> None:
        self.beginInsertRows(QModelIndex(), row, row)
        self._rows.insert(row, what)
        self.endInsertRows()

    def _remove(self, row: int) -> None:
        """Remove a chat, and its heading if it is the last one."""
        is_last = row + 1 == len(self._rows) or self._rows[row + 1].listed is None
        is_only = is_last and self._rows[row - 1].listed is None
        first = row - 1 if is_only and self._rows[row - 1].folder is None else row
        self.beginRemoveRows(QModelIndex(), first, row)
        del self._rows[first : row + 1]
        self.endRemoveRows()

    def show_answering(self, chat_ids: Iterable[int]) -> None:
        """Mark the chats that are being answered."""
        self._answering = frozenset(chat_ids)
        self._tell_all(ANSWERING_ROLE)

    def show_target(self, folder: int | None) -> None:
        """Highlight the folder under a drag."""
        if folder != self._target:
            self._target = folder
            self._tell_all(TARGET_ROLE)

    def _tell_all(self, role: int) -> None:
        if self._rows:
            self.dataChanged.emit(self.index(0), self.index(len(self._rows) - 1), [role])

    def row_at(self, index: Index) -> Row:
        """Return the row of an index; an empty heading for an invalid one."""
        return self._rows[index.row()] if index.isValid() else Row("")

    def index_of(self, chat_id: int | None) -> QModelIndex:
        """Return the index of a chat, invalid if it is not listed."""
        rows = enumerate(self._rows)
        found = (n for n, row in rows if row.listed is not None and row.listed.chat.id == chat_id)
        return self.index(next(found, -1))

    def indexes_of(self, chat_ids: Iterable[int]) -> list[QModelIndex]:
        """Return the indexes of listed chats, from the top."""
        ids, rows = set(chat_ids), enumerate(self._rows)
        found = (n for n, row in rows if row.listed is not None and row.listed.chat.id in ids)
        return [self.index(n) for n in found]

    def index_of_folder(self, folder: int | None) -> QModelIndex:
        """Return the index of a folder, invalid if it is not listed."""
        rows = enumerate(self._rows)
        found = (n for n, row in rows if row.own_folder and row.own_folder.id == folder)
        return self.index(next(found, -1))

    def chats_in(self, folder: int) -> tuple[int, ...]:
        """Return the chats of a folder, listed or not."""
        return self._inside.get(folder, ())

    @property
    def chat_rows(self) -> Sequence[int]:
        """Return the numbers of rows that are chats, from the top."""
        return [n for n, row in enumerate(self._rows) if row.listed is not None]

    # Qt

    @override
    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    @override
    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        # the layout asks for ROW_ROLE of every row
        row = self.row_at(index)
        value: Any = None
        match role:
            case _ if role == ROW_ROLE:
                value = row
            case _ if role == TARGET_ROLE:
                value = row.own_folder is not None and row.own_folder.id == self._target
            case _ if role == ANSWERING_ROLE:
                value = row.listed is not None and row.listed.chat.id in self._answering
            case Qt.ItemDataRole.DisplayRole:
                value = row.title
            case Qt.ItemDataRole.EditRole:
                value = row.typed
            case Qt.ItemDataRole.ToolTipRole if row.listed or row.folder:
                value = plain(row.title)
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                value = _in_words(row)
        return value

    @override
    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row, typed = self.row_at(index), str(value).strip()
        if role != Qt.ItemDataRole.EditRole or typed in ("", row.typed):
            return False
        if row.listed is not None:
            rename = partial(self._chats.rename, row.listed.chat.id, typed)
        elif row.folder is not None:
            rename = partial(self._chats.rename_folder, row.folder.id, typed)
        else:
            return False
        QTimer.singleShot(0, self, rename)  # listed again at once, the field would be gone
        return True

    @override
    def flags(self, index: Index) -> Qt.ItemFlag:
        row, flag = self.row_at(index), Qt.ItemFlag
        if row.listed is None and row.folder is None:
            return flag.NoItemFlags
        movable = flag.ItemIsDragEnabled if row.listed else flag.NoItemFlags
        return flag.ItemIsEnabled | flag.ItemIsSelectable | flag.ItemIsEditable | movable


def _in_words(row: Row) -> str:
    """Describe a row for screen readers."""
    if row.own_folder is not None:
        if row.own_folder.is_open:
            return tr("Folder, open, {n:,} chats", "Folder, open, 1 chat", row.size)
        return tr("Folder, closed, {n:,} chats", "Folder, closed, 1 chat", row.size)
    return tr("In folder {name}", name=row.folder.name) if row.folder is not None else ""
