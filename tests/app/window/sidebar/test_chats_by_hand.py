"""What is done with chats by keys and by mouse, from the sidebar down to the store."""

import time

import pytest
from chat_stores import Clock
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox
from sidebar_hands import Hands

from app.store.session_store import open_store

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
DAY_S = 24 * 3600.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    made = open_store(tmp_path / "chats.db", clock)
    yield made
    made.close()


@pytest.fixture
def hands(qtbot, store, clock):
    return Hands(qtbot, store, clock)


def test_opening_with_mouse_and_keys(hands):
    first, second = hands.chats("First", "Second")
    hands.click("First")
    hands.key(Qt.Key.Key_Up)
    hands.key(Qt.Key.Key_Return)
    hands.key(Qt.Key.Key_Down)
    hands.key(Qt.Key.Key_Space)
    assert hands.opened == [first, second, first]


def test_renaming_with_f2_and_with_a_double_click(hands):
    (chat,) = hands.chats("Old")
    hands.click("Old")
    hands.key(Qt.Key.Key_F2)
    hands.type_title("By key")
    assert hands.store.chats.get(chat).title == "By key"
    hands.double_click("By key")
    hands.type_title("By mouse")
    assert hands.store.chats.get(chat).title == "By mouse"


@pytest.mark.parametrize("by_keys", [True, False])
def test_pinning_and_copying_from_the_menu(hands, by_keys):
    hands.chats("Kernels", "Recipe")
    hands.choose("Kernels", "Pin", by_keys=by_keys)
    assert hands.rows == ["Pinned", "Kernels", "Today", "Recipe"]
    hands.choose("Kernels", "Unpin", by_keys=by_keys)
    assert hands.rows == ["Today", "Recipe", "Kernels"]
    hands.choose("Recipe", "Duplicate", by_keys=by_keys)
    assert hands.rows == ["Today", "Recipe (copy)", "Recipe", "Kernels"]
    assert hands.store.chats.get(hands.opened[-1]).title == "Recipe (copy)"


@pytest.mark.parametrize("by_keys", [True, False])
def test_deleting_undoing_and_the_bin(hands, by_keys):
    first, second = hands.chats("First", "Second")
    hands.choose("First", "Delete", by_keys=by_keys)
    assert hands.rows == ["Today", "Second"]
    hands.press("Undo")
    assert hands.rows == ["Today", "Second", "First"] and hands.opened[-1] == first
    hands.choose("First", "Delete", by_keys=by_keys)
    hands.choose("Second", "Delete", by_keys=by_keys)
    hands.press("Trash")
    assert hands.rows[0] == "Trash" and set(hands.rows[1:]) == {"First", "Second"}
    hands.choose("First", "Restore", by_keys=by_keys)
    hands.choose("Second", "Delete for Good", by_keys=by_keys)
    assert hands.rows == []
    hands.press("Trash")
    assert hands.rows == ["Today", "First"]
    assert [chat.id for chat in hands.store.chats.listed()] == [first] != [second]


def test_ways_out_of_the_trash_and_to_empty_it(hands):
    chats = hands.sidebar.list
    hands.chats("First", "Second", "Third")
    hands.listed.delete(*hands.chats("Gone", "Gone too"))
    hands.press("Trash")
    assert chats.hasFocus() and hands.rows[0] == "Trash"
    hands.key(Qt.Key.Key_Escape)
    assert hands.rows[0] == "Today" and not hands.listed.shows_trash
    hands.press("Trash")
    hands.press("Back to Chats")
    assert hands.rows[0] == "Today"
    hands.press("Trash")
    for button, left in (("Cancel", ["Trash", "Gone", "Gone too"]), ("Empty Trash", [])):
        hands.press_icon("Empty Trash…")
        (box,) = [b for b in hands.sidebar.findChildren(QMessageBox) if b.isVisible()]
        assert box.text() == "Delete 2 chats for good?"
        next(b for b in box.buttons() if b.text() == button).click()
        assert sorted(hands.rows) == sorted(left)
    assert hands.listed.deeds.newest is None
    hands.sidebar.start_search()
    field = QApplication.focusWidget()
    QTest.keyClicks(field, "thi")
    hands.wait(lambda: hands.rows == ["Found", "Third"])
    assert hands.sidebar.focusWidget() is field
    hands.sidebar.clear_search()
    hands.press("Trash")
    hands.key(Qt.Key.Key_Escape)
    assert hands.rows == ["Today", "Third", "Second", "First"]


def test_ten_thousand_chats_can_all_be_reached(hands):
    sql = "INSERT INTO chat (title, created_at, updated_at, settings) VALUES (?, ?, ?, '{}')"
    with hands.store.database.transaction():
        for number in range(10_000):
            at = 1.7e9 + 3000.0 * number
            hands.store.database.insert(sql, f"Chat {number}", at, at)
    began = time.thread_time()
    hands.listed.refresh()
    assert time.thread_time() - began < 1.0
    chats = hands.sidebar.list
    chats.setFocus()
    hands.click(hands.rows[1])
    hands.key(Qt.Key.Key_End)
    QApplication.processEvents()
    hands.key(Qt.Key.Key_Return)
    assert hands.store.chats.get(hands.opened[-1]).title == "Chat 0"
    assert chats.viewport().rect().contains(hands.place("Chat 0"))
