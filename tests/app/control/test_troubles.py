"""Damaged files, full disks and odd links: said in words, and the window goes on."""

import json
import sqlite3
import threading
from dataclasses import replace

from chat_stores import without_rights
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from scripted_engine import Answer
from windows import folders_in, running, scripted

from app.state.chat import NO_MODEL
from app.store.schema import MIGRATIONS
from app.store.transfer import NewChat, insert_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import StoredMessage
from app.values.errors import StoreFull
from app.window.composer import MessageBox
from app.window.controls.icons import IconButton, Sign
from app.window.layers import CrashBox
from app.worker.replies import ModelLoaded

LONG = " ".join(f"word{n}" for n in range(300))


def test_a_damaged_database_is_kept_aside_and_said_so(qapp, qtbot, tmp_path):
    (tmp_path / "chats.db").write_bytes(b"this is no database" * 1000)
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        assert "damaged" in driven.widgets.notice.words()
        assert driven.ask("Hello") == "You said: Hello"
    assert list(tmp_path.glob("chats-damaged-*"))


def test_what_was_found_at_the_start_is_not_put_out_of_sight_by_what_follows(qapp, qtbot, tmp_path):
    (tmp_path / "chats.db").write_bytes(b"this is no database" * 1000)
    (tmp_path / "settings.json").mkdir()
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        notice = driven.widgets.notice
        assert "chats.db was damaged" in notice.words()
        driven.until(lambda: "settings.json could not be written" in notice.words())
        assert "chats.db was damaged" in driven.app.crash_log.log_file.read_text()
        notice.findChild(IconButton).click()
        assert notice.words() == ""
        driven.app.files.open_link("file:///etc/passwd")
        assert notice.words() == "This link is not opened: file:///etc/passwd"


def test_why_nothing_was_asked_is_said_until_something_is(qapp, qtbot, tmp_path):
    (tmp_path / "chats.db").write_bytes(b"this is no database" * 1000)
    with running(qapp, qtbot, tmp_path, scripted(Answer(LONG, pause_s=0.01))) as driven:
        notice, chats = driven.widgets.notice, driven.app.chat
        found = notice.words()
        driven.send("Hello")
        chats.edit(chats.turns[0].message.id, "Hello again")
        assert "Stop the answer" in notice.words()
        notice.say("Something less important.")
        assert "Stop the answer" in notice.words()
        notice.withdraw("Something less important.")
        chats.stop()
        driven.until_answered()
        assert notice.words() == found, "and what stays, stays"
        notice.findChild(IconButton).click()
        driven.app.files.open_link("file:///etc/passwd")
        driven.ask("And now?")
        assert "not opened" in notice.words(), "of something else"


def test_a_home_that_cannot_be_written_to_loses_chats_and_says_so(qapp, qtbot, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    with without_rights(home), running(qapp, qtbot, home, scripted()) as driven:
        assert "chats are lost when you quit" in driven.widgets.notice.words()
        assert driven.ask("Hello") == "You said: Hello"


def test_icons_that_are_gone_are_told_of_and_the_window_goes_on(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        window, log = driven.widgets.window, driven.app.crash_log.log_file
        for name in ("gone", "gone_too", "gone_as_well"):
            sign = Sign(name)
            sign.setParent(window)
            sign.show()
        driven.until(lambda: log.exists() and "gone_as_well.svg is missing" in log.read_text())
        box = window.findChild(CrashBox)
        assert "gone.svg is missing" in box.findChild(QPlainTextEdit).toPlainText()
        assert driven.ask("Still there?") == "You said: Still there?"
        told = log.read_text()
        window.update()
        assert driven.ask("And now?") == "You said: And now?"
        assert log.read_text() == told, "each once"


def test_settings_of_a_chat_that_had_to_be_reset_are_named(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("Hello")
        chat_id = driven.app.chat.chat_id
        driven.app.chats.begin()
        settings = '{"system": "Be kind.", "draft": {"depth": -3}}'
        driven.app.store.database.write("UPDATE chat SET settings = ?", settings)
        driven.app.chat.open(chat_id)
        assert "settings.draft.depth: -3 is not possible" in driven.widgets.notice.words()
        assert driven.app.chat.settings.system == "Be kind."


def test_a_newer_database_can_be_read_and_what_is_typed_stays(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as first:
        first.ask("From before")
    newer = sqlite3.connect(tmp_path / "chats.db")
    newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.commit()
    newer.close()
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        assert "newer Headstart" in driven.widgets.notice.words()
        assert driven.shown[0] == "From before"
        driven.send("Can this be saved?")
        assert driven.widgets.composer.text() == "Can this be saved?"
        assert "newer Headstart" in driven.widgets.notice.words()


def test_a_question_that_cannot_be_stored_now_stays_in_words_until_it_is_sent(
    qapp, qtbot, tmp_path
):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("Before")
        composer, notice = driven.widgets.composer, driven.widgets.notice
        other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        driven.send("Can this be saved?")
        assert composer.text() == "Can this be saved?" and len(driven.shown) == 2
        assert "held by another program" in notice.words() and "try again" in notice.words()
        other.close()
        qtbot.keyClick(composer.focusProxy(), Qt.Key.Key_Return)
        driven.until_answered()
        assert driven.shown[2:] == ["Can this be saved?", "You said: Can this be saved?"]
        assert composer.text() == "" and notice.words() == ""


def test_notices_go_with_what_caused_them(driven, home):
    app, notice = driven.app, driven.widgets.notice
    driven.ask("Before")
    chat_id = app.chat.chat_id
    kept = folders_in(home).settings_file
    driven.until(kept.exists)
    kept.unlink()
    kept.mkdir()
    app.settings.change(replace(app.settings.value, notify=False))
    driven.until(lambda: "could not be written" in notice.words())
    kept.rmdir()
    app.settings.change(replace(app.settings.value, notify=True))
    driven.until(lambda: notice.words() == "")
    app.models.rest("")
    app.models.resting = None
    app.chat.send("Is anybody there?")
    assert notice.words() == NO_MODEL
    app.models.load(None)
    driven.until(lambda: notice.words() == "")
    other = sqlite3.connect(home / "chats.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    app.chats.rename(chat_id, "Renamed")
    assert "held by another program" in notice.words()
    other.close()
    app.chats.rename(chat_id, "Renamed")
    assert notice.words() == ""
    app.chat.failed.emit("Stop the answer first.")
    app.chats.begin()
    assert notice.words() == ""
    notice.offer("Small is downloaded.", "a/small")
    notice.withdraw_offer("another")
    assert notice.words() == "Small is downloaded."
    notice.withdraw_offer("a/small")
    assert notice.words() == ""


def test_broken_settings_are_reset_and_said_so(qapp, qtbot, tmp_path):
    (tmp_path / "settings.json").write_text("{no json")
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        assert "settings" in driven.widgets.notice.words()
        assert driven.ask("Hello") == "You said: Hello"


def test_a_disk_that_is_full_does_not_end_the_answer(qapp, qtbot, tmp_path, monkeypatch):
    source = scripted(Answer(LONG, pause_s=0.005))
    with running(qapp, qtbot, tmp_path, source) as driven:

        def full(*args: object) -> None:
            raise StoreFull("The disk is full: make room.")

        driven.send("Go")
        monkeypatch.setattr(driven.app.store.messages, "save_partial", full)
        driven.until(lambda: "disk is full" in driven.widgets.notice.words())
        driven.until_answered()
        monkeypatch.undo()


def test_links_of_a_model_open_no_files(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        for link in ("file:///etc/passwd", "javascript:alert(1)", "x-apple:run", "nonsense"):
            driven.widgets.transcript.reader.link_clicked.emit(link)
            assert link in driven.widgets.notice.words()


def test_closing_waits_for_no_answer(qapp, qtbot, tmp_path):
    source = scripted(Answer(LONG * 10, pause_s=0.01))
    with running(qapp, qtbot, tmp_path, source) as driven:
        driven.send("Go")
        driven.until(lambda: bool(driven.app.figures.history.tokens_per_pass_over_time))
        driven.widgets.window.close()
        assert not driven.app.worker.isRunning()
    assert not [t for t in threading.enumerate() if t.name == "engine"]


def test_heads_are_offered_for_the_model_in_use(qapp, qtbot, tmp_path):
    heads = tmp_path / "mtp.safetensors"
    heads.write_bytes((2).to_bytes(8, "little") + b"{}")
    with running(qapp, qtbot, tmp_path / "home", scripted()) as driven:
        driven.app.drops.hover([str(heads)])
        overlay = driven.widgets.overlay
        driven.until(lambda: "as drafting heads" in overlay.accessibleDescription())
        driven.app.drops.take([str(heads)])
        driven.until(driven.widgets.card.isVisible)
        driven.app.offered.load()
        driven.until(lambda: driven.app.models.loading is None)
        in_use = driven.app.models.in_use
        assert in_use is not None
        assert in_use.options.heads == heads


def test_a_model_that_comes_when_everything_is_closed_is_nobodys(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        model = driven.app.models.description
        assert model is not None
        driven.ask("Hello")
        driven.app.models.load(None)
        driven.app.close()
        driven.app.route(ModelLoaded(None, model))


def test_an_export_ends_with_the_program_after_a_whole_file(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path / "home", scripted()) as driven:
        driven.ask("Hello")
        chats = [1, *(driven.app.store.chats.duplicate(1, "copy") for _ in range(9))]
        driven.app.files.export_into(chats, tmp_path, ".json")
        driven.app.close()
        QApplication.processEvents()
        (made,) = tmp_path.glob("*.json")
        assert json.loads(made.read_text())


def test_a_long_chat_that_is_copied_and_opened_ends_with_the_program(qapp, qtbot, tmp_path):
    """What was copied so far goes with the next start."""
    messages = [StoredMessage(n, 0, n - 1 if n else None, "user", f"{n}") for n in range(900)]
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        long = insert_chat(driven.app.store, NewChat("Long", ChatSettings(), messages, 899))
        driven.app.chat.open(long)
        driven.app.chats.duplicate(long, "copy")
        driven.app.close()
        for _ in range(20):
            QApplication.processEvents()
            qtbot.wait(2)
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        assert [chat.id for chat in driven.app.store.chats.listed()] == [long]


ODD = ("\ud83d", "\ude00", "\0", "\ufffc", "\u2029")


def test_odd_characters_that_are_pasted_are_sent_rewritten_and_come_back(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        box = driven.widgets.composer.focusProxy()
        assert isinstance(box, MessageBox)
        for odd in ODD:
            pasted = QMimeData()
            pasted.setText(f"Is {odd} odd?")
            assert box.canInsertFromMimeData(pasted)
            box.insertFromMimeData(pasted)
            qtbot.keyClick(box, Qt.Key.Key_Return)
            driven.until_answered()
            assert len(driven.shown) == 2 and driven.shown[0].endswith("odd?"), repr(odd)
            driven.widgets.transcript.edit_last_prompt()
            bubble = driven.widgets.transcript.column.views[0]
            assert bubble.editor is not None
            bubble.editor.field.insertFromMimeData(pasted)
            driven.app.chats.begin()
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        chats = driven.app.store.chats.listed()
        assert len(chats) == len(ODD)
        for chat, odd in zip(chats, reversed(ODD), strict=True):
            driven.app.chat.open(chat.id)
            bubble = driven.widgets.transcript.column.views[0]
            driven.until(lambda bubble=bubble: bubble.editor is not None)
            assert bubble.editor is not None
            assert bubble.editor.field.toPlainText().count("odd?") == 2, repr(odd)
        assert not driven.widgets.window.findChildren(CrashBox)
