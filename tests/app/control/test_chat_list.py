"""The list of chats and the store agree, and nothing is lost by a slip."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QDrag
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit, QMessageBox, QPushButton
from scripted_engine import Answer
from scripted_models import WorkerEngine, described
from seen import find
from windows import Driven, running, scripted

from app.control import files
from app.state.titles import FEWEST_PARAMETERS
from app.store.transfer import NewChat, read_chats
from app.values.chat_settings import ChatSettings
from app.window.sidebar.sidebar import SEARCH_PAUSE_MS


def listed(driven: Driven) -> list[str]:
    model = driven.widgets.sidebar.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def chat(driven: Driven, question: str) -> int:
    driven.app.chats.begin()
    driven.ask(question)
    return driven.app.chat.chat_id or 0


def test_a_new_chat_appears_with_its_first_question(driven):
    assert listed(driven) == []
    chat(driven, "First")
    chat(driven, "Second")
    assert listed(driven) == ["Today", "Second", "First"]
    driven.app.chats.begin()
    assert listed(driven) == ["Today", "Second", "First"], "an empty chat is not stored"


def test_deleting_can_be_undone(driven):
    first = chat(driven, "Precious")
    driven.app.actions["delete-chat"].trigger()
    assert listed(driven) == []
    assert driven.shown == []
    driven.app.actions["undo"].trigger()
    assert listed(driven) == ["Today", "Precious"]
    assert driven.app.chat.chat_id == first
    assert driven.shown[0] == "Precious"


def test_restoring_can_be_undone_and_done_again(driven):
    kept, chats = chat(driven, "Precious"), driven.app.chats
    for _ in range(2):
        chats.delete(kept)
        chats.restore(kept)
        assert chats.deeds.newest.words == "Chat restored"
        chats.deeds.undo()
        assert listed(driven) == []
        chats.deeds.redo()
        assert listed(driven) == ["Today", "Precious"]
    while chats.deeds.newest:
        chats.deeds.undo()
    assert listed(driven) == ["Today", "Precious"]


def test_what_is_in_effect_is_said_of_the_chat_on_show(driven):
    chat(driven, "Drafted")
    find(driven.widgets.session, QPushButton, "Guess ahead: Custom").click()
    assert "Guesses 3 tokens ahead." in in_effect(driven)
    driven.app.chats.begin()
    assert "Drafts 3 ahead" not in in_effect(driven)


def test_what_is_in_effect_with_another_model_is_not_said_any_more(driven, source):
    source.engines["/other"] = WorkerEngine(description=described("Other", 10**6))
    chat(driven, "Drafted")
    assert "Last answer: up to" in in_effect(driven)
    driven.app.models.load("/other")
    driven.until(lambda: driven.app.models.model_name == "Other")
    assert "Last answer: up to" not in in_effect(driven)


def in_effect(driven: Driven) -> str:
    """All that the panel says; what is cut to fit is whole in the tooltip."""
    labels = driven.widgets.session.findChildren(QLabel)
    texts = (part for label in labels for part in (label.text(), label.toolTip()))
    return " ".join(texts)


def test_a_chat_that_is_answered_can_be_deleted(driven, source):
    scripted = source.engines["None"].answers
    scripted.append(Answer("word " * 500, pause_s=0.01))
    driven.send("Long one")
    driven.until(lambda: not scripted)  # it has begun
    driven.app.actions["delete-chat"].trigger()
    driven.until(lambda: not driven.app.answers.chat_ids)
    assert listed(driven) == []
    assert driven.ask("Next") == "You said: Next"


def test_search_finds_words_in_answers_and_opens_them(driven):
    chat(driven, "About whales")
    chat(driven, "About ships")
    driven.app.chats.search("said whales")
    assert listed(driven) == ["Found", "About whales"]
    chats, transcript = driven.widgets.sidebar.list, driven.widgets.transcript
    chats._choose(chats.model().index(1, 0))
    assert driven.shown[0] == "About whales"
    assert transcript.find_bar.isVisibleTo(transcript)
    assert transcript.find_bar.field.text() == "whales", "the longest word, marked in the chat"
    assert transcript._search.place.message == 1
    driven.app.chats.search("you said: about wh")
    chats._choose(chats.model().index(1, 0))
    assert transcript.find_bar.field.text() == "You said: About wh"
    driven.app.chat.open(driven.app.chat.chat_id)
    assert not transcript.find_bar.isVisibleTo(transcript)
    driven.app.chats.search("")
    assert len(listed(driven)) == 3


@pytest.mark.parametrize("ending", ["md", "json"])
def test_a_chat_goes_to_a_file_and_comes_back(driven, tmp_path, ending):
    first = chat(driven, "Carry me")
    file = tmp_path / f"chat.{ending}"
    driven.app.files.export_to(first, file)
    assert str(file) in driven.widgets.notice.words()
    driven.app.files.import_from(file)
    driven.until(lambda: driven.app.chat.chat_id != first)
    assert driven.shown == ["Carry me", "You said: Carry me"]
    assert listed(driven).count("Carry me") == 2


def test_a_file_that_is_no_chat_is_refused_in_words(driven, tmp_path):
    file = tmp_path / "chat.json"
    file.write_text("{}")
    driven.app.files.import_from(file)
    words = driven.widgets.notice.words
    driven.until(lambda: "chat.json is not a chat that Headstart can read" in words())
    file.write_bytes(b"\xff{}")
    driven.app.files.import_from(file)
    driven.until(lambda: "it is not text in UTF-8" in words())
    assert '"format"' not in words()
    driven.app.files.export_to(chat(driven, "Sound"), file)
    first = driven.app.chat.chat_id
    driven.app.files.import_from(file)
    driven.until(lambda: driven.app.chat.chat_id != first)
    assert "is no chat" not in words()


def test_a_chat_on_a_slow_disk_does_not_hold_up_the_window(driven, tmp_path, monkeypatch):
    first, gate, file = chat(driven, "Far away"), Event(), tmp_path / "chat.json"
    driven.app.files.export_to(first, file)

    def slowly(path: Path, defaults: ChatSettings) -> list[NewChat]:
        gate.wait(60)
        return read_chats(path, defaults)

    monkeypatch.setattr(files, "read_chats", slowly)
    monkeypatch.setattr(files, "QUICKLY_READ", 1)
    monkeypatch.setattr(files, "SAID_EVERY", 1)
    driven.app.files.import_from(file, file)
    words, said = driven.widgets.notice.words, set[str]()
    assert words() == "Reading chat.json, chat.json…"
    assert driven.ask("Still here?") and driven.app.chat.chat_id == first
    seen, beside = set[int](), QTimer()
    beside.timeout.connect(lambda: seen.add(len(driven.app.store.chats.listed())))
    beside.timeout.connect(lambda: said.add(words()))
    beside.start(0)
    driven.until(lambda: 1 in seen)
    gate.set()
    driven.until(lambda: 3 in seen)
    beside.stop()
    assert seen == {1, 2, 3}, "between two of them everything else has its turn"
    driven.until(lambda: driven.app.chat.chat_id != first)
    assert "Importing 2 chats: 1 are done." in said and words() == "2 chats imported."


def test_a_chat_that_goes_on_moves_to_the_top(driven, source):
    first = chat(driven, "First")
    second = chat(driven, "Second")
    chat(driven, "Third")
    day = 86_400
    for chat_id, days in ((first, 1), (second, 40)):
        driven.app.store.database.write(
            "UPDATE chat SET updated_at = updated_at - ? WHERE id = ?", days * day, chat_id
        )
    driven.app.chats.refresh()
    before = listed(driven)
    assert before[:4] == ["Today", "Third", "Yesterday", "First"]
    driven.app.chat.open(first)
    driven.ask("More?")
    assert listed(driven) == ["Today", "First", "Third", *before[4:]], "no heading without a chat"
    driven.app.chats.pin(True, second)
    driven.app.chats.pin(True, first)
    driven.app.chat.open(second)
    driven.ask("And you?")
    assert listed(driven) == ["Pinned", "Second", "First", "Today", "Third"]
    told = listed(driven)
    driven.app.chats.refresh()
    assert listed(driven) == told, "one row at a time comes to the same as all at once"


def test_a_chat_is_exported_from_its_menu(driven, tmp_path, monkeypatch):
    number = chat(driven, "What is a kernel?")
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "kernel"), "Markdown (*.md)")
    )
    sidebar = driven.widgets.sidebar.list
    shown = sidebar.model().row_at(sidebar.model().index_of(number)).listed
    menu = sidebar.menu_for((shown,))
    next(action for action in menu.actions() if action.text() == "Export…").trigger()
    assert "What is a kernel?" in (tmp_path / "kernel.md").read_text()
    assert "kernel.md" in driven.widgets.notice.words()


@pytest.mark.parametrize("answer", ["Replace", "Cancel"])
def test_a_file_whose_ending_was_not_typed_is_asked_about(driven, tmp_path, monkeypatch, answer):
    """The dialog has asked about another name."""
    number, file = chat(driven, "What is a kernel?"), tmp_path / "kernel.md"
    file.write_text("precious")
    chosen = (str(tmp_path / "kernel"), "Markdown (*.md)")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: chosen)

    def press() -> None:
        box = driven.widgets.window.findChild(QMessageBox)
        next(one for one in box.buttons() if one.text().replace("&", "") == answer).click()

    QTimer.singleShot(0, press)
    driven.app.files.export([number])
    assert ("precious" in file.read_text()) is (answer == "Cancel")
    driven.widgets.window.activateWindow()
    driven.until(driven.widgets.window.isActiveWindow)


def test_a_chat_is_exported_as_a_pdf_beside_the_window(driven, tmp_path, monkeypatch):
    number, files = chat(driven, "What is a kernel?"), driven.app.files
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "kernel"), "PDF (*.pdf)")
    )
    files.export([number])
    driven.until(lambda: "kernel.pdf" in driven.widgets.notice.words())
    assert (tmp_path / "kernel.pdf").read_bytes().startswith(b"%PDF")
    files.export_to(number, tmp_path / "nowhere" / "kernel.pdf")
    driven.until(lambda: "could not be written" in driven.widgets.notice.words())


def test_menu_and_title_follow_what_is_done_in_the_sidebar(driven):
    first = chat(driven, "First")
    actions, chats = driven.app.actions, driven.app.chats
    chats.rename(first, "Zebras")
    assert driven.widgets.window.windowTitle() == "Zebras – Headstart"
    chats.pin(True, first)
    assert actions["pin-chat"].isChecked()
    driven.app.chats.begin()
    assert not actions["pin-chat"].isChecked()
    chats.show_trash(True)
    assert actions["trash"].isChecked()
    chats.search("zeb")
    assert not actions["trash"].isChecked()
    actions["trash"].trigger()
    assert actions["trash"].isChecked() and listed(driven) == []
    actions["new-chat"].trigger()
    assert not actions["trash"].isChecked() and listed(driven)
    actions["trash"].trigger()


def search(driven: Driven, words: str) -> None:
    driven.app.actions["search"].trigger()
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    QTest.keyClicks(field, words)
    driven.until(lambda: driven.widgets.sidebar.list.model().rowCount() == 0)


def type_into_the_list(driven: Driven, name: str) -> None:
    """Once a search would have been looked for again."""
    QTest.qWait(2 * SEARCH_PAUSE_MS)
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    QTest.keyClicks(field, name)
    QTest.keyClick(field, Qt.Key.Key_Return)


def test_a_folder_made_from_a_search_is_named(driven):
    chat(driven, "Whales")
    search(driven, "nothing")
    driven.app.actions["new-folder"].trigger()
    type_into_the_list(driven, "Work")
    driven.until(lambda: listed(driven) == ["Work", "Today", "Whales"])


@pytest.mark.parametrize("hides", ["search", "trash", "sidebar"])
def test_the_chat_on_show_is_renamed_in_the_head_whatever_is_listed(driven, hides):
    chat(driven, "Whales")
    title = driven.widgets.head.title
    driven.until(lambda: title.text() == "Whales")
    if hides == "search":
        search(driven, "nothing")
    else:
        driven.app.actions[hides].trigger()
    driven.app.actions["rename-chat"].trigger()
    type_into_the_list(driven, "Dolphins ")
    assert driven.app.chat.title == "Dolphins"
    driven.until(lambda: title.text() == "Dolphins")
    assert driven.widgets.window.windowTitle() == "Dolphins – Headstart"


def test_a_title_is_given_up_with_escape_and_kept_by_a_click_elsewhere(driven):
    first = chat(driven, "Whales")
    second = chat(driven, "Ships")
    title = driven.widgets.head.title
    QTest.mouseClick(title, Qt.MouseButton.LeftButton)
    QTest.keyClicks(title, "Boats")
    QTest.keyClick(title, Qt.Key.Key_Escape)
    assert driven.app.chat.title == "Ships"
    driven.until(lambda: title.text() == "Ships")
    QTest.mouseClick(title, Qt.MouseButton.LeftButton)
    driven.app.store.chats.rename(second, "Renamed elsewhere")
    driven.widgets.composer.setFocus()
    assert driven.app.store.chats.get(second).title == "Renamed elsewhere", "nothing was typed"
    QTest.mouseClick(title, Qt.MouseButton.LeftButton)
    title.selectAll()
    QTest.keyClicks(title, "Boats")
    driven.app.chat.open(first)
    assert driven.app.store.chats.get(second).title == "Boats", "the one that was renamed"
    driven.until(lambda: driven.app.chat.title == title.text() == "Whales")
    driven.app.chats.begin()
    driven.until(lambda: title.text() == "New chat" and not title.isEnabled())


def mark(driven: Driven, *chats: int) -> None:
    sidebar = driven.widgets.sidebar.list
    marks = sidebar.selectionModel()
    for chat_id in chats:
        marks.select(sidebar.model().index_of(chat_id), marks.SelectionFlag.Select)


def test_a_new_folder_takes_what_is_marked(driven, qtbot):
    first, second = chat(driven, "First"), chat(driven, "Second")
    driven.widgets.window.show_sidebar(False)
    assert driven.app.actions["new-folder"].shortcut().toString() == "Ctrl+Shift+N"
    driven.app.actions["new-folder"].trigger()
    editor = driven.widgets.sidebar.list.viewport().findChild(QLineEdit)
    assert editor is not None and driven.widgets.window.has_sidebar
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert listed(driven) == ["New folder", "Today", "Second", "First"], "only one was marked"
    mark(driven, first, second)
    driven.app.actions["new-folder"].trigger()
    assert listed(driven) == ["New folder", "New folder 2", "Second", "First"]


def test_the_menus_mean_all_that_is_marked(driven):
    first, second = chat(driven, "First"), chat(driven, "Second")
    chat(driven, "Third")
    driven.app.chat.open(second)
    mark(driven, first, second)
    driven.app.actions["delete-chat"].trigger()
    assert listed(driven) == ["Today", "Third"] and driven.shown == []
    driven.app.actions["undo"].trigger()
    assert listed(driven) == ["Today", "Third", "Second", "First"]
    assert driven.shown[0] in ("First", "Second")


@pytest.mark.parametrize("ending", [".md", ".json"])
def test_several_chats_go_into_files_of_their_own(driven, tmp_path, monkeypatch, ending):
    names = ("Same/name?", "Same/name?", "…", "研" * 100)
    chats = tuple(chat(driven, name) for name in names)
    out = tmp_path / "out"
    out.mkdir()
    (out / f"Same name{ending}").write_text("mine")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(out))
    driven.app.files.export(chats, ending)
    driven.until(lambda: "4 chats were written" in driven.widgets.notice.words())
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}{ending}" for name in ("Same name", "Same name 2", "Same name 3", "Chat", "研" * 60)
    )
    assert (out / f"Same name{ending}").read_text() == "mine", "no file is written over"


def test_a_folder_that_takes_no_files_ends_the_export_in_words(driven, tmp_path):
    chats = tuple(chat(driven, name) for name in ("One", "Two"))
    driven.app.files.export_into(chats, tmp_path / "gone", ".md")
    driven.until(lambda: "0 of 2 chats were written" in driven.widgets.notice.words())


def test_a_chat_in_a_folder_goes_on_there(driven):
    first = chat(driven, "First")
    chat(driven, "Second")
    driven.app.chats.new_folder("New folder", (first,))
    driven.app.chat.open(first)
    driven.ask("More?")
    assert listed(driven) == ["New folder", "First", "Today", "Second"]
    folder = driven.app.store.folders.listed()[0]
    driven.app.chats.open_folder(folder.id, False)
    driven.ask("And more?")
    assert listed(driven) == ["New folder", "Today", "Second"]
    assert driven.app.chat.chat_id == first and driven.shown[-2] == "And more?"


def test_the_chat_on_show_alone_is_marked_after_a_shortcut(driven, qtbot):
    """Qt would add to what is marked while the Command key is held."""
    first = chat(driven, "First")
    chat(driven, "Second")
    window, marked = driven.widgets.window, driven.widgets.sidebar.list.selected
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert driven.app.chat.title == "Second (copy)"
    assert marked() == (driven.app.chat.chat_id,)
    held = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    for _ in range(2):
        QTest.keyClick(window.windowHandle(), Qt.Key.Key_Down, held)
    assert marked() == (first,) == (driven.app.chat.chat_id,)


def test_the_chat_on_show_stays_marked(driven):
    """Whatever else is pressed in the list."""
    chats = driven.widgets.sidebar.list
    first = chat(driven, "First")
    shown = chat(driven, "Second")
    heading = chats.visualRect(chats.model().index(0, 0)).center()
    for place in (heading, QPoint(20, chats.height() - 4)):
        QTest.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
        assert chats.selected() == (shown,)
    other = chats.visualRect(chats.model().index(listed(driven).index("First"), 0)).center()
    QTest.mousePress(chats.viewport(), Qt.MouseButton.LeftButton, pos=other)
    assert chats.selected() == (first,)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QDrag, "exec", lambda *_: Qt.DropAction.IgnoreAction)
        chats.startDrag(Qt.DropAction.MoveAction)
    assert chats.selected() == (shown,), "only carried, not opened"


def test_a_large_model_names_a_chat_in_an_idle_moment(qapp, qtbot, tmp_path):
    source = scripted(Answer("Light is scattered."), Answer("Blue Sky"))
    engine = source.engines["None"]
    engine.description = replace(engine.description, parameters=FEWEST_PARAMETERS)
    with running(qapp, qtbot, tmp_path, source) as driven:
        driven.ask("Why is the sky blue?")
        assert driven.app.chat.title == "Why is the sky blue?"
        driven.until(lambda: driven.app.chat.title == "Blue Sky")
        assert listed(driven) == ["Today", "Blue Sky"] and len(driven.shown) == 2
