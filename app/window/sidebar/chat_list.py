"""The list of chats with its keys, its menu and renaming in place."""

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QMenu, QWidget

from app.values.chats import ChatGroup, ListedChat
from app.window.sidebar.chat_delegate import ChatDelegate
from app.window.sidebar.chat_list_model import ChatListModel


class ChatList(QListView):
    """Shows groups of chats.

    Signals (each carries a chat id):
        chosen: show it; with the id of the message to scroll to, or None.
        renamed, pin_wanted, duplicate_wanted, export_wanted, delete_wanted: as they say.
        restore_wanted, delete_for_ever_wanted: while the bin is shown.
    """

    chosen = Signal(int, object)
    renamed = Signal(int, str)
    pin_wanted = Signal(int, bool)
    duplicate_wanted = Signal(int)
    export_wanted = Signal(int)
    delete_wanted = Signal(int)
    restore_wanted = Signal(int)
    delete_for_ever_wanted = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shows_bin = False
        self._current: int | None = None
        self._model = ChatListModel(self)
        self._delegate = ChatDelegate(self)
        self.setModel(self._model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName("Chats")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setProperty("role", "chat-list")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setMouseTracking(True)
        self._model.renamed.connect(self.renamed)
        self.clicked.connect(self._choose)
        self.activated.connect(self._choose)
        self.doubleClicked.connect(self._edit)

    def show_groups(self, groups: Iterable[ChatGroup], *, is_bin: bool = False) -> None:
        """Show these chats, those in the bin if `is_bin`."""
        self._shows_bin = is_bin
        place, shown = self.verticalScrollBar().value(), tuple(groups)
        has_snippets = any(listed.snippet for group in shown for listed in group.chats)
        self.setUniformItemSizes(not has_snippets)  # else each row is asked for its size
        self._model.show_groups(shown)
        self.show_current(self._current)
        self.verticalScrollBar().setValue(place)

    def show_first(self, heading: str, listed: ListedChat) -> None:
        """Show a chat that was changed just now as the first under a heading."""
        place = self.verticalScrollBar().value()
        self._model.show_first(heading, listed)
        self.show_current(self._current)
        self.verticalScrollBar().setValue(place)

    def show_current(self, chat_id: int | None) -> None:
        """Mark the chat that is open; it may not be listed."""
        self._current = chat_id
        index = self._model.index_of(chat_id)
        if index.isValid():
            self.setCurrentIndex(index)
        else:
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())

    def show_answering(self, chat_ids: Iterable[int]) -> None:
        """Mark the chats that are being answered."""
        self._model.show_answering(chat_ids)

    def rename(self, chat_id: int) -> None:
        """Let the user type another title in place."""
        self._edit(self._model.index_of(chat_id))

    def choose_first(self) -> None:
        """Open the first chat of the list, if there is one."""
        for first in self._model.chat_rows[:1]:
            self._choose(self._model.index(first))

    def choose_neighbour(self, step: int) -> None:
        """Open the chat `step` rows further down (negative: up)."""
        rows = self._model.chat_rows
        if not rows:
            return
        here = self.currentIndex().row()
        place = rows.index(here) + step if here in rows else (0 if step > 0 else len(rows) - 1)
        index = self._model.index(rows[min(max(place, 0), len(rows) - 1)])
        self.setCurrentIndex(index)
        self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        listed = self._model.chat_at(index)
        if listed is not None and not self._shows_bin:
            self.chosen.emit(listed.chat.id, listed.message_id)

    def _edit(self, index: QModelIndex) -> None:
        if index.isValid() and not self._shows_bin:
            self.setFocus()
            self.edit(index)

    def menu_for(self, listed: ListedChat) -> QMenu:
        """What can be done with a chat."""
        menu, chat = QMenu(self), listed.chat
        if self._shows_bin:
            menu.addAction("Restore", lambda: self.restore_wanted.emit(chat.id))
            menu.addSeparator()
            menu.addAction("Delete for good", lambda: self.delete_for_ever_wanted.emit(chat.id))
            return menu
        menu.addAction("Rename", lambda: self.rename(chat.id))
        pin = "Unpin" if chat.pinned else "Pin"
        menu.addAction(pin, lambda: self.pin_wanted.emit(chat.id, not chat.pinned))
        menu.addAction("Duplicate", lambda: self.duplicate_wanted.emit(chat.id))
        menu.addAction("Export…", lambda: self.export_wanted.emit(chat.id))
        menu.addSeparator()
        menu.addAction("Delete", lambda: self.delete_wanted.emit(chat.id))
        return menu

    def _open_menu(self, index: QModelIndex, place: QPoint) -> None:
        listed = self._model.chat_at(index)
        if listed is not None:
            menu = self.menu_for(listed)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(place)

    # Qt

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """By the mouse at its place, by the keyboard at the current chat."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        index = self.indexAt(event.pos()) if by_mouse else self.currentIndex()
        place = event.globalPos()
        if not by_mouse:
            place = self.viewport().mapToGlobal(self.visualRect(index).bottomLeft())
        self._open_menu(index, place)

    def event(self, event: QEvent) -> bool:
        """F2 is for the chat that is marked here, not for the one on show."""
        is_asked = event.type() == QEvent.Type.ShortcutOverride
        if is_asked and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_F2:
            event.accept()
            return True
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return opens, F2 renames; Delete does nothing on purpose: too easily pressed."""
        match event.key():
            case Qt.Key.Key_Return | Qt.Key.Key_Enter | Qt.Key.Key_Space:
                self._choose(self.currentIndex())
            case Qt.Key.Key_F2:
                self._edit(self.currentIndex())
            case _:
                super().keyPressEvent(event)
