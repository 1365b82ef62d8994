"""Whatever ends in the chat leaves the keys with the message; typed letters go there."""

from collections.abc import Callable
from itertools import product

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QDesktopServices, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QDialog,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from scripted_engine import Answer
from seen import button
from windows import Driven

from app.values.attached_text import AttachedText
from app.window.controls.icons import IconButton
from app.window.transcript.message_foot import MessageActions

SLOW = Answer(" ".join(f"word{n}" for n in range(400)), pause_s=0.01)


@pytest.fixture(autouse=True)
def _is_active(driven):
    driven.widgets.window.activateWindow()
    driven.until(driven.widgets.window.isActiveWindow)


def box(driven: Driven) -> QPlainTextEdit:
    found = driven.widgets.composer.focusProxy()
    assert isinstance(found, QPlainTextEdit)
    return found


def click(widget: QWidget) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton)


def foot(driven: Driven, number: int) -> MessageActions:
    buttons = driven.widgets.transcript.column.views[number].buttons
    assert buttons is not None
    return buttons


def send_by_click(driven: Driven) -> None:
    driven.widgets.composer.show_message("Another")
    click(button(driven.widgets.composer, "Send"))


def ask_a_suggestion(driven: Driven) -> None:
    driven.app.chats.begin()
    click(button(driven.widgets.start, "How does drafting work?"))


def go_to_another_version(driven: Driven) -> None:
    driven.app.chat.regenerate()
    driven.until_answered()
    click(foot(driven, 1).previous)


def send_again(driven: Driven) -> None:
    driven.widgets.transcript.edit_last_prompt()
    bubble = driven.widgets.transcript.column.views[0]
    assert bubble.editor is not None
    QTest.keyClick(bubble.editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def give_up_an_edit(driven: Driven) -> None:
    driven.widgets.transcript.edit_last_prompt()
    click(button(driven.widgets.transcript, "Cancel"))


def leave_a_card(driven: Driven) -> None:
    driven.app.offered.offer(None)
    driven.until(driven.widgets.layer.isVisible)
    QTest.keyClick(driven.widgets.card, Qt.Key.Key_Escape)


def load_from_a_card(driven: Driven) -> None:
    driven.app.offered.offer(None)
    driven.until(driven.widgets.layer.isVisible)
    driven.until(button(driven.widgets.card, "Load").isEnabled)
    QTest.keyClick(driven.widgets.card, Qt.Key.Key_Return)
    driven.until(driven.widgets.layer.isHidden)


def click_in_the_list(
    driven: Driven, row: int, press: Callable[..., None] = QTest.mouseClick
) -> None:
    chats = driven.widgets.sidebar.list
    place = chats.visualRect(chats.model().index(row, 0)).center()
    press(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)


def open_from_the_list(driven: Driven) -> None:
    driven.widgets.sidebar.list.setFocus()
    click_in_the_list(driven, 1)


def open_the_first_hit(driven: Driven) -> None:
    driven.app.actions["search"].trigger()
    field = QApplication.focusWidget()
    assert field is not None
    QTest.keyClicks(field, "hello")
    driven.app.chats.begin()
    driven.app.actions["search"].trigger()
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert driven.shown == ["Hello", "You said: Hello"]


def close_the_find_bar(driven: Driven) -> None:
    driven.widgets.transcript.open_find()
    QTest.keyClick(driven.widgets.transcript.find_bar.field, Qt.Key.Key_Escape)


def fold_the_panel(driven: Driven) -> None:
    driven.widgets.window.show_panel("session")
    click(button(driven.widgets.session, "Hide this panel"))


def type_a_name(driven: Driven, last: Qt.Key) -> None:
    """In place, in the sidebar."""
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    QTest.keyClicks(field, "Named")
    QTest.keyClick(field, last)
    driven.until(lambda: not isinstance(QApplication.focusWidget(), QLineEdit))


def rename(driven: Driven) -> None:
    driven.app.actions["rename-chat"].trigger()
    type_a_name(driven, Qt.Key.Key_Return)
    driven.until(lambda: driven.app.chat.title == "Named")


def rename_by_double_click(driven: Driven) -> None:
    click_in_the_list(driven, 1)
    click_in_the_list(driven, 1, QTest.mouseDClick)
    type_a_name(driven, Qt.Key.Key_Return)
    driven.until(lambda: driven.app.chat.title == "Named")


def give_up_a_rename(driven: Driven) -> None:
    driven.app.actions["rename-chat"].trigger()
    type_a_name(driven, Qt.Key.Key_Escape)


def name_a_folder(driven: Driven) -> None:
    driven.app.actions["new-folder"].trigger()
    type_a_name(driven, Qt.Key.Key_Return)
    assert driven.widgets.sidebar.list.selected() == (driven.app.chat.chat_id,)


def remove_an_attachment(driven: Driven, press: Callable[[QWidget], object]) -> None:
    driven.widgets.composer.row.attach([AttachedText("notes.txt", "Some notes.")])
    press(button(driven.widgets.composer, "Remove notes.txt"))


def press_with_keys(button: QWidget) -> None:
    button.setFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)


def come_back_from_a_page(driven: Driven) -> None:
    driven.app.actions["settings"].trigger()
    click(button(driven.widgets.settings_page, "Back to the chat"))


ACTIONS: dict[str, Callable[[Driven], object]] = {
    "send": send_by_click,
    "suggestion": ask_a_suggestion,
    "another version": go_to_another_version,
    "send again": send_again,
    "edit given up": give_up_an_edit,
    "answer again": lambda driven: click(foot(driven, 1).regenerate),
    "card left": leave_a_card,
    "card loaded": load_from_a_card,
    "chat chosen": open_from_the_list,
    "new chat": lambda driven: click(button(driven.widgets.sidebar, "New chat")),
    "find bar": close_the_find_bar,
    "panel": fold_the_panel,
    "chat renamed": rename,
    "chat renamed by double click": rename_by_double_click,
    "rename given up": give_up_a_rename,
    "folder named": name_a_folder,
    "attachment clicked away": lambda driven: remove_an_attachment(driven, click),
    "attachment removed by keys": lambda driven: remove_an_attachment(driven, press_with_keys),
    "page": come_back_from_a_page,
    "first hit": open_the_first_hit,
}
"""The last one leaves the list of chats shorter."""


def test_the_message_has_the_keys_after(driven):
    """Each of them, at once and when all is said."""
    found = {}
    for name, act in ACTIONS.items():
        driven.app.chats.begin()
        driven.ask("Hello")
        driven.widgets.head.compare.setFocus()
        act(driven)
        at_once = name_of_the_keys(driven)
        driven.until_answered()
        found[name] = (at_once, name_of_the_keys(driven))
    assert found == dict.fromkeys(ACTIONS, (MESSAGE, MESSAGE))


def test_a_card_of_the_models_page_leads_back_there_until_its_model_is_loaded(driven):
    window, layer = driven.widgets.window, driven.widgets.layer
    driven.app.actions["library"].trigger()
    models = driven.widgets.library.here.table
    models.setFocus()
    models.setCurrentItem(models.topLevelItem(0))
    for key, page in ((Qt.Key.Key_Escape, "library"), (Qt.Key.Key_Return, "chat")):
        QTest.keyClick(models, Qt.Key.Key_Return)
        driven.until(layer.isVisible)
        driven.until(button(driven.widgets.card, "Load").isEnabled)
        assert window.page == "library"
        QTest.keyClick(driven.widgets.card, key)
        driven.until(layer.isHidden)
        assert window.page == page
        assert QApplication.focusWidget() is (models if page == "library" else box(driven))


def test_page_keys_scroll_the_chat_while_the_message_has_the_keys(driven, source):
    source.engines["None"].answers.extend([Answer("A paragraph.\n\n" * 60)])
    driven.ask("Hello")
    driven.until_answered()
    bar = driven.widgets.transcript.column.verticalScrollBar()
    driven.until(lambda: 0 < bar.value() == bar.maximum())
    QTest.keyClick(box(driven), Qt.Key.Key_PageUp)
    assert 0 < bar.maximum() - bar.value() <= bar.pageStep()
    QTest.keyClick(box(driven), Qt.Key.Key_PageDown)
    assert bar.value() == bar.maximum()
    box(driven).setPlainText("a line\n" * 40)
    box(driven).moveCursor(QTextCursor.MoveOperation.End)
    QTest.keyClick(box(driven), Qt.Key.Key_PageUp)
    assert bar.value() == bar.maximum()
    assert not box(driven).textCursor().atEnd(), "it has pages of its own"


MESSAGE = "Message"
KEYS_AFTER = {
    "find-next": "Find in this chat",
    "find-previous": "Find in this chat",
    "shortcuts": "OK",
    "new-folder": "Name of the folder",
    "library": "Filter models",
    "settings": "Settings",
    "find": "Find in this chat",
    "search": "Search in chats",
    "compare": "Prompt to compare with",
    "rename-chat": "Title of the chat",
    "trash": "Chats",
    "about": "OK",
}
"""Command -> what has the keys after it, where that is not the message."""
CLOSING = ("quit", "close-window")
SEEN = ("find", "regenerate", "continue", "latest")


def stand_at_a_button(driven: Driven) -> None:
    """In a chat, whatever came before."""
    widgets = driven.widgets
    for dialog in widgets.window.findChildren(QDialog):
        dialog.close()
    driven.app.chats.show_trash(False)
    widgets.transcript.find_bar.hide()
    widgets.window.showNormal()
    widgets.window.show_page("chat")
    widgets.window.show_sidebar(True)
    widgets.window.activateWindow()
    driven.until(widgets.window.isActiveWindow)
    if driven.app.chat.chat_id is None:
        widgets.sidebar.list.choose_at(0)
    widgets.head.compare.setFocus()


def make_ready(driven: Driven, name: str) -> None:
    """What a command needs to have something to do."""
    if name == "stop":
        driven.app.worker._source.source.engines["None"].answers.append(SLOW)
        driven.send("Go")
        driven.until(driven.app.actions["stop"].isEnabled)
    elif name == "undo":
        driven.app.chats.delete(driven.app.chat.chat_id)


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_every_command_leaves_the_keys_where_they_are_wanted(driven, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([], ""))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda *_: True)
    driven.ask("One")
    driven.app.chats.begin()
    driven.ask("Two")
    found = {}
    for name in (command.name for command in driven.app.actions.commands):
        if name in CLOSING:
            continue
        stand_at_a_button(driven)
        make_ready(driven, name)
        driven.widgets.head.compare.setFocus()
        assert driven.app.actions[name].isEnabled(), name
        driven.app.actions[name].trigger()
        driven.until_answered()
        asking = QApplication.activeModalWidget()
        if asking is not None:
            driven.until(asking.isActiveWindow)
        found[name] = name_of_the_keys(driven)
    assert found == {name: KEYS_AFTER.get(name, MESSAGE) for name in found}


def test_what_is_seen_in_the_chat_brings_it_back(driven):
    driven.ask("Hello")
    for name, page in product(SEEN, ("library", "compare", "settings")):
        stand_at_a_button(driven)
        driven.app.actions[page].trigger()
        assert driven.widgets.window.page == page
        driven.app.actions[name].trigger()
        driven.until_answered()
        assert driven.widgets.window.page == "chat", name
        assert name_of_the_keys(driven) == KEYS_AFTER.get(name, MESSAGE), name


def test_a_card_covers_nothing_that_a_command_goes_on_with(driven):
    for name in ("regenerate", "settings", "search", "new-chat", "larger"):
        driven.ask("Hello")
        driven.app.offered.offer(None)
        driven.until(driven.widgets.layer.isVisible)
        driven.app.actions[name].trigger()
        driven.until_answered()
        assert driven.widgets.layer.isVisible() is (name == "larger"), name
        if name != "larger":
            assert name_of_the_keys(driven) == KEYS_AFTER.get(name, MESSAGE), name


def name_of_the_keys(driven: Driven) -> str:
    """What the widget that has them is called."""
    widget = QApplication.focusWidget()
    if widget is box(driven):
        return MESSAGE
    assert widget is not None
    words = widget.text() if isinstance(widget, QAbstractButton) else ""
    return (widget.accessibleName() or words).replace("&", "")


@pytest.mark.parametrize("name", ["sidebar", "session", "drafting"])
def test_what_is_folded_away_takes_no_keys_with_it(driven, name):
    parts = {
        "sidebar": driven.widgets.sidebar,
        "session": driven.widgets.session,
        "drafting": driven.widgets.drafting_panel,
    }
    action = driven.app.actions[name]
    if not action.isChecked():
        action.trigger()
    widgets = parts[name].findChildren(QWidget)
    inside = [w for w in widgets if w.isVisible() and w.focusPolicy() & Qt.FocusPolicy.TabFocus]
    inside[-1].setFocus()
    assert QApplication.focusWidget() is not box(driven)
    action.trigger()
    assert not parts[name].isVisible()
    assert QApplication.focusWidget() is box(driven)


def test_space_presses_nothing_that_was_clicked(driven):
    driven.ask("Hello")
    for one in (foot(driven, 1).copy, foot(driven, 1).regenerate):
        box(driven).setFocus()
        click(one)
        assert not isinstance(QApplication.focusWidget(), QAbstractButton)
    box(driven).setFocus()
    click(button(driven.widgets.sidebar, "Trash"))
    assert QApplication.focusWidget() is driven.widgets.sidebar.list
    click(button(driven.widgets.sidebar, "Trash"))
    assert QApplication.focusWidget() is box(driven)


def test_a_place_of_models_has_its_search_under_the_keys(driven):
    driven.app.actions["library"].trigger()
    for place, field in (("Hugging Face", "Search"), ("On this computer", "Filter models")):
        click(button(driven.widgets.library, f"Where: {place}"))
        focused = QApplication.focusWidget()
        assert isinstance(focused, QLineEdit)
        assert focused.accessibleName().startswith(field)
    driven.widgets.window.show_page("chat")
    driven.app.hub.wanted.emit()
    focused = QApplication.focusWidget()
    assert isinstance(focused, QLineEdit) and focused.accessibleName().startswith("Search")


def test_letters_go_to_the_message_and_shortcuts_do_not(driven):
    driven.ask("Hello")
    driven.widgets.head.compare.setFocus()
    QTest.keyClick(driven.widgets.head.compare, Qt.Key.Key_X, Qt.KeyboardModifier.AltModifier)
    assert driven.widgets.composer.text() == ""
    QTest.keyClicks(driven.widgets.head.compare, "He")
    assert QApplication.focusWidget() is box(driven)
    assert driven.widgets.composer.text() == "He"
    driven.widgets.sidebar.list.setFocus()
    QTest.keyClicks(driven.widgets.sidebar.list, "y")
    assert QApplication.focusWidget() is box(driven)
    assert driven.widgets.composer.text() == "Hey"
    box(driven).setPlainText("He")
    driven.app.actions["settings"].trigger()
    QTest.keyClicks(driven.widgets.settings, "x")
    assert driven.widgets.composer.text() == "He"


def test_letters_go_nowhere_while_a_card_is_open(driven):
    driven.app.offered.offer(None)
    driven.until(driven.widgets.layer.isVisible)
    driven.widgets.card.setFocus()
    QTest.keyClicks(driven.widgets.card, "He")
    assert driven.widgets.composer.text() == ""
    assert QApplication.focusWidget() is not box(driven)


@pytest.mark.parametrize("key", [Qt.Key.Key_Tab, Qt.Key.Key_Backtab])
def test_tab_goes_round_a_card(driven, key):
    card = driven.widgets.card
    driven.app.offered.offer(None)
    driven.until(driven.widgets.layer.isVisible)
    driven.until(button(card, "Load").isEnabled)
    seen = []
    for _ in range(8):
        QTest.keyClick(QApplication.focusWidget(), key)
        seen.append(QApplication.focusWidget())
    assert all(card.isAncestorOf(one) or one is card for one in seen)
    assert {button(card, "Load"), button(card, "Cancel")} <= {*seen}


def test_what_is_typed_after_a_filter_takes_its_place(driven):
    for words in ("Poc", "tiny"):
        driven.app.actions["library"].trigger()
        QTest.keyClicks(QApplication.focusWidget(), words)
        driven.widgets.window.show_page("chat")
    (field,) = (f for f in driven.widgets.library.findChildren(QLineEdit) if f.text())
    assert field.text() == "tiny"


def test_a_click_anywhere_in_the_composer_is_for_the_message(driven):
    driven.widgets.head.compare.setFocus()
    composer = driven.widgets.composer
    place = QPoint(composer.width() // 2, composer.height() - 4)
    QTest.mouseClick(composer, Qt.MouseButton.LeftButton, pos=place)
    assert QApplication.focusWidget() is box(driven)


def test_a_double_click_on_send_does_not_stop_the_answer(driven, qtbot, monkeypatch):
    monkeypatch.setattr("app.window.composer.DOUBLE_MS", 60_000)  # of a busy machine
    engine = driven.app.worker._source.source.engines["None"]
    engine.answers.append(SLOW)
    composer = driven.widgets.composer
    composer.show_message("Go")
    send = button(composer, "Send")
    click(send)
    click(send)
    driven.until(lambda: driven.app.chat.running is not None)
    qtbot.wait(50)
    assert driven.app.chat.running is not None
    monkeypatch.setattr("app.window.composer.DOUBLE_MS", 0)
    qtbot.wait(2)
    click(send)
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None and answer.finish_reason == "stopped"
    view = driven.widgets.transcript.column.views[-1]
    assert view.message.notice == "Stopped."
    go_on = foot(driven, -1).go_on
    assert isinstance(go_on, IconButton) and go_on.isVisible() and go_on.text() == "Continue"


def test_escape_stops_an_answer_that_was_asked_for_by_an_edit(driven):
    driven.ask("Hello")
    driven.app.worker._source.source.engines["None"].answers.append(SLOW)
    send_again(driven)
    driven.until(lambda: driven.app.chat.running is not None)
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None and answer.finish_reason == "stopped"


def test_the_edit_menu_works_on_the_text_that_has_the_keys(driven):
    actions, text = driven.app.actions, box(driven)
    text.setFocus()
    text.setPlainText("")
    QTest.keyClicks(text, "one")
    for name in ("select-all", "copy", "cut", "paste", "paste"):
        actions[name].trigger()
    assert text.toPlainText() == "oneone"
    actions["undo"].trigger()
    assert text.toPlainText() != "oneone"
    actions["redo"].trigger()
    assert text.toPlainText() == "oneone"
    driven.widgets.head.compare.setFocus()
    actions["cut"].trigger()
    assert text.toPlainText() == "oneone"


def test_what_happens_is_said_to_screen_readers(driven, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(
        QAccessible, "updateAccessibility", lambda event: said.append(event.message())
    )
    driven.ask("Hello")
    driven.app.files.open_link("file:///etc/passwd")
    assert said == ["You said: Hello", "This link is not opened: file:///etc/passwd"]


@pytest.mark.parametrize("page", ["settings", "library", "compare"])
def test_escape_leaves_a_page_and_not_the_answer_behind_it(driven, page):
    """What is not on show goes on; a comparison, which is, is stopped by the first press."""
    answers = driven.app.worker._source.source.engines["None"].answers
    answers[:] = [SLOW, SLOW, SLOW]
    driven.send("Talk")
    driven.until(lambda: len(driven.shown) == 2)
    driven.app.actions[page].trigger()
    if page == "compare":
        driven.widgets.compare.show_prompt("Hello")
        click(button(driven.widgets.compare, "Run"))
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
        driven.until(lambda: not driven.app.compare.is_running)
        assert driven.widgets.window.page == "compare"
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert driven.widgets.window.page == "chat"
    assert driven.app.chat.running is not None
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    driven.until_answered()


def test_the_next_match_leaves_the_focus_in_the_field(driven):
    driven.ask("Apple, apple")
    driven.app.actions["find"].trigger()
    bar = driven.widgets.transcript.find_bar
    QTest.keyClicks(bar.field, "apple")
    for name in ("find-next", "find-previous"):
        before = bar.count.text()
        driven.app.actions[name].trigger()
        assert bar.field.hasFocus() and bar.count.text() != before
