"""A user in front of the sidebar, down to the store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from chat_states import StatedChat
from chat_stores import Clock
from PySide6.QtCore import QMimeData, QObject, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QDrag, QDragEnterEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QPushButton
from pytestqt.qtbot import QtBot

from app.state.chat_list import ChatListState
from app.state.settings import KeptSettings
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.window.controls.icons import IconButton
from app.window.sidebar import chat_list
from app.window.sidebar.sidebar import Sidebar

NOTHING = Qt.KeyboardModifier.NoModifier


class Downloading(QObject):
    """In place of downloads."""

    changed = Signal()
    fraction: float | None = None


class Hands:
    """Clicks, types and drags."""

    def __init__(self, qtbot: QtBot, store: SessionStore, clock: Clock) -> None:
        self._qtbot, self.store = qtbot, store
        self.sidebar = Sidebar()
        qtbot.addWidget(self.sidebar)
        self.sidebar.resize(232, 600)
        self.sidebar.show()
        self.stated = StatedChat(store)
        self.chat, settings = self.stated.chat, KeptSettings(Path("nowhere.json"))
        self.listed = ChatListState(store, self.chat, settings, clock)
        self.downloads = Downloading()
        self.sidebar.watch(
            self.listed, self.chat, self.stated.answers, self.downloads, lambda *_: None
        )
        self.opened: list[int] = []
        self.chat.opened.connect(self._note_opened)
        self.listed.refresh()

    def _note_opened(self) -> None:
        if self.chat.chat_id is not None:
            self.opened.append(self.chat.chat_id)

    def chats(self, *titles: str) -> list[int]:
        ids = [self.store.chats.create(ChatSettings(), title) for title in titles]
        self.listed.refresh()
        return ids

    @property
    def rows(self) -> list[str]:
        model = self.sidebar.list.model()
        return [model.index(row, 0).data() for row in range(model.rowCount())]

    def place(self, title: str) -> QPoint:
        index = self.sidebar.list.model().index(self.rows.index(title), 0)
        return self.sidebar.list.visualRect(index).center()

    def click(self, title: str, held: Qt.KeyboardModifier = NOTHING) -> None:
        viewport = self.sidebar.list.viewport()
        self._qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, held, self.place(title))

    def double_click(self, title: str) -> None:
        self.click(title)
        viewport = self.sidebar.list.viewport()
        self._qtbot.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=self.place(title))

    def key(self, key: Qt.Key) -> None:
        self._qtbot.keyClick(self.sidebar.list, key)

    def press(self, words: str) -> None:
        buttons = self.sidebar.findChildren(QPushButton)
        button = next(b for b in buttons if b.text() == words and b.isVisible())
        self._qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def wait(self, is_so: Callable[[], bool]) -> None:
        self._qtbot.waitUntil(is_so)

    def press_icon(self, name: str) -> None:
        buttons = self.sidebar.findChildren(IconButton)
        button = next(b for b in buttons if b.accessibleName() == name and b.isVisible())
        self._qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def type_title(self, title: str) -> None:
        editors = self.sidebar.list.viewport().findChildren(QLineEdit)
        editor = next(one for one in editors if one.isVisible())
        editor.selectAll()
        self._qtbot.keyClicks(editor, title)
        self._qtbot.keyClick(editor, Qt.Key.Key_Return)
        self._qtbot.waitUntil(lambda: title in self.rows)

    def choose(self, title: str, words: str, *, by_keys: bool, click: bool = True) -> None:
        """Open a row's menu, go down to an entry with the arrow key, and press Return."""
        chats = self.sidebar.list
        if click:
            self.click(title)
        elif by_keys:
            index = chats.model().index(self.rows.index(title), 0)
            chats.selectionModel().setCurrentIndex(
                index, chats.selectionModel().SelectionFlag.NoUpdate
            )
        place = self.place(title)
        reason = QContextMenuEvent.Reason.Keyboard if by_keys else QContextMenuEvent.Reason.Mouse
        QApplication.sendEvent(
            chats.viewport(), QContextMenuEvent(reason, place, chats.mapToGlobal(place))
        )
        menu = next(m for m in chats.findChildren(QMenu) if m.isVisible())
        for _ in range(10):
            self._qtbot.keyClick(menu, Qt.Key.Key_Down)
            active = menu.activeAction()
            if active is not None and active.text() == words:
                break
        self._qtbot.keyClick(menu, Qt.Key.Key_Return)
        QApplication.processEvents()

    def _folders(self, title: str, menu: str) -> QMenu:
        chats = self.sidebar.list
        place = self.place(title)
        mouse = QContextMenuEvent.Reason.Mouse
        QApplication.sendEvent(
            chats.viewport(), QContextMenuEvent(mouse, place, chats.mapToGlobal(place))
        )
        shown = next(m for m in chats.findChildren(QMenu) if m.isVisible())
        found = next(m for m in shown.findChildren(QMenu) if m.title() == menu)
        assert isinstance(found, QMenu)
        return found

    def sub_entries(self, title: str, menu: str) -> list[str]:
        """Of a menu in a row's menu, those that are there."""
        found = self._folders(title, menu)
        shown = [one for one in found.actions() if one.isVisible() and not one.isSeparator()]
        words = [one.text() for one in shown]
        found.parentWidget().close()
        return words

    def choose_sub(self, title: str, menu: str, words: str) -> None:
        """An entry of a menu in a row's menu."""
        found = self._folders(title, menu)
        next(one for one in found.actions() if one.text() == words and one.isEnabled()).trigger()
        found.parentWidget().close()
        QApplication.processEvents()

    def drag(self, onto: str) -> bool:
        """What is marked, let go over a row; whether it was taken."""
        chats = self.sidebar.list
        dragged: list[QMimeData] = []

        class Drag(QDrag):
            def exec(self, *_: object) -> Qt.DropAction:  # type: ignore[override]
                dragged.append(self.mimeData())
                return Qt.DropAction.MoveAction

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chat_list, "QDrag", Drag)
            chats.startDrag(Qt.DropAction.MoveAction)
        return all(self.let_go(data, onto) for data in dragged) and bool(dragged)

    def let_go(self, data: QMimeData, onto: str) -> bool:
        """Move something over the list, and drop it on a row if it is let in."""
        viewport, place = self.sidebar.list.viewport(), self.place(onto)
        how = (Qt.DropAction.MoveAction, data, Qt.MouseButton.LeftButton, NOTHING)
        enter = QDragEnterEvent(place, *how)
        QApplication.sendEvent(viewport, enter)
        if not enter.isAccepted():
            return False
        QApplication.sendEvent(viewport, QDragMoveEvent(place, *how))
        drop = QDropEvent(QPointF(place), *how)
        QApplication.sendEvent(viewport, drop)
        assert drop.isAccepted(), "what is let in is taken"
        return True
