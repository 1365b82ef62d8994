"""The sidebar lists, finds, renames and gives back; it never deletes by a slip of the hand."""

import pytest
from chat_stores import Clock
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QMenu
from sidebar_hands import Hands

from app.state.chat_list import Deeds
from app.store.session_store import open_store
from app.values.chats import TextRange
from app.window.controls.notice_bar import UndoBar
from app.window.sidebar.chat_delegate import _bold, _marks
from app.window.sidebar.chat_list import ChatList

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support (raise|grabbing)", extend=True)


@pytest.fixture
def hands(qtbot, tmp_path):
    store = open_store(tmp_path / "chats.db", Clock())
    yield Hands(qtbot, store, Clock())
    store.close()


def first_chats(hands: Hands) -> list[int]:
    """One that is pinned, and two of today."""
    ids = hands.chats("Recipe", "MTP notes", "Kernels")
    hands.listed.pin(True, ids[2])
    assert hands.rows == ["Pinned", "Kernels", "Today", "MTP notes", "Recipe"]
    return [ids[2], ids[1], ids[0]]


def editor_of(chats: ChatList) -> QLineEdit:
    editor = chats.viewport().findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    return editor


def test_a_click_opens_a_chat_and_a_heading_does_nothing(hands):
    first_chats(hands)
    hands.click("Today")
    assert hands.opened == []
    hands.click("MTP notes")
    assert [hands.chat.title, len(hands.opened)] == ["MTP notes", 1]


def test_keys_move_over_headings(hands):
    kernels, notes, recipe = first_chats(hands)
    hands.chat.open(kernels)
    for step in (1, 1, 1, -1):
        hands.sidebar.list.choose_neighbour(step)
    assert hands.opened == [kernels, notes, recipe, recipe, notes]


@pytest.mark.parametrize("key", [Qt.Key.Key_Delete, Qt.Key.Key_Backspace])
def test_no_bare_key_deletes(hands, key):
    hands.chats("Kernels")
    hands.click("Kernels")
    hands.key(key)
    assert hands.rows == ["Today", "Kernels"]


def test_a_long_name_is_changed_from_its_beginning(qtbot, hands):
    hands.chats("MTP notes")
    hands.double_click("MTP notes")
    editor = editor_of(hands.sidebar.list)
    qtbot.waitUntil(lambda: editor.cursorPosition() == 0)
    assert editor.selectedText() == editor.text()


@pytest.mark.parametrize(
    ("typed", "last", "title"),
    [
        ("Oops", Qt.Key.Key_Escape, "MTP notes"),
        ("", Qt.Key.Key_Return, "MTP notes"),
        ("  ", Qt.Key.Key_Return, "MTP notes"),
        (" Heads ", Qt.Key.Key_Return, "Heads"),
    ],
)
def test_a_name_is_taken_without_blanks_around_it_and_never_empty(qtbot, hands, typed, last, title):
    (chat,) = hands.chats("MTP notes")
    hands.double_click("MTP notes")
    editor = editor_of(hands.sidebar.list)
    editor.setText(typed)
    qtbot.keyClick(editor, last)
    qtbot.waitUntil(lambda: hands.sidebar.list.viewport().findChild(QLineEdit) is None)
    qtbot.waitUntil(lambda: hands.rows == ["Today", title])
    assert hands.store.chats.get(chat).title == title


def test_the_menu_offers_what_can_be_done(hands):
    hands.chats("Kernels")

    def offered() -> list[str]:
        chats = hands.sidebar.list
        row = chats.model().row_at(chats.model().index(1, 0))
        menu = chats.menu_for([row.listed])
        return [action.text() for action in menu.actions() if not action.isSeparator()]

    assert offered() == ["Rename", "Pin", "Duplicate", "Move to Folder", "Export…", "Delete"]
    hands.choose("Kernels", "Delete", by_keys=False)
    hands.listed.show_trash(True)
    assert offered() == ["Restore", "Delete for Good"]
    hands.click("Kernels")
    assert len(hands.opened) == 1, "chats in the Trash do not open"


def test_the_button_of_a_row_opens_its_menu_and_nothing_else(qtbot, hands):
    hands.chats("Kernels", "Recipe")
    hands.click("Recipe")
    chats = hands.sidebar.list
    row = chats.visualRect(chats.model().index(hands.rows.index("Kernels"), 0))
    place = row.center()
    place.setX(row.right() - 16)
    QTest.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    menu = next(menu for menu in chats.findChildren(QMenu) if menu.isVisible())
    next(action for action in menu.actions() if action.text() == "Delete").trigger()
    menu.close()
    assert hands.rows == ["Today", "Recipe"] and len(hands.opened) == 1


def test_a_ring_turns_while_a_chat_is_answered(qtbot, hands):
    hands.chats("Kernels")
    hands.click("Kernels")
    chats = hands.sidebar.list
    hands.chat.send("Why?")
    before = chats.grab().toImage()
    qtbot.waitUntil(lambda: chats.grab().toImage() != before)
    hands.stated.answer(qtbot, "Therefore.")
    still = chats.grab().toImage()
    qtbot.wait(200)
    assert chats.grab().toImage() == still != before


def test_a_ring_fills_while_models_are_downloaded(hands):
    models, rings = hands.sidebar.models, []
    for fraction in (None, 0.25, 0.75, None):
        hands.downloads.fraction = fraction
        hands.downloads.changed.emit()
        rings.append(models.grab().toImage())
        assert models.accessibleDescription() == (
            "" if fraction is None else f"Downloading: {100 * fraction:.0f}%"
        )
    assert rings[0] == rings[3] and rings[1] != rings[2] != rings[0]


def test_searching_waits_for_a_pause(qtbot, hands):
    hands.chats("Kernels", "Recipe")
    field = hands.sidebar.findChild(QLineEdit)
    qtbot.keyClicks(field, "kern")
    assert hands.rows == ["Today", "Recipe", "Kernels"]
    qtbot.waitUntil(lambda: hands.rows == ["Found", "Kernels"])


def test_what_was_found_is_shown_below_its_title(hands):
    (chat,) = hands.chats("Kernels")
    hands.store.messages.add(chat, None, "user", "A whale in a text")
    plain = hands.sidebar.list.sizeHintForRow(1)
    hands.listed.search("whale")
    assert hands.sidebar.list.sizeHintForRow(1) > plain
    assert not hands.sidebar.grab().isNull()


def test_what_was_done_one_after_the_other_is_undone_from_the_last_to_the_first(hands):
    hands.chats("One", "Two", "Three")
    for title in ("One", "Two", "Three"):
        hands.choose(title, "Delete", by_keys=False)
    for undone in ("Three", "Two", "One"):
        hands.press("Undo")
        assert hands.chat.title == undone
    assert hands.sidebar.undo.isHidden()
    hands.listed.deeds.undo()
    assert len(hands.rows) == 4


def test_a_deed_can_be_undone_when_nothing_is_said_of_it_any_more(hands):
    hands.chats("One")
    hands.choose("One", "Delete", by_keys=False)
    hands.sidebar.undo.hide()
    hands.listed.deeds.undo()
    assert hands.rows == ["Today", "One"]


def test_what_is_deleted_for_good_is_not_undone(hands):
    (chat,) = hands.chats("One")
    hands.listed.delete(chat)
    hands.listed.delete_for_ever(chat)
    assert hands.listed.deeds.newest is None


def test_what_can_be_undone_is_said_in_whole(qtbot):
    words, deeds, bar = "Removed the folder Letters to the editor", Deeds(), UndoBar()
    qtbot.addWidget(bar)
    bar.watch(deeds)
    deeds.add(words, lambda: None)
    said = next(one for one in bar.findChildren(QLabel) if one.text() == words)
    assert said.wordWrap() and said.minimumWidth() < said.sizeHint().width()


def test_nothing_to_list_is_said(hands):
    def said() -> str:
        return " ".join(one.text() for one in hands.sidebar.findChildren(QLabel) if one.isVisible())

    assert "listed here" in said()
    hands.listed.show_trash(True)
    assert "Trash is empty" in said()
    hands.listed.search("nothing")
    assert "Nothing found" in said()


@pytest.mark.parametrize(
    ("elided", "marked"),
    [("a zebra", ["zebra"]), ("a zeb…", ["zeb"]), ("a…", []), ("\U0001f600 ze…", ["ze"])],
)
def test_what_was_found_is_marked_as_far_as_the_title_is_seen(elided, marked):
    marks = _marks(elided, "a zebra", (TextRange(2, 7),))
    raw = elided.encode("utf-16-le")
    assert [
        raw[2 * m.start : 2 * (m.start + m.length)].decode("utf-16-le") for m in marks
    ] == marked


def test_search_marks_the_letters_found_after_an_emoji_and_at_the_end():
    """Qt counts an emoji as two."""
    title = "\U0001f98a zebra"
    found = _bold(title, TextRange(2, 7))
    assert (found.start, found.length) == (3, 5)
