"""The list of chats with its keys, its menus, renaming in place, and what is dragged in it."""

import json
import os
from collections.abc import Iterable, Sequence
from itertools import groupby

from PySide6.QtCore import QItemSelection, QItemSelectionRange, QMimeData, QModelIndex, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QWidget,
)

from app.values.chats import ChatGroup, Folder, ListedChat
from app.window.controls.fields import keep_key
from app.window.controls.labels import label, unmarked
from app.window.language import tr
from app.window.sidebar.chat_delegate import ChatDelegate
from app.window.sidebar.chat_list_model import ChatListModel

CHATS = f"application/x-headstart-chats-{os.getpid()}"
"""Of what is dragged: a JSON list of chat ids, of this program: another profile has other chats."""
MANY = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


class ChatList(QListView):
    """Shows groups of chats; with Command or Shift several are chosen at once.

    Signals; those with `object` first carry a tuple of chat ids:
        chosen: show this chat; with the id of the message to scroll to, or None.
        renamed, duplicate_wanted: of one chat.
        pin_wanted, delete_wanted: as they say.
        export_wanted: ".md", ".json", or "" for what its user will choose.
        move_wanted: into a folder, or None for out of it. folder_wanted: into a new folder.
        folder_renamed, folder_opened, folder_removed: of one folder.
        restore_wanted, delete_for_ever_wanted: while the bin is shown.
        named: a name was typed in place, or given up, with keys.
    """

    chosen = Signal(int, object)
    renamed = Signal(int, str)
    duplicate_wanted = Signal(int)
    pin_wanted = Signal(object, bool)
    export_wanted = Signal(object, str)
    delete_wanted = Signal(object)
    move_wanted = Signal(object, object)
    folder_wanted = Signal(object)
    folder_renamed = Signal(int, str)
    folder_opened = Signal(int, bool)
    folder_removed = Signal(int)
    restore_wanted = Signal(object)
    delete_for_ever_wanted = Signal(object)
    named = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._shows_bin = False
        self._current: int | None = None
        self._folders: tuple[Folder, ...] = ()
        self._model = ChatListModel(self)
        self._delegate = ChatDelegate(self)
        self.setModel(self._model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(tr("Chats"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setProperty("role", "chat-list")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDropIndicatorShown(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setMouseTracking(True)
        keep_key(self, Qt.Key.Key_F2)  # for the chat that is marked here, not for the one on show
        once_typed = Qt.ConnectionType.QueuedConnection  # listed anew, the field would be gone
        self._model.renamed.connect(self.renamed, once_typed)
        self._model.folder_renamed.connect(self.folder_renamed, once_typed)
        self.selectionModel().selectionChanged.connect(self._keep_mark)
        self.clicked.connect(self._click)
        self.doubleClicked.connect(self._click_again)

    def show_groups(
        self, groups: Iterable[ChatGroup], folders: Iterable[Folder] = (), *, is_bin: bool = False
    ) -> None:
        """Show these chats, those in the bin if `is_bin`. folders: all that chats can go into."""
        self._shows_bin, self._folders = is_bin, tuple(folders)
        place, shown = self.verticalScrollBar().value(), tuple(groups)
        at, selected = self._model.row_at(self.currentIndex()).own_folder, self.selected()
        has_snippets = any(listed.snippet for group in shown for listed in group.chats)
        self.setUniformItemSizes(not has_snippets)  # else each row is asked for its size
        self._model.show_groups(shown)
        self._mark(at.id if at else None, selected)
        self.verticalScrollBar().setValue(place)

    def show_first(self, heading: str, listed: ListedChat) -> None:
        """Show a chat that was changed just now as the first under a heading."""
        place, selected = self.verticalScrollBar().value(), self.selected()
        self._model.show_first(heading, listed)
        self._mark(None, selected)
        self.verticalScrollBar().setValue(place)

    def _mark(self, folder: int | None, selected: Sequence[int]) -> None:
        """What was marked before, as far as it is still listed."""
        self.show_current(self._current)
        index = self._model.index_of_folder(folder)
        if len(selected) == 1:
            index = self._model.index_of(selected[0])
        if index.isValid():
            self._mark_alone(index)
        if len(selected) > 1:
            marked, marks = QItemSelection(), self.selectionModel()
            rows = enumerate(self._model.indexes_of(selected))
            for _, run in groupby(rows, lambda pair: pair[1].row() - pair[0]):
                together = [index for _, index in run]
                marked.append(QItemSelectionRange(together[0], together[-1]))
            marks.select(marked, marks.SelectionFlag.ClearAndSelect)

    def show_current(self, chat_id: int | None) -> None:
        """Mark the chat that is open; it may not be listed."""
        self._current = chat_id
        self._mark_alone(self._model.index_of(chat_id))

    def _mark_alone(self, index: QModelIndex) -> None:
        """Also while the Command key is held, with which Qt would add to what is marked."""
        marks = self.selectionModel()
        marks.setCurrentIndex(index, marks.SelectionFlag.ClearAndSelect)

    def _mark_current_again(self) -> None:
        """After a menu of another chat; several that are marked stay marked."""
        is_edited = self.state() == QAbstractItemView.State.EditingState
        if len(self.selectedIndexes()) <= 1 and not is_edited:
            self.show_current(self._current)

    def _keep_mark(self) -> None:
        """A click that marks nothing leaves the chat that is open marked."""
        if not self.selectedIndexes():
            self.show_current(self._current)

    def show_answering(self, chat_ids: Iterable[int]) -> None:
        """Mark the chats that are being answered."""
        self._model.show_answering(chat_ids)

    def selected(self) -> tuple[int, ...]:
        """Chats that are marked, from the top."""
        return tuple(listed.chat.id for listed in self._marked())

    def _marked(self) -> list[ListedChat]:
        rows = map(self._model.row_at, sorted(self.selectedIndexes()))
        return [row.listed for row in rows if row.listed is not None]

    def has(self, chat_id: int) -> bool:
        """Whether it is listed."""
        return self._model.index_of(chat_id).isValid()

    def rename(self, chat_id: int) -> None:
        """Let the user type another title in place."""
        self._edit(self._model.index_of(chat_id))

    def rename_folder(self, folder: int) -> None:
        """Let the user type another name in place."""
        index = self._model.index_of_folder(folder)
        self._mark_alone(index)
        self._edit(index)

    def choose_first(self) -> None:
        """Open the first chat of the list, if there is one."""
        self.choose_at(0)

    def choose_at(self, place: int) -> None:
        """Open the chat at this place of the list, from 0; nothing where there is none."""
        for row in self._model.chat_rows[place : place + 1]:
            self._mark_alone(self._model.index(row))
            self._choose(self._model.index(row))

    def choose_neighbour(self, step: int) -> None:
        """Open the chat `step` rows further down (negative: up)."""
        rows = self._model.chat_rows
        if not rows:
            return
        here = self.currentIndex().row()
        place = rows.index(here) + step if here in rows else (0 if step > 0 else len(rows) - 1)
        index = self._model.index(rows[min(max(place, 0), len(rows) - 1)])
        self._mark_alone(index)
        self._choose(index)

    def _click(self, index: QModelIndex) -> None:
        """A click that only adds to what is marked opens nothing."""
        if not QGuiApplication.keyboardModifiers() & MANY:
            self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        """Show a chat; open or close a folder."""
        row = self._model.row_at(index)
        if row.own_folder is not None:
            self.folder_opened.emit(row.own_folder.id, not row.own_folder.is_open)
        elif row.listed is not None and not self._shows_bin:
            self.chosen.emit(row.listed.chat.id, row.listed.message_id)

    def _click_again(self, index: QModelIndex) -> None:
        """Two clicks rename a chat, and open and close a folder."""
        if self._model.row_at(index).listed is not None:
            self._edit(index)
        else:
            self._choose(index)

    def _edit(self, index: QModelIndex) -> None:
        if index.isValid() and not self._shows_bin:
            self.setFocus()
            self.edit(index)

    # menus

    def menu_for(self, chats: Sequence[ListedChat]) -> QMenu:
        """What can be done with a chat, or with several."""
        menu, ids = QMenu(self), tuple(listed.chat.id for listed in chats)
        many = len(chats)
        if self._shows_bin:
            back = tr("Restore {n:,} chats", "Restore", many)
            menu.addAction(back, lambda: self.restore_wanted.emit(ids))
            menu.addSeparator()
            for_good = tr("Delete {n:,} chats for good", "Delete for good", many)
            menu.addAction(for_good, lambda: self.delete_for_ever_wanted.emit(ids))
            return menu
        if many == 1:
            menu.addAction(tr("Rename"), lambda: self.rename(ids[0]))
        is_pinned = all(listed.chat.pinned for listed in chats)
        pin = (
            tr("Unpin {n:,} chats", "Unpin", many)
            if is_pinned
            else tr("Pin {n:,} chats", "Pin", many)
        )
        menu.addAction(pin, lambda: self.pin_wanted.emit(ids, not is_pinned))
        if many == 1:
            menu.addAction(tr("Duplicate"), lambda: self.duplicate_wanted.emit(ids[0]))
        menu.addMenu(self._folder_menu(menu, chats, ids))
        if many > 1:
            self._add_export(menu, ids)
        else:
            menu.addAction(tr("Export…"), lambda: self.export_wanted.emit(ids, ""))
        menu.addSeparator()
        gone = tr("Delete {n:,} chats", "Delete", many)
        menu.addAction(gone, lambda: self.delete_wanted.emit(ids))
        return menu

    def _folder_menu(
        self, parent: QMenu, chats: Sequence[ListedChat], ids: tuple[int, ...]
    ) -> QMenu:
        """Where chats can go from where they are."""
        menu = QMenu(tr("Move to folder"), parent)
        here = {listed.chat.folder for listed in chats}
        for folder in self._folders:
            action = menu.addAction(unmarked(folder.name))
            action.triggered.connect(lambda _, to=folder.id: self.move_wanted.emit(ids, to))
            action.setEnabled(here != {folder.id})
        menu.addSeparator()
        menu.addAction(tr("New folder"), lambda: self.folder_wanted.emit(ids))
        out = menu.addAction(tr("Out of its folder"), lambda: self.move_wanted.emit(ids, None))
        out.setVisible(here != {None})
        return menu

    def _add_export(self, menu: QMenu, ids: tuple[int, ...]) -> None:
        kinds = menu.addMenu(tr("Export {n:,} chats", "Export 1 chat", len(ids)))
        kinds.addAction(tr("As Markdown…"), lambda: self.export_wanted.emit(ids, ".md"))
        kinds.addAction(
            tr("As JSON with everything…"), lambda: self.export_wanted.emit(ids, ".json")
        )

    def folder_menu_for(self, folder: Folder, ids: tuple[int, ...]) -> QMenu:
        """What can be done with a folder of these chats."""
        menu = QMenu(self)
        menu.addAction(tr("Rename"), lambda: self.rename_folder(folder.id))
        if ids:
            self._add_export(menu, ids)
        menu.addSeparator()
        keep = tr("Remove folder, keep its chats") if ids else tr("Remove folder")
        menu.addAction(keep, lambda: self.folder_removed.emit(folder.id))
        if ids:
            gone = tr("Delete its {n:,} chats", "Delete its 1 chat", len(ids))
            menu.addAction(gone, lambda: self.delete_wanted.emit(ids))
        return menu

    def _menu_at(self, index: QModelIndex) -> QMenu | None:
        """Of all that is marked if this is among it, else of this alone."""
        row = self._model.row_at(index)
        if row.own_folder is not None:
            return self.folder_menu_for(row.own_folder, self._model.chats_in(row.own_folder.id))
        if row.listed is None:
            return None
        marked = self._marked()
        return self.menu_for(marked if row.listed in marked else [row.listed])

    # dragging

    def _dragged(self, data: QMimeData) -> tuple[int, ...]:
        """Chats of this list that are dragged; none while folders are not shown."""
        if self._shows_bin or not data.hasFormat(CHATS):
            return ()
        return tuple(json.loads(bytes(data.data(CHATS).data())))

    def _folder_under(self, event: QDropEvent) -> int | None:
        folder = self._model.row_at(self.indexAt(event.position().toPoint())).folder
        return folder.id if folder else None

    # Qt

    def startDrag(self, actions: Qt.DropAction) -> None:  # noqa: ARG002, N802
        """Take what is marked along, shown as words."""
        marked = self._marked()
        if not marked or self._shows_bin:
            return
        data, drag, alone = QMimeData(), QDrag(self), len(marked) == 1
        data.setData(CHATS, json.dumps(self.selected()).encode())
        drag.setMimeData(data)
        words = label(
            marked[0].title[:40] if alone else tr("{n:,} chats", "1 chat", len(marked)), "chip"
        )
        words.setContentsMargins(8, 4, 8, 4)
        drag.setPixmap(words.grab())
        drag.exec(Qt.DropAction.MoveAction)
        if alone:
            self.show_current(self._current)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Chats are taken; files are for the window."""
        if self._dragged(event.mimeData()):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """Mark the folder they would go into; the list scrolls near its edges."""
        if not self._dragged(event.mimeData()):
            event.ignore()
            return
        super().dragMoveEvent(event)
        self._model.show_target(self._folder_under(event))
        event.acceptProposedAction()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """They went elsewhere."""
        super().dragLeaveEvent(event)
        self._model.show_target(None)

    def dropEvent(self, event: QDropEvent) -> None:
        """Into the folder under the pointer, or out of the one they are in."""
        ids = self._dragged(event.mimeData())
        if not ids:
            event.ignore()
            return
        event.acceptProposedAction()
        self._model.show_target(None)
        self.move_wanted.emit(ids, self._folder_under(event))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """By the mouse at its place, by the keyboard at the current row."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        index = self.indexAt(event.pos()) if by_mouse else self.currentIndex()
        place = event.globalPos()
        if not by_mouse:
            place = self.viewport().mapToGlobal(self.visualRect(index).bottomLeft())
        menu = self._menu_at(index)
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.aboutToHide.connect(self._mark_current_again)
            menu.popup(place)

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        """Nothing else is typed after it, and the chat that is open is marked."""
        had_keys = editor.hasFocus()
        super().closeEditor(editor, hint)
        if had_keys:
            self.show_current(self._current)
            self.named.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return opens, F2 renames; Delete does nothing on purpose: too easily pressed. Letters are
        for the message, not for Qt's search among the titles.
        """
        if self.state() == QAbstractItemView.State.EditingState:
            return  # Return ends the typing, no more
        match event.key():
            case Qt.Key.Key_Return | Qt.Key.Key_Enter | Qt.Key.Key_Space:
                self._choose(self.currentIndex())
            case Qt.Key.Key_F2:
                self._edit(self.currentIndex())
            case _ if event.text().strip() and event.text().isprintable():
                event.ignore()
            case _:
                super().keyPressEvent(event)
