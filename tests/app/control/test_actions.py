"""Every command stands in a menu once, is enabled when it can be run, and is found by typing."""

from collections import Counter
from unittest.mock import Mock

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QMenu, QMessageBox, QPlainTextEdit, QTreeWidget
from scripted_engine import Answer
from windows import Driven

from app.window.layers import Palette, found

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
CTRL = Qt.KeyboardModifier.ControlModifier
BROUGHT_ALONG = {
    "new-chat": "Ctrl+N",
    "search": "Ctrl+K",
    "palette": "Ctrl+Shift+P",
    "sidebar": "Ctrl+B",
    "regenerate": "Ctrl+R",
    "stop": "Esc",
    "settings": "Ctrl+,",
    "find": "Ctrl+F",
    "find-next": "Ctrl+G",
    "find-previous": "Ctrl+Shift+G",
    "undo": "Ctrl+Z",
    "delete-chat": "Ctrl+Backspace",
    "copy-answer": "Ctrl+Shift+C",
    "larger": "Ctrl++",
    "smaller": "Ctrl+-",
    "actual-size": "Ctrl+0",
    "drafted-words": "Ctrl+Shift+D",
}
"""Shortcuts people know from other chat apps; Ctrl is the Command key on a Mac."""


def test_every_command_is_in_a_menu_once_and_no_two_share_a_key(driven):
    actions, bar = driven.app.actions, driven.widgets.window.menuBar()
    menus = [menu for menu in bar.findChildren(QMenu) if menu.title()]
    entries = [entry for menu in menus for entry in menu.actions()]
    in_menus = [entry for entry in entries if not entry.isSeparator() and entry.menu() is None]
    assert sorted(map(id, in_menus)) == sorted(map(id, actions))
    keys = Counter(k.toString() for action in actions for k in action.shortcuts())
    assert [key for key, count in keys.items() if count > 1] == []
    assert not {"Del", "Backspace"} & set(keys)
    assert ("Ctrl+Shift+D", "Show Drafted Words") in actions.shortcuts()
    for name, shortcut in BROUGHT_ALONG.items():
        assert shortcut in [key.toString() for key in actions[name].shortcuts()]
    roles = {action.objectName(): action.menuRole() for action in actions}
    role = QAction.MenuRole
    assert roles.pop("settings") == role.PreferencesRole
    assert roles.pop("quit") == role.QuitRole
    assert roles.pop("about") == role.AboutRole
    assert set(roles.values()) == {role.NoRole}, "a Mac moves none of them by its words"


def box(driven: Driven) -> QPlainTextEdit:
    found = driven.widgets.composer.focusProxy()
    assert isinstance(found, QPlainTextEdit)
    return found


def press(driven: Driven, key: Qt.Key, held: Qt.KeyboardModifier = CTRL) -> None:
    """As the system does, which asks for shortcuts first."""
    window = driven.widgets.window
    window.activateWindow()
    driven.until(window.isActiveWindow)
    QTest.keyClick(window.windowHandle(), key, held)


def test_a_deleted_chat_is_undone_by_the_key_in_the_empty_message(driven):
    driven.ask("Precious")
    number, undo = driven.app.chat.chat_id, driven.app.actions["undo"]
    assert not undo.isEnabled()
    press(driven, Qt.Key.Key_Backspace)
    assert driven.app.chat.chat_id is None and undo.isEnabled()
    press(driven, Qt.Key.Key_Z)
    assert driven.app.chat.chat_id == number and not undo.isEnabled()
    redo = driven.app.actions["redo"]
    assert redo.isEnabled()
    redo.trigger()
    assert driven.app.chat.chat_id is None and undo.isEnabled() and not redo.isEnabled()
    undo.trigger()
    assert driven.app.chat.chat_id == number and redo.isEnabled()
    driven.app.chats.deeds.add("Something else", lambda: None)
    assert not redo.isEnabled()


def test_the_keys_of_a_message_are_its_own_while_it_has_text(driven):
    driven.ask("Precious")
    number, text = driven.app.chat.chat_id, box(driven)
    QTest.keyClicks(text, "some words")
    press(driven, Qt.Key.Key_Backspace)
    assert driven.app.chat.chat_id == number
    driven.app.chats.deeds.add("Something", lambda: pytest.fail("the text comes first"))
    before = text.toPlainText()
    press(driven, Qt.Key.Key_Z)
    assert text.toPlainText() != before


def test_a_deletion_is_undone_before_what_was_typed_before_it(driven):
    driven.ask("Precious")
    number, text = driven.app.chat.chat_id, box(driven)
    QTest.keyClicks(text, "some words")
    text.selectAll()
    press(driven, Qt.Key.Key_X)
    driven.app.chats.deeds.add("Something", deed := Mock())
    press(driven, Qt.Key.Key_Z)
    deed.assert_called_once_with()
    assert (driven.app.chat.chat_id, text.toPlainText()) == (number, "")


def test_undo_in_the_menu_is_of_the_text_that_has_the_focus(driven):
    undo, text = driven.app.actions["undo"], box(driven)
    text.setFocus()
    QTest.keyClicks(text, "words")
    driven.app.actions.refresh()
    assert undo.isEnabled()
    undo.trigger()
    assert text.toPlainText() == ""
    text.clear()
    driven.app.actions.refresh()
    assert not undo.isEnabled()


def test_numbers_choose_chats(driven):
    numbers = []
    for words in ("One", "Two"):
        driven.app.chats.begin()
        driven.ask(words)
        numbers.append(driven.app.chat.chat_id)
    press(driven, Qt.Key.Key_2)
    assert driven.app.chat.chat_id == numbers[0]
    press(driven, Qt.Key.Key_1)
    assert driven.app.chat.chat_id == numbers[1]


def test_what_can_be_done_now_is_enabled(driven, source):
    actions = driven.app.actions
    of_a_chat = ("rename-chat", "pin-chat", "duplicate-chat", "delete-chat", "export-chat")
    asking = ("regenerate", "continue")
    assert not any(actions[name].isEnabled() for name in (*of_a_chat, *asking, "stop", "undo"))
    assert actions["eject"].isEnabled()
    source.engines["None"].answers.append(Answer("word " * 400, pause_s=0.01))
    driven.send("Go")
    assert actions["stop"].isEnabled() and all(actions[name].isEnabled() for name in of_a_chat)
    assert not any(actions[name].isEnabled() for name in asking)
    actions["stop"].trigger()
    driven.until_answered()
    assert not actions["stop"].isEnabled() and all(actions[name].isEnabled() for name in asking)
    actions["eject"].trigger()
    assert not actions["eject"].isEnabled()


def palette(driven: Driven) -> Palette:
    driven.app.actions["palette"].trigger()
    return next(one for one in driven.widgets.window.findChildren(Palette) if one.isVisible())


def test_the_palette_runs_what_is_typed(driven):
    opened = palette(driven)
    field, listed = opened.findChild(QLineEdit), opened.findChild(QTreeWidget)
    words = [listed.topLevelItem(row).text(0) for row in range(listed.topLevelItemCount())]
    assert "New Chat" in words and "Delete Chat" not in words, "there is no chat"
    high = opened.height()
    QTest.keyClicks(field, "draf v")
    assert opened.height() < high / 2, "as high as what it lists"
    assert listed.currentItem().text(0) == "Drafting View"
    assert listed.currentItem().text(1) == "Ctrl+Shift+I"
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert driven.widgets.window.is_shown("drafting")
    driven.app.actions["drafting"].trigger()


def test_the_palette_is_left_with_escape_and_walked_with_arrows(driven):
    opened = palette(driven)
    field, listed = opened.findChild(QLineEdit), opened.findChild(QTreeWidget)
    for key, row in ((Qt.Key.Key_Down, 1), (Qt.Key.Key_Up, 0), (Qt.Key.Key_Up, 0)):
        QTest.keyClick(field, key)
        assert listed.currentIndex().row() == row
    QTest.keyClicks(field, "nothing like this")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert opened.isVisible()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert not opened.isVisible()


@pytest.mark.parametrize(
    ("typed", "best"),
    [
        ("", "New Chat"),
        ("nf", "New Folder"),
        ("fn", "Find Next"),
        ("set", "Settings…"),
        ("chat", "Chat Settings"),
        ("dcha", "Delete Chat"),
    ],
)
def test_the_best_is_first(qapp, typed, best):
    words = ("New Chat", "New Folder", "Settings…", "Chat Settings", "Find Next", "Delete Chat")
    actions = [QAction(text) for text in words]
    assert found(typed, actions)[0].text() == best
    assert found("xyz", actions) == []


def test_the_list_of_shortcuts_fits_on_a_small_screen(driven):
    driven.app.actions["shortcuts"].trigger()
    shown = driven.widgets.window.findChild(QMessageBox)
    assert "Jump to Latest" in shown.informativeText()
    assert shown.sizeHint().height() < 600
    shown.close()
