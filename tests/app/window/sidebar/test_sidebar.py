"""The sidebar lists, finds, renames and gives back; it never deletes by a slip of the hand."""

import functools

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from app.values.chats import ChatGroup, ChatSummary, ListedChat, TextRange
from app.window.sidebar.chat_delegate import _bold
from app.window.sidebar.sidebar import Sidebar


def chat(number: int, title: str = "", pinned: bool = False) -> ListedChat:
    return ListedChat(ChatSummary(number, title, pinned, 0.0, 0.0))


GROUPS = (
    ChatGroup("Pinned", (chat(1, "Kernels", pinned=True),)),
    ChatGroup("Today", (chat(2, "MTP notes"), chat(3))),
)


@pytest.fixture
def sidebar(qtbot):
    made = Sidebar()
    qtbot.addWidget(made)
    made.resize(232, 600)
    made.show()
    made.show_groups(GROUPS)
    return made


def texts(sidebar: Sidebar) -> list[str]:
    model = sidebar.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def click(qtbot: QtBot, sidebar: Sidebar, row: int) -> None:
    place = sidebar.list.visualRect(sidebar.list.model().index(row, 0)).center()
    qtbot.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_click_opens_a_chat_and_a_heading_does_nothing(qtbot, sidebar):
    chosen: list[int] = []
    sidebar.list.chosen.connect(lambda chat_id, _: chosen.append(chat_id))
    click(qtbot, sidebar, 2)
    click(qtbot, sidebar, 3)
    assert chosen == [2]


def test_keys_move_over_headings(qtbot, sidebar):
    chosen: list[int] = []
    sidebar.list.chosen.connect(lambda chat_id, _: chosen.append(chat_id))
    sidebar.list.show_current(1)
    sidebar.list.choose_neighbour(1)
    sidebar.list.choose_neighbour(1)
    sidebar.list.choose_neighbour(1)
    sidebar.list.choose_neighbour(-1)
    assert chosen == [2, 3, 3, 2]


@pytest.mark.parametrize("key", [Qt.Key.Key_Delete, Qt.Key.Key_Backspace])
def test_no_bare_key_deletes(qtbot, sidebar, key):
    deleted: list[int] = []
    sidebar.list.delete_wanted.connect(deleted.append)
    click(qtbot, sidebar, 3)
    qtbot.keyClick(sidebar.list, key)
    assert deleted == []


def test_a_long_name_is_changed_from_its_beginning(qtbot, sidebar):
    sidebar.list.rename(2)
    editor = sidebar.list.viewport().findChild(QLineEdit)
    assert editor is not None
    qtbot.waitUntil(lambda: editor.cursorPosition() == 0)
    assert editor.selectedText() == editor.text()


def test_escape_leaves_the_name_alone(qtbot, sidebar):
    renamed: list[str] = []
    sidebar.list.renamed.connect(lambda _, title: renamed.append(title))
    sidebar.list.rename(2)
    editor = sidebar.list.viewport().findChild(QLineEdit)
    assert editor is not None
    editor.setText("Oops")
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert renamed == []


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_name_that_is_emptied_stays_as_it_was(qtbot, sidebar, blank):
    renamed: list[str] = []
    sidebar.list.renamed.connect(lambda _, title: renamed.append(title))
    sidebar.list.rename(2)
    editor = sidebar.list.viewport().findChild(QLineEdit)
    assert editor is not None
    editor.setText(blank)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.viewport().findChild(QLineEdit) is None)
    assert renamed == []


def test_the_menu_offers_what_can_be_done(sidebar):
    menu = sidebar.list.menu_for((GROUPS[0].chats[0],))
    words = [action.text() for action in menu.actions() if not action.isSeparator()]
    assert words == ["Rename", "Unpin", "Duplicate", "Move to folder", "Export…", "Delete"]
    sidebar.show_groups(GROUPS, is_bin=True)
    menu = sidebar.list.menu_for((GROUPS[0].chats[0],))
    words = [action.text() for action in menu.actions() if not action.isSeparator()]
    assert words == ["Restore", "Delete for good"]


def test_chats_in_the_bin_do_not_open(qtbot, sidebar):
    chosen: list[int] = []
    sidebar.list.chosen.connect(lambda chat_id, _: chosen.append(chat_id))
    sidebar.show_groups(GROUPS, is_bin=True)
    click(qtbot, sidebar, 3)
    assert chosen == []


def test_searching_waits_for_a_pause(qtbot, sidebar):
    queries: list[str] = []
    sidebar.search_changed.connect(queries.append)
    field = sidebar.findChild(QLineEdit)
    assert field is not None
    qtbot.keyClicks(field, "notes")
    qtbot.waitUntil(lambda: bool(queries))
    assert queries == ["notes"]


def test_what_was_found_is_shown_below_its_title(sidebar):
    plain = sidebar.list.sizeHintForRow(1)
    found = ListedChat(
        GROUPS[0].chats[0].chat, (TextRange(0, 3),), "a kernel in a text", (TextRange(2, 8),), 9
    )
    sidebar.show_groups([ChatGroup("Found", (found,))])
    assert sidebar.list.sizeHintForRow(1) > plain
    assert not sidebar.grab().isNull()


def test_undo_is_offered_once(sidebar):
    undone: list[int] = []
    sidebar.undo.undo()
    sidebar.undo.offer("Chat moved to the bin", lambda: undone.append(1))
    sidebar.undo.undo()
    sidebar.undo.undo()
    assert undone == [1]


def test_what_was_done_one_after_the_other_is_taken_back_from_the_last_to_the_first(sidebar):
    undone: list[int] = []
    for number in range(3):
        sidebar.undo.offer(f"Chat {number}", functools.partial(undone.append, number))
    sidebar.undo.undo()
    assert any(label.text() == "Chat 1" for label in sidebar.findChildren(QLabel))
    for _ in range(3):
        sidebar.undo.undo()
    assert undone == [2, 1, 0]


def test_what_can_be_undone_is_said_in_whole(sidebar):
    words = "Removed the folder Letters to the editor"
    sidebar.undo.offer(words, lambda: None)
    said = next(one for one in sidebar.findChildren(QLabel) if one.text() == words)
    assert said.wordWrap() and said.minimumWidth() < said.sizeHint().width()


def test_nothing_to_list_is_said(sidebar):
    sidebar.show_groups(())
    assert "listed here" in sidebar.findChildren(type(sidebar._empty))[0].text()
    sidebar.show_groups((), is_bin=True)
    assert "Trash is empty" in sidebar._empty.text()


def test_search_marks_the_letters_found_after_an_emoji_and_at_the_end():
    """Qt counts an emoji as two."""
    title = "\U0001f98a zebra"
    found = _bold(title, TextRange(2, 7))
    assert (found.start, found.length) == (3, 5)
