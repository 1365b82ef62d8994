"""The list of chats: keys, menus, renaming in place, drag and drop."""

import json
import os
from collections.abc import Callable, Sequence
from itertools import groupby

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionRange,
    QMimeData,
    QModelIndex,
    QPoint,
    Qt,
    QTimer,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QMouseEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QStyle,
    QWidget,
)
from typing_extensions import override

from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.values.chats import Folder, ListedChat
from app.window.controls.fields import on_key
from app.window.controls.labels import label, unmarked
from app.window.controls.scroll_bar import overlay_bar
from app.window.language import tr
from app.window.sidebar.chat_delegate import ChatDelegate, menu_button
from app.window.sidebar.chat_list_model import ANSWERING_ROLE, ChatListModel
from mlx_engine.values.words import Words

CHATS = f"application/x-headstart-chats-{os.getpid()}"
"""MIME type of dragged chats: a JSON list of ids, of this profile only."""
MANY = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
COPY = Words("copy", "of a chat, behind its title")
FRAME_MS = 80
"""Milliseconds between frames of the spinning rings."""
Export = Callable[[Sequence[int], str], None]
"""Exports chats to files of an extension, "" to ask for one."""


class ChatList(QListView):
    """Shows groups of chats; several can be selected with Command or Shift."""

    _chats: ChatListState
    _chat: ChatState
    _answers: Answers
    _export: Export

    def __init__(self) -> None:
        super().__init__()
        self._model = ChatListModel(self)
        self._delegate = ChatDelegate(self)
        self._pressed = QModelIndex()
        self._frames = QTimer(self, interval=FRAME_MS)
        self._frames.timeout.connect(self._turn_rings)
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
        overlay_bar(self)
        self.setMouseTracking(True)
        on_key(self, Qt.Key.Key_F2)  # for the chat that is marked here, not for the one on show
        self.clicked.connect(self._click)
        self.doubleClicked.connect(self._click_again)

    def watch(
        self, chats: ChatListState, chat: ChatState, answers: Answers, export: Export
    ) -> None:
        """Show this list, the chat on show, and which chats are being answered."""
        self._chats, self._chat, self._answers, self._export = chats, chat, answers, export
        self._model.watch(chats)
        chats.changed.connect(self._show_groups)
        chats.went_on.connect(self._show_first)
        for is_another in (chat.opened, chat.added):
            is_another.connect(self._mark_shown)
        answers.changed.connect(self._show_answering)
        self.selectionModel().selectionChanged.connect(self._keep_mark)

    def _show_groups(self) -> None:
        groups = self._chats.groups
        place = self.verticalScrollBar().value()
        at, selected = self._model.row_at(self.currentIndex()).own_folder, self.selected()
        has_snippets = any(listed.snippet for group in groups for listed in group.chats)
        self.setUniformItemSizes(not has_snippets)  # else each row is asked for its size
        self._model.show_groups(groups)
        self._mark(at.id if at else None, selected)
        self.verticalScrollBar().setValue(place)

    def _show_first(self, heading: str, listed: ListedChat) -> None:
        place, selected = self.verticalScrollBar().value(), self.selected()
        self._model.show_first(heading, listed)
        self._mark(None, selected)
        self.verticalScrollBar().setValue(place)

    def _mark(self, folder: int | None, selected: Sequence[int]) -> None:
        """Select what was selected before, if it is still listed."""
        self._mark_shown()
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

    def _mark_shown(self) -> None:
        """Select the chat that is on show, if it is listed."""
        self._mark_alone(self._model.index_of(self._chat.chat_id))

    def _mark_alone(self, index: QModelIndex) -> None:
        """Select one row only, also while Command is held."""
        marks = self.selectionModel()
        marks.setCurrentIndex(index, marks.SelectionFlag.ClearAndSelect)

    def _mark_shown_again(self) -> None:
        """Select the chat on show after a menu of another chat."""
        is_edited = self.state() == QAbstractItemView.State.EditingState
        if len(self.selectedIndexes()) <= 1 and not is_edited:
            self._mark_shown()

    def _keep_mark(self) -> None:
        """Select the chat on show when a click has selected nothing."""
        if not self.selectedIndexes():
            self._mark_shown()

    def _show_answering(self) -> None:
        chat_ids = self._answers.chat_ids
        self._model.show_answering(chat_ids)
        may_move = self.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) > 0
        if chat_ids and may_move:
            self._frames.start()
        else:
            self._frames.stop()

    def _turn_rings(self) -> None:
        """Paint the next frame of the rings in view."""
        self._delegate.frame += 1
        first, last = (self.indexAt(QPoint(0, y)).row() for y in (0, self.viewport().height() - 1))
        end = last if last >= 0 else self._model.rowCount() - 1
        for row in range(max(first, 0), end + 1):
            index = self._model.index(row)
            if index.data(ANSWERING_ROLE):
                self.update(index)

    def selected(self) -> tuple[int, ...]:
        """Selected chats, from the top."""
        return tuple(listed.chat.id for listed in self._marked())

    @property
    def several(self) -> tuple[int, ...]:
        """Selected chats if they are several, else none."""
        selected = self.selected()
        return selected if len(selected) > 1 else ()

    def _marked(self) -> list[ListedChat]:
        rows = map(self._model.row_at, sorted(self.selectedIndexes()))
        return [row.listed for row in rows if row.listed is not None]

    def rename_folder(self, folder: int) -> None:
        """Open the field to rename a folder in place."""
        index = self._model.index_of_folder(folder)
        self._mark_alone(index)
        self._edit(index)

    def choose_at(self, place: int) -> None:
        """Open the chat at an index of the list, if there is one."""
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
        """Open a chat, unless the click only adds to the selection."""
        if not QGuiApplication.keyboardModifiers() & MANY:
            self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        row = self._model.row_at(index)
        if row.own_folder is not None:
            self._chats.open_folder(row.own_folder.id, not row.own_folder.is_open)
        elif row.listed is not None and not self._chats.shows_trash:
            self.window().setFocus()  # what is typed elsewhere is still of the chat before
            hit = row.listed
            self._chat.open(hit.chat.id, hit.message_id, hit.found)

    def _click_again(self, index: QModelIndex) -> None:
        """Rename a chat, or open and close a folder."""
        if self._model.row_at(index).listed is not None:
            self._edit(index)
        else:
            self._choose(index)

    def _edit(self, index: QModelIndex) -> None:
        if index.isValid() and not self._chats.shows_trash:
            self.setFocus()
            self.edit(index)

    # menus

    def menu_for(self, chats: Sequence[ListedChat]) -> QMenu:
        """Make the menu of a chat, or of several."""
        menu, ids, state = QMenu(self), tuple(listed.chat.id for listed in chats), self._chats
        many = len(chats)
        if state.shows_trash:
            menu.addAction(tr("Restore {n:,} Chats", "Restore", many), lambda: state.restore(*ids))
            menu.addSeparator()
            for_good = tr("Delete {n:,} Chats for Good", "Delete for Good", many)
            menu.addAction(for_good, lambda: state.delete_for_ever(*ids))
            return menu
        if many == 1:
            menu.addAction(tr("Rename"), lambda: self._edit(self._model.index_of(ids[0])))
        is_pinned = all(listed.chat.pinned for listed in chats)
        pin = (
            tr("Unpin {n:,} Chats", "Unpin", many)
            if is_pinned
            else tr("Pin {n:,} Chats", "Pin", many)
        )
        menu.addAction(pin, lambda: state.pin(not is_pinned, *ids))
        if many == 1:
            menu.addAction(tr("Duplicate"), lambda: state.duplicate(ids[0], tr(COPY)))
        menu.addMenu(self._folder_menu(menu, chats, ids))
        if many > 1:
            self._add_export(menu, ids)
        else:
            menu.addAction(tr("Export…"), lambda: self._export(ids, ""))
        menu.addSeparator()
        menu.addAction(tr("Delete {n:,} Chats", "Delete", many), lambda: state.delete(*ids))
        return menu

    def _folder_menu(
        self, parent: QMenu, chats: Sequence[ListedChat], ids: tuple[int, ...]
    ) -> QMenu:
        """Make the menu of folders to move chats to."""
        menu, state = QMenu(tr("Move to Folder"), parent), self._chats
        here = {listed.chat.folder for listed in chats}
        for folder in state.folders:
            action = menu.addAction(unmarked(folder.name))
            action.triggered.connect(lambda _, to=folder.id: state.move(ids, to))
            action.setEnabled(here != {folder.id})
        menu.addSeparator()
        menu.addAction(tr("New Folder"), lambda: self.make_folder(ids))
        out = menu.addAction(tr("Out of Its Folder"), lambda: state.move(ids, None))
        out.setVisible(here != {None})
        return menu

    def make_folder(self, chat_ids: Sequence[int] = ()) -> None:
        """Create a folder with these chats, and open the field for its name."""
        made = self._chats.new_folder(tr("New folder"), chat_ids)
        if made is not None:
            self.rename_folder(made.id)

    def _add_export(self, menu: QMenu, ids: tuple[int, ...]) -> None:
        kinds = menu.addMenu(tr("Export {n:,} Chats", "Export 1 Chat", len(ids)))
        kinds.addAction(tr("As Markdown…"), lambda: self._export(ids, ".md"))
        kinds.addAction(tr("As JSON with Everything…"), lambda: self._export(ids, ".json"))

    def folder_menu_for(self, folder: Folder, ids: tuple[int, ...]) -> QMenu:
        """Make the menu of a folder with these chats."""
        menu = QMenu(self)
        menu.addAction(tr("Rename"), lambda: self.rename_folder(folder.id))
        if ids:
            self._add_export(menu, ids)
        menu.addSeparator()
        keep = tr("Remove Folder, Keep Its Chats") if ids else tr("Remove Folder")
        menu.addAction(keep, lambda: self._chats.remove_folder(folder.id))
        if ids:
            gone = tr("Delete Its {n:,} Chats", "Delete Its 1 Chat", len(ids))
            menu.addAction(gone, lambda: self._chats.delete(*ids))
        return menu

    def _menu_at(self, index: QModelIndex) -> QMenu | None:
        """Return the menu of a row, or of the selection that it belongs to."""
        row = self._model.row_at(index)
        if row.own_folder is not None:
            return self.folder_menu_for(row.own_folder, self._model.chats_in(row.own_folder.id))
        if row.listed is None:
            return None
        marked = self._marked()
        return self.menu_for(marked if row.listed in marked else [row.listed])

    # dragging

    def _dragged(self, data: QMimeData) -> tuple[int, ...]:
        """Return the ids of dragged chats of this list; none in the Trash."""
        if self._chats.shows_trash or not data.hasFormat(CHATS):
            return ()
        return tuple(json.loads(bytes(data.data(CHATS).data())))

    def _folder_under(self, event: QDropEvent) -> int | None:
        folder = self._model.row_at(self.indexAt(event.position().toPoint())).folder
        return folder.id if folder else None

    # Qt

    @override
    def startDrag(self, actions: Qt.DropAction) -> None:
        marked = self._marked()
        if not marked or self._chats.shows_trash:
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
            self._mark_shown()

    @override
    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self._dragged(event.mimeData()):
            event.acceptProposedAction()
        else:
            event.ignore()

    @override
    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        if not self._dragged(event.mimeData()):
            event.ignore()
            return
        super().dragMoveEvent(event)
        self._model.show_target(self._folder_under(event))
        event.acceptProposedAction()

    @override
    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._model.show_target(None)

    @override
    def dropEvent(self, event: QDropEvent) -> None:
        ids = self._dragged(event.mimeData())
        if not ids:
            event.ignore()
            return
        event.acceptProposedAction()
        self._model.show_target(None)
        self._chats.move(ids, self._folder_under(event))

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        is_menu = menu_button(self.visualRect(index)).contains(event.position())
        row = self._model.row_at(index)
        is_left = event.button() == Qt.MouseButton.LeftButton
        if is_left and is_menu and (row.listed or row.own_folder):
            self._pressed = index
        else:
            super().mousePressEvent(event)

    @override
    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed.isValid():
            index, self._pressed = self._pressed, QModelIndex()
            self._open_menu(index, menu_button(self.visualRect(index)).bottomLeft().toPoint())
        else:
            super().mouseReleaseEvent(event)

    @override
    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            self._open_menu(self.indexAt(event.pos()), event.pos())
        else:
            index = self.currentIndex()
            self._open_menu(index, self.visualRect(index).bottomLeft())

    def _open_menu(self, index: QModelIndex, place: QPoint) -> None:
        menu = self._menu_at(index)
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.aboutToHide.connect(self._mark_shown_again)
            menu.popup(self.viewport().mapToGlobal(place))

    @override
    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        had_focus = editor.hasFocus()
        super().closeEditor(editor, hint)
        if had_focus:
            self._mark_shown()
            self.window().setFocus()

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        # Delete does nothing on purpose: too easily pressed. Letters are for the message.
        if self.state() == QAbstractItemView.State.EditingState:
            return  # Return ends the typing, no more
        match event.key():
            case Qt.Key.Key_Escape if self._chats.shows_trash:
                self._chats.show_trash(False)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter | Qt.Key.Key_Space:
                self._choose(self.currentIndex())
            case Qt.Key.Key_F2:
                self._edit(self.currentIndex())
            case _ if event.text().strip() and event.text().isprintable():
                event.ignore()
            case _:
                super().keyPressEvent(event)
