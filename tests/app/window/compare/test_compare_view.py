"""The view runs, stops, fails and ends with an honest verdict."""

from dataclasses import replace

import pytest
from chat_states import BUILT_IN
from compare_states import OFF, ON, StatedComparison
from PIL import Image
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from seen import button, find, press, words_on

from app.window.compare_view import ComparePane, CompareView
from app.window.composer import MessageBox
from app.window.controls.chart import ShareBar
from app.window.controls.choices import Segments
from app.window.transcript.pinned_scroll import PinnedScroll
from app.worker.replies import ModelLoaded, ModelUnloaded
from app.worker.requests import Ask, StopAnswer
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.picture import read_picture


@pytest.fixture
def stated(qapp):
    made = StatedComparison()
    yield made
    made.stated.close()


@pytest.fixture
def view(qtbot, stated):
    widget = CompareView()
    qtbot.addWidget(widget)
    widget.watch(stated.comparison)
    widget.resize(800, 500)
    widget.show_prompt("Why is\nthe sky blue?")
    return widget


def run_button(view):
    return next(b for b in view.findChildren(QPushButton) if b.text() in ("Run", "Stop"))


def pane(view, title):
    return find(view, ComparePane, title)


def test_the_prompt_is_run_as_it_is(qtbot, view, stated):
    presses = (
        run_button(view).click,
        lambda: qtbot.keyClick(view.findChild(MessageBox), Qt.Key.Key_Return),
        lambda: qtbot.keyClick(run_button(view), Qt.Key.Key_Return),
    )
    for run in presses:
        run()
        assert stated.requests[-1].messages[-1].text == "Why is\nthe sky blue?"
        stated.end("on")
        stated.end("off")
    view.show_prompt("  ")
    assert not run_button(view).isEnabled()


def test_the_pictures_of_the_last_question_are_compared_with_it(view, stated):
    picture, models = read_picture(Image.new("RGB", (4, 4), "red")), stated.stated.models
    stated.stated.chat.send("What is it?", [picture])
    view.begin()
    assert "Leave the pictures out" in " ".join(words_on(view)) and not run_button(view).isEnabled()
    models.description = replace(models.description, vision=None)
    models.changed.emit()
    run_button(view).click()
    (asked,) = stated.requests[-1].messages
    assert (asked.text, asked.images) == ("What is it?", (picture,))
    assert stated.comparison.is_running
    stated.end("on")
    stated.end("off")
    view.show_prompt("")
    assert run_button(view).isEnabled(), "a picture alone is a prompt"
    press(view, "Remove picture 1")
    assert not run_button(view).isEnabled()


def test_the_longest_seed_is_whole_where_the_page_is_narrow(view, stated):
    """800 x 600 at 150 % leaves as much as this does at 100 %."""
    view.resize(300, 400)
    view.show()
    settings = stated.stated.chat.settings
    sampling = replace(settings.sampling, seed=2**64 - 1)
    stated.stated.chat.settings = replace(settings, sampling=sampling)
    stated.run()
    seed = next(label for label in view.findChildren(QLabel) if label.text().startswith("Seed "))
    assert seed.fontMetrics().horizontalAdvance(seed.text()) <= seed.width()
    (gain,) = (label for label in view.findChildren(QLabel) if "with drafting." in label.text())
    assert gain.x() == seed.x()


def test_both_answers_and_figures_are_shown(view, stated):
    stated.run()
    assert [pane.view.text() for pane in view.findChildren(ComparePane)] == ["Because of it."] * 2
    shown = words_on(view)
    assert "Same 212 tokens." in shown
    assert "1.87 times as fast with drafting." in shown
    assert "41.3 tok/s" in shown
    assert "212 tokens · 2.90 tokens per step · 67% of guesses right (174 of 260)" in shown
    assert "212 tokens · 1.00 tokens per step" in shown
    assert run_button(view).text() == "Run"


def test_a_difference_is_shown_as_a_mistake(view, stated):
    stated.run(off="Because of us.")
    verdict = find(view, QLabel, "Verdict")
    assert verdict.text() == "Differs from word 3: “it.” with drafting, “us.” without."
    assert verdict.property("role") == "error-heading"
    stated.run()
    assert verdict.property("role") == "heading"


def test_progress_and_stop(view, stated):
    stated.comparison.run("Why?")
    assert pane(view, "Drafting on").accessibleDescription() == "Drafting on, Reading the prompt"
    assert pane(view, "Drafting off").accessibleDescription() == "Drafting off, Runs next"
    stated.end("on", "Because of it.")
    stated.say("off", TextPiece("Because of"))
    assert pane(view, "Drafting off").accessibleDescription() == "Drafting off, Running"
    assert "Running. The first 2 words are the same." in words_on(view)
    assert run_button(view).text() == "Stop"
    run_button(view).click()
    assert isinstance(stated.requests[-1], StopAnswer)
    stated.end("off", "Because of", reason="stopped")
    shown = words_on(view)
    assert "Stopped. The first 2 words are the same." in shown
    assert "41.3 tok/s" in shown, "what was measured stays"
    assert pane(view, "Drafting off").accessibleDescription() == "Drafting off, Stopped"
    assert run_button(view).text() == "Run"


def test_texts_that_differ_are_told_as_they_come(view, stated):
    stated.comparison.run("Why?")
    stated.end("on", "😀 one two three")
    stated.say("off", TextPiece("😀 one tw"))
    assert "Running. The first 3 words are the same." in words_on(view)
    stated.say("off", TextPiece("enty"))
    assert "Running. The texts differ." in words_on(view)


def test_failure(view, stated):
    stated.comparison.run("Why?")
    stated.fail("on", "The model does not fit in memory: choose a smaller one.")
    assert "The model does not fit in memory: choose a smaller one." in words_on(view)
    assert words_on(view).count("Failed") == 2
    assert run_button(view).text() == "Run"


def test_why_it_cannot_run(qtbot, view, stated):
    models = stated.stated.models
    models.take(ModelUnloaded(""))
    assert not models.can_answer
    assert not run_button(view).isEnabled()
    asked = len(stated.requests)
    qtbot.keyClick(view.findChild(MessageBox), Qt.Key.Key_Return)
    assert len(stated.requests) == asked
    assert "Open or drop a model first." in words_on(view)
    models.take(ModelLoaded(None, BUILT_IN))
    assert run_button(view).isEnabled()
    assert "Open or drop a model first." not in words_on(view)


def test_thinking_is_shown_and_compared(view, stated):
    stated.comparison.run("Why?")
    stated.end("on", "Because of it.", "Rayleigh, surely.")
    stated.end("off", "Because of it.", "Rayleigh, maybe.")
    assert pane(view, "Drafting on").view.thinking.text == "Rayleigh, surely."
    assert pane(view, "Drafting on").view.text() == "Because of it."
    assert "Differs from word 2: “surely.” with drafting, “maybe.” without." in words_on(view)


def test_speeds_are_seen_beside_each_other(view, stated, wear):
    stated.run()
    assert "1.87×" in words_on(view)
    bars = {bar.accessibleName(): bar for bar in view.findChildren(ShareBar)}
    assert bars["Drafting on: speed: 41.3 tok/s"]._parts[0].share == 1
    assert bars["Drafting off: speed: 22.1 tok/s"]._parts[0].share == pytest.approx(22.1 / 41.3)
    wear("dark", 1.5)
    assert not view.grab().isNull()


def test_answers_are_shown_as_in_a_chat(qtbot, view, stated):
    source = "A **bold** word and $x^2$\n\n```py\nx = 1\n```\n\nend"
    stated.run(on=source, off=source.replace("1", "2"))
    formulas = view.reader.formulas
    qtbot.waitUntil(lambda: not formulas.is_busy)
    QApplication.processEvents()
    shown = [text.text() for text in pane(view, "Drafting on").view.texts()]
    assert shown == ["A bold word and \ufffc", "x = 1", "end"]
    stated.run(on="Another.")
    assert [text.text() for text in pane(view, "Drafting on").view.texts()] == ["Another."]


def test_answers_have_room_in_the_smallest_window(view, stated):
    view.resize(520, 400)
    stated.run(on="word " * 60, off="word " * 60)
    view.show()
    for answer in view.findChildren(PinnedScroll):
        assert answer.height() >= 220


def test_in_a_small_window_the_newest_words_are_seen(qtbot, view, stated):
    def is_seen(title: str) -> bool:
        """Whether the end of this side is on the screen."""
        text = pane(view, title).view.texts()[-1]
        cursor = text.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        return text.viewport().visibleRegion().contains(text.cursorRect(cursor).center())

    view.resize(520, 400)
    view.show()
    stated.comparison.run("Why?")
    for side, title, stats in (("on", "Drafting on", ON), ("off", "Drafting off", OFF)):
        stated.say(side, TextPiece("word " * 150))
        qtbot.waitUntil(lambda title=title: is_seen(title))
        stated.say(side, TextPiece(" more" * 100))
        qtbot.waitUntil(lambda title=title: is_seen(title))
        stated.end(side, "", stats=stats)
    assert not view.findChild(MessageBox).visibleRegion().contains(QPoint(5, 5))


def test_the_last_question_is_replaced_by_what_is_typed(view, stated, qtbot):
    stated.stated.chat.send("Why?")
    stated.stated.answer(qtbot, "Because.")
    view.begin()
    box = view.findChild(MessageBox)
    assert box.toPlainText() == "Why?"
    qtbot.keyClicks(box, "How?")
    assert box.toPlainText() == "How?"
    stated.stated.drafts.close()


def test_a_depth_that_is_pinned_can_be_compared(view, stated):
    chat, depths = stated.stated.chat, view.findChild(Segments)
    assert not depths.isVisibleTo(view)
    chat.settings = replace(chat.settings, draft=DraftOptions("prompt-lookup", 3))
    view.begin()
    assert depths.isVisibleTo(view)
    button(depths, "As in this chat: 3").click()
    view.begin()
    view.show_prompt("Why?")
    run_button(view).click()
    asked = [request for request in stated.requests if isinstance(request, Ask)]
    assert asked[-1].settings.draft.depth == 3, "what was chosen stays"
    stated.end("on", stats=replace(ON, tokens_per_second=10.0))
    stated.end("off")
    assert "This chat guesses 3 tokens ahead in any case; Auto only as many as help." in " ".join(
        words_on(view)
    )
    chat.settings = replace(chat.settings, draft=DraftOptions())
    view.begin()
    assert not depths.isVisibleTo(view)


def test_a_prompt_of_any_height_is_whole(view, theme):
    """Its box has a frame and a padding, which the composer's has not."""
    view.show()
    box = view.findChild(MessageBox)
    for lines in (1, 2, 5):
        view.show_prompt("\n".join(["def read_all(path):"] * lines))
        needed = lines * box.fontMetrics().lineSpacing() + 2 * box.document().documentMargin()
        assert box.viewport().height() >= round(needed), lines
