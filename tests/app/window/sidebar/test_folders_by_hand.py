"""Folders and several chats at once, by keys and by mouse, from the sidebar down to the store."""

import os

import pytest
from chat_stores import Clock
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from seen import press
from sidebar_hands import Hands

from app.store.session_store import open_store
from app.window.sidebar.chat_list import CHATS

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
ADD, UP_TO = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def store(tmp_path):
    made = open_store(tmp_path / "chats.db", Clock())
    yield made
    made.close()


@pytest.fixture
def hands(qtbot, store):
    return Hands(qtbot, store, Clock())


def make_folder(hands: Hands, name: str) -> int:
    press(hands.sidebar, "New folder")
    hands.type_title(name)
    return next(one.id for one in hands.store.folders.listed() if one.name == name)


def folder_of(hands: Hands, chat: int) -> int | None:
    return hands.store.chats.get(chat).folder


def test_a_folder_is_made_named_opened_and_closed(hands):
    hands.chats("Loose")
    work = make_folder(hands, "Work")
    assert hands.rows == ["Work", "Today", "Loose"]
    hands.store.folders.move([hands.chats("Inside")[0]], work)
    hands.listed.refresh()
    assert hands.rows == ["Work", "Inside", "Today", "Loose"]
    hands.click("Work")
    assert hands.rows == ["Work", "Today", "Loose"]
    hands.click("Work")
    hands.click("Work")
    hands.key(Qt.Key.Key_Return)
    hands.key(Qt.Key.Key_Return)
    assert hands.rows == ["Work", "Today", "Loose"], "the keys stay with the folder"
    hands.key(Qt.Key.Key_F2)
    hands.type_title("Play")
    assert [folder.name for folder in hands.store.folders.listed()] == ["Play"]


def test_chats_are_dragged_into_a_folder_and_out(hands):
    first, second, third = hands.chats("First", "Second", "Third")
    work = make_folder(hands, "Work")
    hands.click("Third")
    hands.click("First", ADD)
    assert hands.opened == [third], "a click that adds opens nothing"
    assert hands.drag("Work")
    assert [folder_of(hands, chat) for chat in (first, second, third)] == [work, None, work]
    assert hands.rows == ["Work", "Third", "First", "Today", "Second"]
    hands.click("First")
    assert hands.drag("Second")
    assert folder_of(hands, first) is None
    hands.click("Second")
    assert hands.drag("Third"), "a chat stands for the folder it is in"
    assert folder_of(hands, second) == work
    for now in ([None, None, work], [None, work, work], [None, None, None]):
        hands.listed.deeds.undo()
        assert [folder_of(hands, chat) for chat in (second, first, third)] == now
    for now in ([None, work, work], [None, None, work], [work, None, work]):
        hands.listed.deeds.redo()
        assert [folder_of(hands, chat) for chat in (second, first, third)] == now
    assert not hands.listed.deeds.can_redo
    hands.listed.remove_folder(work)
    hands.listed.deeds.undo()
    hands.listed.deeds.redo()
    assert hands.listed.folders == () and folder_of(hands, third) is None


def test_what_goes_nowhere_changes_nothing(hands):
    (chat,) = hands.chats("Alone")
    work = make_folder(hands, "Work")
    hands.click("Alone")
    hands.drag("Alone")
    assert folder_of(hands, chat) is None
    hands.drag("Work")
    hands.click("Alone")
    hands.drag("Alone")
    hands.drag("Work")
    assert folder_of(hands, chat) == work
    hands.click("Work")
    assert not hands.drag("Work"), "a folder is not dragged"


def test_files_over_the_list_are_for_the_window(hands):
    hands.chats("One")
    files = QMimeData()
    files.setUrls([QUrl.fromLocalFile("/tmp/model.gguf")])
    assert not hands.let_go(files, "One")


def test_chats_of_another_window_are_not_taken(hands):
    """That of another profile numbers its own."""
    hands.chats("One")
    make_folder(hands, "Work")
    others = QMimeData()
    others.setData(CHATS.replace(str(os.getpid()), str(os.getppid())), b"[1]")
    assert not hands.let_go(others, "Work")


def test_a_dragged_chat_that_is_gone_is_said(hands):
    said: list[str] = []
    hands.listed.failed.connect(said.append)
    (chat,) = hands.chats("Alone")
    make_folder(hands, "Work")
    hands.click("Alone")
    hands.store.chats.delete_for_ever(chat)
    hands.drag("Work")
    assert said == [f"Chat {chat} is not there any more: open another."]


@pytest.mark.parametrize("by_keys", [True, False])
def test_several_are_deleted_and_taken_back_at_once(hands, by_keys):
    hands.chats("One", "Two", "Three", "Four")
    hands.click("Four")
    hands.click("Two", UP_TO)
    hands.choose("Three", "Delete 3 Chats", by_keys=by_keys, click=False)
    assert hands.rows == ["Today", "One"]
    hands.press("Undo")
    assert hands.rows == ["Today", "Four", "Three", "Two", "One"]
    hands.click("Four")
    hands.click("Two", UP_TO)
    hands.choose("Three", "Pin 3 Chats", by_keys=by_keys, click=False)
    assert hands.rows == ["Pinned", "Four", "Three", "Two", "Today", "One"]
    assert len(hands.sidebar.list.selected()) == 3, "they stay marked"
    hands.choose("Three", "Delete 3 Chats", by_keys=by_keys, click=False)
    hands.press("Trash")
    hands.click("Four")
    hands.click("Three", UP_TO)
    hands.choose("Three", "Restore 2 Chats", by_keys=by_keys, click=False)
    assert hands.rows == ["Trash", "Two"]


def test_a_menu_of_another_chat_leaves_the_chat_on_show_marked(hands):
    chats = hands.sidebar.list
    shown, _ = hands.chats("Ants", "Bees")
    hands.click("Ants")
    place = hands.place("Bees")
    QTest.mouseClick(chats.viewport(), Qt.MouseButton.RightButton, pos=place)
    mouse = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(
        chats.viewport(), QContextMenuEvent(mouse, place, chats.mapToGlobal(place))
    )
    menu = next(menu for menu in chats.findChildren(QMenu) if menu.isVisible())
    menu.close()
    assert chats.selected() == (shown,)


def test_a_menu_beside_what_is_marked_is_of_its_own_row(hands):
    hands.chats("One", "Two", "Three")
    hands.click("Three")
    hands.click("Two", ADD)
    hands.choose("One", "Delete", by_keys=False, click=False)
    assert hands.rows == ["Today", "Three", "Two"]


def test_moving_by_the_menu(hands):
    first, second = hands.chats("First", "Second")
    work = make_folder(hands, "R&D")
    hands.click("First")
    hands.click("Second", ADD)
    assert hands.sub_entries("First", "Move to Folder") == ["R&&D", "New Folder"]
    hands.choose_sub("First", "Move to Folder", "R&&D")
    assert folder_of(hands, first) == folder_of(hands, second) == work
    hands.choose_sub("First", "Move to Folder", "Out of Its Folder")
    assert folder_of(hands, first) is None and folder_of(hands, second) is None
    hands.click("First")
    hands.choose_sub("First", "Move to Folder", "New Folder")
    hands.type_title("Play")
    assert hands.rows == ["Play", "First", "R&D", "Today", "Second"]


def test_a_folder_is_removed_with_or_without_its_chats(hands):
    first, second = hands.chats("First", "Second")
    work = make_folder(hands, "Work")
    hands.store.folders.move([first, second], work)
    hands.listed.refresh()
    hands.choose("Work", "Remove Folder, Keep Its Chats", by_keys=True, click=False)
    assert hands.rows == ["Today", "Second", "First"]
    hands.press("Undo")
    assert hands.rows == ["Work", "Second", "First"]
    hands.choose("Work", "Delete Its 2 Chats", by_keys=False, click=False)
    assert hands.rows == ["Work"]
    hands.press("Undo")
    assert hands.rows == ["Work", "Second", "First"]


def test_a_pinned_chat_stays_in_its_folder_at_its_top(hands):
    first, second = hands.chats("First", "Second")
    hands.store.folders.move([first, second], make_folder(hands, "Work"))
    hands.listed.pin(True, first)
    assert hands.rows == ["Work", "First", "Second"]
    hands.store.messages.add(second, None, "user", "hello")
    hands.listed.show_changed(second)
    assert hands.rows == ["Work", "First", "Second"]


def test_a_new_folder_is_seen_from_a_search_and_from_the_bin(hands):
    hands.chats("One")
    hands.listed.search("one")
    make_folder(hands, "Work")
    assert hands.rows == ["Work", "Today", "One"]
    hands.press("Trash")
    make_folder(hands, "Play")
    assert hands.rows == ["Play", "Work", "Today", "One"]
