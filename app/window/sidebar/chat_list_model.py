"""Groups of chats as one flat list that Qt's views can show without a widget a row."""

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app.values.chats import PINNED, ChatGroup, ListedChat

Index = QModelIndex | QPersistentModelIndex
CHAT_ROLE = Qt.ItemDataRole.UserRole
"""The ListedChat of a row, None for a heading."""
ANSWERING_ROLE = Qt.ItemDataRole.UserRole + 1
"""Whether the chat of a row is being answered."""


class ChatListModel(QAbstractListModel):
    """Rows are headings (str) or chats.

    Signals:
        renamed: chat id and the new title, as typed.
    """

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[str | ListedChat] = []
        self._answering: frozenset[int] = frozenset()

    def show_groups(self, groups: Iterable[ChatGroup]) -> None:
        """Show these instead."""
        self.beginResetModel()
        self._rows = []
        for group in groups:
            self._rows.append(group.heading)
            self._rows.extend(group.chats)
        self.endResetModel()

    def show_first(self, heading: str, listed: ListedChat) -> None:
        """Show a chat, new or changed, as the first under a heading; the others stay as they are.

        A heading that is not there yet comes before all others, but after those that are pinned.
        """
        row = self.index_of(listed.chat.id).row()
        if row > 0 and self._rows[row - 1] == heading:
            self._rows[row] = listed
            self.dataChanged.emit(self.index(row), self.index(row))
            return
        if row >= 0:
            self._remove(row)
        if heading not in self._rows:
            self._insert(self._after_pinned() if heading != PINNED else 0, heading)
        self._insert(self._rows.index(heading) + 1, listed)

    def _after_pinned(self) -> int:
        headings = (n for n, row in enumerate(self._rows) if isinstance(row, str) and row != PINNED)
        return next(headings, len(self._rows))

    def _insert(self, row: int, what: str | ListedChat) -> None:
        self.beginInsertRows(QModelIndex(), row, row)
        self._rows.insert(row, what)
        self.endInsertRows()

    def _remove(self, row: int) -> None:
        """A heading goes with its last chat."""
        is_last = row + 1 == len(self._rows) or isinstance(self._rows[row + 1], str)
        first = row - 1 if is_last and isinstance(self._rows[row - 1], str) else row
        self.beginRemoveRows(QModelIndex(), first, row)
        del self._rows[first : row + 1]
        self.endRemoveRows()

    def show_answering(self, chat_ids: Iterable[int]) -> None:
        """Mark the chats that are being answered."""
        self._answering = frozenset(chat_ids)
        if self._rows:
            last = self.index(len(self._rows) - 1)
            self.dataChanged.emit(self.index(0), last, [ANSWERING_ROLE])

    def chat_at(self, index: Index) -> ListedChat | None:
        """The chat of a row, None for a heading or no row."""
        row = self._rows[index.row()] if index.isValid() else ""
        return row if isinstance(row, ListedChat) else None

    def index_of(self, chat_id: int | None) -> QModelIndex:
        """The row of a chat, an invalid index when it is not listed."""
        for number, row in enumerate(self._rows):
            if isinstance(row, ListedChat) and row.chat.id == chat_id:
                return self.index(number)
        return QModelIndex()

    @property
    def chat_rows(self) -> Sequence[int]:
        """Rows that are chats, from the top."""
        return [n for n, row in enumerate(self._rows) if isinstance(row, ListedChat)]

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """All rows are at the top level."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Titles, and the values behind them; the layout asks for CHAT_ROLE of every row."""
        row = self._rows[index.row()] if index.isValid() else ""
        if isinstance(row, str):
            return row if role == Qt.ItemDataRole.DisplayRole else None
        if role == CHAT_ROLE:
            return row
        if role == ANSWERING_ROLE:
            return row.chat.id in self._answering
        if role == Qt.ItemDataRole.EditRole:
            return row.chat.title
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return row.title
        return None

    def setData(  # noqa: N802
        self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """Report a rename; the list is shown anew by who carries it out."""
        chat = self.chat_at(index)
        if chat is None or role != Qt.ItemDataRole.EditRole or str(value).strip() == chat.title:
            return False
        self.renamed.emit(chat.chat.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headings can be neither chosen nor edited."""
        if self.chat_at(index) is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable
