"""What a user does in a chat reaches the engine and the store, and comes back to the window."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from windows import Driven, folders_in, running, scripted

from app.values.attached_text import AttachedText, SaidWith
from app.values.chat_settings import SamplingChoice
from app.window.controls.labels import ShortButton
from mlx_engine.values.errors import PromptTooLong
from mlx_engine.values.options import DraftOptions, SamplingOptions

LONG = " ".join(f"word{n}" for n in range(400))
SLOW = Answer(LONG, pause_s=0.01)


def say_next(source: ScriptedModels, *answers: Answer) -> None:
    source.engines["None"].answers.extend(answers)


def written(driven: Driven) -> str:
    running = driven.app.chat.running
    return running.answer.text if running else ""


def test_a_question_is_answered_shown_and_stored(driven):
    assert driven.ask("Hello there") == "You said: Hello there"
    assert driven.shown == ["Hello there", "You said: Hello there"]
    chat = driven.app.chat
    assert chat.title == "Hello there"
    stored = driven.app.store.open_chat(chat.chat_id or 0)
    assert [turn.message.text for turn in stored.turns] == driven.shown
    assert stored.turns[-1].message.model == "Pocket model"
    assert stored.turns[-1].message.spans
    driven.until(lambda: driven.app.settings.value.last_chat == chat.chat_id)


def test_the_engine_is_given_the_whole_branch(driven, source):
    driven.ask("One")
    driven.ask("Two")
    session = source.engines["None"].sessions[-1]
    assert [m.text for m in session.messages] == ["One", "You said: One", "Two", "You said: Two"]


def test_stopping_keeps_what_there_is(driven, source):
    say_next(source, SLOW)
    driven.send("Go")
    driven.until(lambda: len(written(driven)) > 50)
    driven.app.actions["stop"].trigger()
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None
    assert LONG.startswith(answer.text)
    assert 50 < len(answer.text) < len(LONG)
    assert answer.finish_reason == "stopped"
    assert driven.widgets.transcript.column.views[-1].message.can_continue


def test_answers_given_again_are_kept_as_versions(driven, source):
    say_next(source, Answer("First"), Answer("Second"))
    driven.ask("Which?")
    driven.app.actions["regenerate"].trigger()
    driven.until_answered()
    assert driven.shown == ["Which?", "Second"]
    message = driven.widgets.transcript.column.views[-1].message
    assert (message.branch_index, message.branch_count) == (1, 2)
    driven.app.chat.show_branch(message.id, -1)
    assert driven.shown == ["Which?", "First"]
    shown = driven.widgets.transcript.column.views[-1].message
    driven.app.chat.show_branch(shown.id, -1)
    assert driven.shown == ["Which?", "First"], "before the first there is nothing"


def test_a_question_can_be_asked_in_other_words(driven):
    driven.ask("Old words")
    driven.ask("More")
    first = driven.widgets.transcript.column.views[0].message
    driven.app.chat.edit(first.id, "New words")
    driven.until_answered()
    assert driven.shown == ["New words", "You said: New words"]
    edited = driven.widgets.transcript.column.views[0].message
    driven.app.chat.show_branch(edited.id, -1)
    assert driven.shown == ["Old words", "You said: Old words", "More", "You said: More"]


def test_a_stopped_answer_goes_on_in_place(driven, source):
    say_next(source, SLOW)
    driven.send("Go")
    driven.until(lambda: len(written(driven)) > 20)
    driven.app.chat.stop()
    driven.until_answered()
    before = driven.shown[-1]
    say_next(source, Answer(" and the end."))
    driven.app.actions["continue"].trigger()
    driven.until_answered()
    assert driven.shown == ["Go", before + " and the end."]


def test_an_answer_that_has_nothing_to_add_says_so(driven, source):
    said = driven.widgets.notice.words
    say_next(source, Answer(""))
    driven.ask("Go")
    assert said() == "", "an empty answer is no rest of one"
    say_next(source, Answer("Half an", reason="max-tokens"), Answer(""), Answer("answer"))
    driven.ask("And now?")
    driven.app.actions["continue"].trigger()
    driven.until_answered()
    assert driven.shown[-1] == "Half an"
    assert said() == "The answer is complete. Answer Again gives another one."


def test_only_the_last_answer_can_go_on(driven, source):
    say_next(source, Answer("Half an", reason="max-tokens"))
    driven.ask("Go")
    buttons = driven.widgets.transcript.column.views[-1].buttons
    assert buttons is not None and not buttons.go_on.isHidden()
    driven.ask("And now?")
    assert buttons.go_on.isHidden()
    assert driven.shown[1] == "Half an"


def test_settings_stay_in_their_chat(driven, source):
    chats = driven.app.chat
    driven.ask("One")
    first = chats.chat_id
    driven.widgets.session.settings["draft.depth"] = 5
    driven.widgets.session.settings["system"] = "Be brief."
    driven.app.chats.begin()
    assert chats.settings.draft == DraftOptions()
    assert chats.settings.system == ""
    driven.ask("Two")
    assert source.engines["None"].sessions[-1].draft == DraftOptions()
    chats.open(first or 0)
    assert chats.settings.draft.depth == 5
    driven.ask("Three")
    assert source.engines["None"].sessions[0].draft.depth == 5
    assert source.engines["None"].sessions[0].system == "Be brief."


def test_settings_reach_an_answer_that_runs(driven, source):
    say_next(source, SLOW)
    driven.send("Go")
    driven.until(lambda: bool(driven.app.figures.history.tokens_per_pass_over_time))
    driven.widgets.session.settings["draft.depth"] = 1
    session = source.engines["None"].sessions[-1]
    driven.until(lambda: session.draft.depth == 1)
    assert driven.app.chat.running is not None
    driven.app.chat.stop()
    driven.until_answered()


def test_a_finished_answer_is_not_made_again(driven, source):
    views = driven.widgets.transcript.column.views
    for _ in range(3):
        say_next(source, Answer("One two three four five six.", pause_s=0.01))
        driven.send("Go")
        driven.until(lambda: bool(views) and views[-1].answer is not None)
        live = views[-1].answer
        driven.until_answered()
        assert views[-1].answer is live
        assert driven.shown[-1] == "One two three four five six."


def test_another_version_is_shown_where_it_stands(driven, source, qtbot):
    for _ in range(6):
        say_next(source, Answer("Tell me more about that, please. " * 20))
        driven.ask("Go on.")
    first = driven.app.chat.turns[0].message.id
    driven.app.chat.edit(first, "Begin elsewhere.")
    driven.until_answered()
    say_next(source, Answer("Tell me more about that, please. " * 60))
    driven.ask("Go on.")
    column = driven.widgets.transcript.column
    edited = driven.app.chat.turns[0].message.id
    driven.until(lambda: column.verticalScrollBar().maximum() > 200)
    column.verticalScrollBar().setValue(0)
    qtbot.wait(200)
    driven.app.chat.show_branch(edited, -1)
    driven.until(lambda: len(driven.shown) == 12)
    driven.until_answered()
    driven.until(lambda: column.verticalScrollBar().maximum() > 200)
    qtbot.wait(50)
    assert driven.shown[0] == "Go on."
    assert column.verticalScrollBar().value() == 0


def test_a_message_rewritten_while_an_answer_runs_is_not_lost(driven, source):
    say_next(source, SLOW)
    driven.send("Go")
    driven.until(lambda: not source.engines["None"].answers)  # it has begun
    transcript = driven.widgets.transcript
    transcript.edit_last_prompt()
    bubble = transcript.column.views[0]
    assert bubble.editor is not None
    bubble.editor.field.setPlainText("Go on")
    bubble.editor.send.click()
    assert driven.app.chat.running is not None
    assert "then send this again" in driven.widgets.notice.words()
    assert bubble.editor.field.toPlainText() == "Go on"
    driven.app.chat.stop()
    driven.until_answered()
    bubble.editor.send.click()
    driven.until_answered()
    assert driven.shown == ["Go on", "You said: Go on"]
    assert transcript.reader.edits == {}


def test_escape_leaves_an_editor_or_a_card_and_not_the_answer(driven, source, qtbot, tmp_path):
    say_next(source, SLOW)
    driven.send("Go")
    driven.widgets.window.activateWindow()
    qtbot.waitUntil(driven.widgets.window.isActiveWindow)
    driven.widgets.transcript.edit_last_prompt()
    bubble = driven.widgets.transcript.column.views[0]
    assert bubble.editor is not None
    qtbot.keyClick(bubble.editor.field, Qt.Key.Key_Escape)
    assert bubble.editor is None
    driven.app.offered.offer(None)
    driven.until(driven.widgets.layer.isVisible)
    qtbot.keyClick(driven.widgets.card, Qt.Key.Key_Escape)
    assert not driven.widgets.layer.isVisible()
    assert driven.app.chat.running is not None
    qtbot.keyClick(driven.widgets.composer, Qt.Key.Key_Escape)
    driven.until_answered()


def test_return_on_a_card_loads(driven, source, qtbot):
    driven.app.models.rest("")
    driven.app.offered.offer(None)
    driven.until(driven.widgets.card.load_fields.isVisible)
    qtbot.keyClick(driven.widgets.card, Qt.Key.Key_Return)
    driven.until(lambda: source.loaded == ["None", "None"])


def test_what_is_typed_belongs_to_its_chat_and_outlives_the_program(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        composer, chats = driven.widgets.composer, driven.app.chat
        driven.ask("One")
        first = chats.chat_id
        assert first is not None
        composer.show_message("half a sent", (AttachedText("a.py", "x = 1"),))
        driven.app.chats.begin()
        assert (composer.text(), composer.attachments()) == ("", ())
        composer.show_message("a new thought")
        chats.open(first)
        assert composer.text() == "half a sent"
        assert [attached.name for attached in composer.attachments()] == ["a.py"]
        driven.app.chats.begin()
        assert composer.text() == "a new thought"
        chats.open(first)
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        composer = driven.widgets.composer
        assert composer.text() == "half a sent"
        assert composer.attachments() == (AttachedText("a.py", "x = 1"),)
        driven.app.chats.begin()
        assert composer.text() == "a new thought"
        driven.ask("Two")
        driven.app.chats.begin()
        assert composer.text() == ""


def test_what_is_rewritten_in_its_place_outlives_the_program(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("One")
        driven.widgets.transcript.edit_last_prompt()
        bubble = driven.widgets.transcript.column.views[0]
        assert bubble.editor is not None
        bubble.editor.field.setPlainText("One, in other words")
        driven.app.chats.begin()
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        (chat,) = driven.app.store.chats.listed()
        driven.app.chat.open(chat.id)
        bubble = driven.widgets.transcript.column.views[0]
        driven.until(lambda: bubble.editor is not None)
        assert bubble.editor is not None
        assert bubble.editor.field.toPlainText() == "One, in other words"


def kept(driven) -> set[str]:
    """Unsent texts in the file, as another program reads it."""
    path = driven.app.store.database.path
    with closing(sqlite3.connect(path)) as file:
        return {text for (text,) in file.execute("SELECT text FROM draft")}


def test_nothing_typed_in_a_chat_outlives_it(driven, qtbot, home):
    """In the bin it is kept; deleted for good, it is gone too."""
    for name in ("Stays", "Goes"):
        driven.app.chats.begin()
        driven.ask(name)
        driven.widgets.transcript.edit_last_prompt()
        bubble = driven.widgets.transcript.column.views[0]
        assert bubble.editor is not None
        qtbot.keyClicks(bubble.editor.field, " otherwise")
        qtbot.keyClicks(driven.widgets.composer.focusProxy(), f"{name} half a sent")
    number = driven.app.chat.chat_id
    assert number is not None
    driven.until(lambda: {"Goes half a sent", "Goes otherwise"} <= kept(driven))
    driven.app.chats.delete(number)
    assert {"Goes half a sent", "Goes otherwise"} <= kept(driven)
    driven.app.chats.delete_for_ever(number)
    assert kept(driven) == {"Stays half a sent", "Stays otherwise"}
    driven.app.drafts.save()
    assert kept(driven) == {"Stays half a sent", "Stays otherwise"}


def test_what_is_typed_is_on_the_disk_soon(driven, qtbot):
    """A program that is killed loses no more of it than of an answer."""
    driven.ask("One")
    driven.until(lambda: driven.app.settings.value.last_chat == driven.app.chat.chat_id)
    saved = []
    driven.app.settings.changed.connect(lambda: saved.append("a file that waits for the disk"))
    qtbot.keyClicks(driven.widgets.composer.focusProxy(), "half a sent")
    driven.until(lambda: "half a sent" in kept(driven))
    driven.widgets.transcript.edit_last_prompt()
    bubble = driven.widgets.transcript.column.views[0]
    assert bubble.editor is not None
    qtbot.keyClicks(bubble.editor.field, " in other words")
    driven.until(lambda: "One in other words" in kept(driven))
    assert saved == []


def test_what_a_model_recommends_is_not_what_a_user_chose(driven, source):
    engines, chats = source.engines, driven.app.chat
    engines["other"] = WorkerEngine([], described("other", 1_000_000))
    engines["None"].description = replace(
        engines["None"].description, sampling=SamplingOptions(temperature=0.0)
    )
    own = replace(chats.settings, sampling=SamplingChoice(top_k=5))
    chats.change_settings(own)
    driven.app.models.load("other")
    driven.until(lambda: driven.app.models.model_name == "other")
    driven.ask("One")
    assert engines["other"].sessions[-1].sampling == SamplingOptions(0.6, 5, 0.95)
    assert chats.settings.sampling == SamplingChoice(top_k=5)
    driven.widgets.session.presets.presets.use_for_new_chats()
    driven.app.chats.begin()
    assert chats.settings.sampling == SamplingChoice(top_k=5)


def test_what_the_engine_refuses_is_said_in_the_chat(driven, source):
    say_next(source, Answer("Half an", error=PromptTooLong("The conversation is too long.")))
    assert driven.ask("Go") == "Half an"
    message = driven.widgets.transcript.column.views[-1].message
    assert message.state == "failed"
    assert message.notice == "The conversation is too long."
    assert driven.ask("Again") == "You said: Again"


def test_how_an_answer_went_is_known_after_a_restart(alone, source, qapp, qtbot, tmp_path):
    say_next(source, Answer("So.", thinking="Hm and hm", pause_s=0.02))
    alone.ask("Think")
    say_next(source, Answer("Half an", error=PromptTooLong("The conversation is too long.")))
    alone.ask("Go")
    before = [view.message for view in alone.widgets.transcript.column.views]
    assert (before[1].thinking_seconds or 0) > 0
    alone.app.close()
    with running(qapp, qtbot, tmp_path / "home", scripted()) as again:
        after = [view.message for view in again.widgets.transcript.column.views]
        assert after[1].thinking_seconds == before[1].thinking_seconds
        assert (after[3].state, after[3].notice) == ("failed", "The conversation is too long.")


def test_a_chat_that_was_being_shown_when_the_program_died_is_not_shown_first(
    alone, qapp, qtbot, tmp_path
):
    alone.ask("Stars")
    chat_id, marker = alone.app.chat.chat_id, tmp_path / "home" / "being-shown"
    assert marker.read_text() == str(chat_id)
    alone.until(lambda: not marker.exists())  # once nothing more is laid out
    alone.app.close()
    marker.write_text(str(chat_id))
    with running(qapp, qtbot, tmp_path / "home", scripted()) as again:
        assert again.app.chat.chat_id is None
        title = again.app.store.chats.get(chat_id).title
        assert f"“{title}”. It is in the list" in again.widgets.notice.accessibleDescription()
        again.app.chat.open(chat_id)
        assert again.shown == ["Stars", "You said: Stars"] and marker.exists()
    with running(qapp, qtbot, tmp_path / "home", scripted()) as after:
        assert after.app.chat.chat_id == chat_id


def test_an_answer_cut_by_closing_the_window_says_so(alone, source, qapp, qtbot, tmp_path):
    say_next(source, SLOW)
    alone.send("Go")
    alone.until(lambda: len(written(alone)) > 20)
    alone.app.close()
    with running(qapp, qtbot, tmp_path / "home", scripted()) as again:
        message = again.widgets.transcript.column.views[-1].message
        assert message.notice.startswith("Headstart was closed while this was being written.")
        assert message.state == "stopped"
        assert message.can_continue


def test_an_answer_that_does_not_fit_on_the_disk_stays_on_show(driven, source):
    words = LONG * 10
    say_next(source, Answer(words))
    driven.send("Go")
    database = driven.app.store.database
    pages = database.rows("PRAGMA page_count")[0][0]
    database.rows(f"PRAGMA max_page_count = {pages}")
    driven.until_answered()
    assert driven.shown[-1] == words
    assert "free some space" in driven.widgets.notice.words()
    driven.app.chat.open(driven.app.chat.chat_id)
    assert driven.shown[-1] == words
    database.rows("PRAGMA max_page_count = 1000000")
    driven.until(lambda: not driven.widgets.notice.words())
    assert driven.app.store.messages.unwritten == {}


def test_an_answer_that_cannot_be_saved_to_the_end_is_offered_at_the_next_start(
    alone, source, qapp, qtbot, tmp_path, monkeypatch
):
    monkeypatch.setattr("app.state.answers.PATIENCE_S", 0.0)
    words = LONG * 10
    say_next(source, Answer(words))
    alone.send("Go")
    pages = alone.app.store.database.rows("PRAGMA page_count")[0][0]
    alone.app.store.database.rows(f"PRAGMA max_page_count = {pages}")
    alone.until_answered()
    answer = alone.app.chat.turns[-1].message.id
    alone.app.close()
    with running(qapp, qtbot, tmp_path / "home", scripted()) as again:
        assert again.widgets.transcript.reader.edits == {answer: words}


def test_a_mistake_of_ours_is_told_with_details(driven, source):
    say_next(source, Answer("Half", error=ZeroDivisionError("oops")))
    driven.ask("Go")
    assert "made a mistake" in driven.widgets.notice.words()
    assert "ZeroDivisionError" in driven.app.crash_log.log_file.read_text()
    assert driven.shown[-1] == "Half"
    driven.ask("And now?")
    assert "made a mistake" in driven.widgets.notice.words(), "until it is dismissed"


def test_another_chat_can_be_read_while_one_is_answered(driven, source):
    driven.ask("One")
    first = driven.app.chat.chat_id or 0
    driven.app.chats.begin()
    say_next(source, Answer(LONG, pause_s=0.002))
    driven.send("Two")
    second = driven.app.chat.chat_id or 0
    driven.app.chat.open(first)
    assert driven.shown == ["One", "You said: One"]
    driven.until(lambda: not driven.app.answers.chat_ids)
    assert driven.shown == ["One", "You said: One"]
    driven.app.chat.open(second)
    assert driven.shown == ["Two", LONG]


def test_what_cannot_be_sent_stays_in_the_composer(driven, source):
    driven.app.models.description = None
    driven.send("Precious words")
    assert driven.widgets.composer.text() == "Precious words"
    assert not driven.app.chat.send("Precious words")
    assert "No model is loaded" in driven.widgets.notice.words()


def test_an_answer_is_edited_where_it_stands(driven, qtbot):
    driven.ask("First")
    driven.ask("Second")
    view = driven.widgets.transcript.column.views[1]
    qtbot.mouseClick(view.buttons.edit, Qt.MouseButton.LeftButton)
    assert view.editor is not None and view.editor.field.toPlainText() == "You said: First"
    view.editor.field.setPlainText("**Mine**, $x^2$")
    qtbot.mouseClick(view.editor.send, Qt.MouseButton.LeftButton)
    assert driven.shown == ["First", "**Mine**, $x^2$", "Second", "You said: Second"]
    edited = driven.widgets.transcript.column.views[1]
    driven.until(lambda: edited.is_built)
    assert edited.message.notice == "Edited." and edited.buttons.number.text() == "2/2"
    assert driven.widgets.transcript.reader.edits == {}
    qtbot.mouseClick(edited.buttons.previous, Qt.MouseButton.LeftButton)
    assert driven.shown == ["First", "You said: First", "Second", "You said: Second"]
    assert driven.ask("Third") == "You said: Third"


def test_an_edited_last_answer_can_go_on(driven, source):
    driven.ask("First")
    last = driven.app.chat.last_answer
    assert last is not None
    driven.app.chat.edit(last.id, "It begins like")
    assert driven.widgets.transcript.column.views[1].message.can_continue
    driven.app.chat.continue_answer()
    driven.until_answered()
    assert driven.shown[1].startswith("It begins like") and len(driven.shown[1]) > 14


def test_an_answer_kept_as_it_was_stays_one(driven):
    driven.ask("First")
    view = driven.widgets.transcript.column.views[1]
    view.edit()
    view.editor.send.click()
    view = driven.widgets.transcript.column.views[1]
    assert view.editor is None and view.message.branch_count == 1 and not view.message.notice


def test_an_answer_is_not_edited_while_another_runs(driven, source):
    driven.ask("First")
    first = driven.app.chat.last_answer
    say_next(source, Answer("word " * 500, pause_s=0.01))
    driven.send("Second")
    view = driven.widgets.transcript.column.views[1]
    view.edit()
    view.editor.field.setPlainText("Mine")
    view.editor.send.click()
    assert "Stop the answer" in driven.widgets.notice.words()
    assert view.editor.field.toPlainText() == "Mine", "it stays"
    driven.app.chat.stop()
    driven.until_answered()
    assert first is not None
    view.editor.send.click()
    assert driven.shown[1] == "Mine" and driven.shown[2] == "Second"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_new_chat_goes_on_from_any_message(driven, qtbot, place, monkeypatch):
    monkeypatch.setattr(QMenu, "popup", lambda *_: None)
    driven.ask("First")
    driven.ask("Second")
    before, shown = driven.app.chat.chat_id, list(driven.shown)
    view = driven.widgets.transcript.column.views[place]
    qtbot.mouseClick(view.buttons.more, Qt.MouseButton.LeftButton)
    (menu,) = view.findChildren(QMenu)
    next(one for one in menu.actions() if one.text() == "New Chat from Here").trigger()
    assert driven.shown == shown[: place + 1]
    assert driven.app.chat.chat_id != before
    assert driven.app.chat.title == "First (branch)"
    assert driven.widgets.sidebar.list.selected() == (driven.app.chat.chat_id,)
    assert driven.ask("Elsewhere") == "You said: Elsewhere"
    driven.app.chat.open(before or 0)
    assert driven.shown == shown


def test_a_question_is_deleted_with_its_answer_and_put_back(driven):
    for text in ("First", "Second", "Third"):
        driven.ask(text)
    shown, reader = list(driven.shown), driven.widgets.transcript.reader
    for message, left in ((2, shown[:2] + shown[4:]), (5, shown[:4]), (0, shown[2:])):
        reader.chats.delete_message(driven.app.chat.turns.ids[message])
        assert driven.shown == left
        assert [turn.message.text for turn in driven.app.chat.turns] == left
        driven.app.chats.deeds.undo()
        assert driven.shown == shown
        driven.app.chats.deeds.redo()
        assert driven.shown == left
        driven.app.chats.deeds.undo()
    reader.chats.delete_message(driven.app.chat.turns.ids[3])
    assert driven.ask("Fourth") == "You said: Fourth"
    assert [turn.message.role for turn in driven.app.chat.turns] == ["user", "assistant"] * 3


def test_the_only_question_of_a_chat_can_be_deleted(driven):
    driven.ask("First")
    driven.app.chat.delete(driven.app.chat.turns.ids[0])
    assert driven.shown == [] and not driven.widgets.transcript.isVisible()
    assert driven.ask("Again") == "You said: Again"


def test_what_is_selected_is_quoted_in_the_message(driven):
    driven.ask("Hello")
    reader = driven.widgets.transcript.reader
    reader.selection.quote_wanted.emit("You said:\n\nHello")
    assert driven.widgets.composer.text() == "> You said:\n>\n> Hello\n\n"
    reader.selection.quote_wanted.emit("Hello")
    assert driven.widgets.composer.text().endswith("> Hello\n\n\n\n> Hello\n\n")


def test_an_answer_of_another_model_than_the_one_in_use_names_it(driven):
    driven.ask("Hello")
    footer = driven.widgets.transcript.column.views[-1].footer
    assert "None" not in footer.shown()
    driven.widgets.transcript.show_model("Another")
    assert footer.shown().startswith(driven.app.chat.turns[-1].message.model)


def test_a_new_chat_goes_on_while_the_old_one_is_answered(driven, source):
    driven.ask("First")
    answer, before = driven.app.chat.last_answer, driven.app.chat.chat_id
    say_next(source, Answer("word " * 300, pause_s=0.005))
    driven.send("Second")
    assert answer is not None
    driven.app.chats.branch_off(answer.id, "branch")
    assert driven.shown == ["First", "You said: First"]
    driven.until(lambda: not driven.app.answers.chat_ids)
    driven.app.chat.open(before or 0)
    assert driven.shown[-1].startswith("word word")


def test_several_chats_answer_at_once(driven, source):
    """Each has its own stop, and throwing one away leaves the others alone."""
    say_next(source, SLOW, SLOW, SLOW)
    app, chats, numbers = driven.app, driven.app.chat, list[int]()
    for question in ("One?", "Two?", "Three?"):
        chats.begin(chats.settings)
        driven.send(question)
        assert chats.chat_id is not None
        numbers.append(chats.chat_id)

    def words(number: int) -> int:
        answer = app.answers.of_chat(number)
        return 0 if answer is None else len(answer.answer.text)

    driven.until(lambda: all(map(words, numbers)))
    chats.open(numbers[1])
    driven.app.actions["stop"].trigger()
    driven.until(lambda: set(app.answers.chat_ids) == {numbers[0], numbers[2]})
    assert 0 < len(chats.turns[-1].message.text) < len(LONG)
    app.chats.delete(numbers[0])
    driven.until(lambda: set(app.answers.chat_ids) == {numbers[2]})
    before = words(numbers[2])
    driven.until(lambda: words(numbers[2]) > before)


def test_where_the_context_is_full_it_goes_on_without_the_oldest_turns(
    alone, source, qapp, qtbot, tmp_path
):
    """They stay on show, above a line that says so, also after a restart; the engine reads the
    others only, also when an answer is made again.
    """
    alone.ask("One, and more words than all that follow have together")
    alone.ask("Two")
    say_next(source, Answer("Half an", reason="context-full"))
    alone.ask("Three")
    column = alone.widgets.transcript.column
    assert [view.message.can_drop for view in column.views] == [False] * 5 + [True]
    buttons = column.views[-1].buttons
    assert buttons is not None and buttons.drop.isVisibleTo(column)
    say_next(source, Answer(" answer"))
    buttons.drop.click()
    alone.until(lambda: alone.app.chat.running is None)
    assert alone.shown[0].startswith("One, and")
    assert alone.shown[-1] == "Half an answer"
    session = source.engines["None"].sessions[-1]
    assert session.turns[session.unread].text == "Two"
    assert [v.message.is_first_read for v in column.views] == [n == 2 for n in range(6)]
    alone.ask("Four")
    assert source.engines["None"].sessions[-1].turns[0].text == "Two"
    alone.app.close()
    with running(qapp, qtbot, tmp_path / "home", scripted()) as again:
        views = again.widgets.transcript.column.views
        assert [v.message.is_first_read for v in views] == [n == 2 for n in range(8)]


def test_a_question_that_does_not_fit_is_asked_without_the_oldest_turns(driven, source):
    driven.ask("One")
    say_next(source, Answer("", error=PromptTooLong("The conversation is too long.")))
    driven.ask("Two")
    view = driven.widgets.transcript.column.views[-1]
    assert (view.message.state, view.message.can_drop) == ("failed", True)
    say_next(source, Answer("Fits."))
    driven.app.chat.drop_oldest(view.message.id)
    driven.until(lambda: driven.app.chat.running is None)
    assert driven.shown == ["One", "You said: One", "Two", "Fits."]
    assert not driven.app.chat.can_drop


def test_the_next_start_has_the_chat_that_was_open_and_what_was_typed(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as one:
        one.ask("Hello")
        one.app.chats.begin()
        one.ask("Other")
        one.widgets.composer.show_message("Half a question")
        one.widgets.sidebar.list.choose_neighbour(1)
        assert one.shown == ["Hello", "You said: Hello"]
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert again.shown == ["Hello", "You said: Hello"], "also when it was left at once"
        again.widgets.sidebar.list.choose_neighbour(-1)
        assert again.widgets.composer.text() == "Half a question"


def test_an_answer_without_a_token_has_no_figures(driven, source):
    driven.ask("Hello")
    figures = driven.app.chat.last_stats
    source.engines["None"].answers.append(Answer(""))
    driven.ask("Nothing to say")
    assert [view.message.stats is None for view in driven.widgets.transcript.column.views] == [
        *(True, False),
        *(True, True),
    ]
    assert driven.app.chat.last_stats == figures
    assert "0.0 tok/s" not in driven.widgets.strip.accessibleDescription()


def test_what_is_attached_and_not_sent_outlives_the_program(qapp, qtbot, tmp_path):
    """However long it is."""
    long = AttachedText("long.txt", "words " * 50_000 + "end")
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.widgets.composer.show_message("Look")
        driven.widgets.composer.row.attach([long])
        driven.until(lambda: any("words words" in text for text in kept(driven)))
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert again.widgets.composer.message() == SaidWith("Look", (long,))


def test_what_is_typed_stays_when_a_suggestion_is_asked(driven, qtbot):
    qtbot.keyClicks(driven.widgets.composer.focusProxy(), "half a sent")
    questions = driven.widgets.start.findChildren(ShortButton)
    next(b for b in questions if b.accessibleName() == "How does drafting work?").click()
    driven.until_answered()
    assert driven.shown[0] == "How does drafting work?"
    assert driven.widgets.composer.text() == "half a sent"
    driven.until(lambda: "half a sent" in kept(driven))


def test_unsent_texts_of_an_older_headstart_are_taken_over(qapp, qtbot, tmp_path):
    """They were in the file of settings; what cannot be stored stays there."""
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("One")
        chat, question = driven.app.chat.chat_id, driven.app.chat.turns[0].message.id
    file = folders_in(tmp_path).settings_file
    content = json.loads(file.read_text())
    content["unsent"] = {"0": "A new thought", str(chat): "Half a sent", "99": "Of no chat"}
    content["rewritten"] = {str(question): "One, otherwise"}
    file.write_text(json.dumps(content))
    for _ in range(2):
        with running(qapp, qtbot, tmp_path, scripted()) as again:
            assert again.widgets.composer.text() == "Half a sent"
            assert again.widgets.transcript.reader.edits == {question: "One, otherwise"}
            again.app.chats.begin()
            assert again.widgets.composer.text() == "A new thought"
            again.app.chat.open(chat)
            content = json.loads(file.read_text())
    assert content["unsent"] == content["rewritten"] == {}


def test_unsent_texts_that_cannot_be_stored_are_kept_in_the_settings(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.ask("One")
        pages = driven.app.store.database.rows("PRAGMA page_count")[0][0]
        driven.app.store.database.rows(f"PRAGMA max_page_count = {pages}")
        driven.widgets.composer.show_message("much " * 3000)
        driven.until(lambda: "disk is full" in driven.widgets.notice.words())
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert again.widgets.composer.text() == "much " * 3000
