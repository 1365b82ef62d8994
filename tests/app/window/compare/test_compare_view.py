"""The view runs, stops, fails and ends with an honest verdict."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from seen import find, words_on

from app.window.compare.compare_pane import ComparedText, ComparePane
from app.window.compare.compare_view import CompareView
from app.window.composer.message_box import MessageBox
from app.window.controls.chart import ShareBar
from mlx_engine.values.stats import GenerationStats

ON = GenerationStats(
    generated_tokens=212, drafted=260, accepted=174, tokens_per_pass=2.9, tokens_per_second=41.3
)
OFF = GenerationStats(generated_tokens=212, tokens_per_pass=1.0, tokens_per_second=22.1)


@pytest.fixture
def view(qtbot):
    widget = CompareView()
    qtbot.addWidget(widget)
    widget.resize(800, 500)
    widget.show_prompt("Why is\nthe sky blue?")
    return widget


def run_button(view):
    return next(b for b in view.findChildren(QPushButton) if b.text() in ("Run", "Stop"))


def finish(view, on="Because of it.", off="Because of it."):
    view.begin()
    for side, text, stats in (("on", on, ON), ("off", off, OFF)):
        view.begin_side(side)
        for piece in text:
            view.add_text(side, piece)
        view.finish_side(side, stats)


def test_the_prompt_is_run_as_it_is(qtbot, view):
    with qtbot.waitSignal(view.run_wanted) as got:
        run_button(view).click()
    assert got.args == ["Why is\nthe sky blue?"]
    with qtbot.waitSignal(view.run_wanted):
        qtbot.keyClick(view.findChild(MessageBox), Qt.Key.Key_Return)
    with qtbot.waitSignal(view.run_wanted):
        qtbot.keyClick(run_button(view), Qt.Key.Key_Return)
    view.show_prompt("  ")
    assert not run_button(view).isEnabled()


def test_the_longest_seed_is_whole_where_the_page_is_narrow(view):
    """800 x 600 at 150 % leaves as much as this does at 100 %."""
    view.resize(300, 400)
    view.show()
    finish(view)
    view.begin(2**64 - 1)
    view.finish_side("on", ON)
    view.finish_side("off", OFF)
    seed = next(label for label in view.findChildren(QLabel) if label.text().startswith("Seed "))
    assert seed.fontMetrics().horizontalAdvance(seed.text()) <= seed.width()
    (gain,) = (label for label in view.findChildren(QLabel) if "with drafting." in label.text())
    assert gain.x() == seed.x()


def test_both_answers_and_figures_are_shown(view):
    finish(view)
    assert [pane.text.said for pane in view.findChildren(ComparePane)] == ["Because of it."] * 2
    shown = words_on(view)
    assert "Same 212 tokens." in shown
    assert "1.87 times as fast with drafting." in shown
    assert "41.3 tok/s" in shown
    assert (
        "212 tokens · 2.90 tok/pass · 67\N{NO-BREAK SPACE}% of drafts accepted (174/260)" in shown
    )
    assert "212 tokens · 1.00 tok/pass" in shown
    assert run_button(view).text() == "Run"


def test_a_difference_is_shown_as_a_mistake(view):
    finish(view, off="Because of us.")
    verdict = find(view, QLabel, "Verdict")
    assert verdict.text() == "Differs from word 3: “it.” with drafting, “us.” without."
    assert verdict.property("role") == "error-heading"
    finish(view)
    assert verdict.property("role") == "heading"


def test_progress_and_stop(qtbot, view):
    view.begin()
    view.begin_side("on")
    view.add_text("on", "Because of it.")
    view.finish_side("on", ON)
    view.begin_side("off")
    view.add_text("off", "Because of")
    assert "Running. The first 2 words are the same." in words_on(view)
    assert run_button(view).text() == "Stop"
    with qtbot.waitSignal(view.stop_wanted), qtbot.assertNotEmitted(view.run_wanted):
        run_button(view).click()
    view.show_stopped()
    shown = words_on(view)
    assert "Stopped. The first 2 words are the same." in shown
    assert "41.3 tok/s" in shown, "what was measured stays"
    assert "Stopped" in shown
    assert run_button(view).text() == "Run"


def test_failure(view):
    view.begin()
    view.begin_side("on")
    view.show_failed("The model does not fit in memory: choose a smaller one.")
    assert "The model does not fit in memory: choose a smaller one." in words_on(view)
    assert words_on(view).count("Failed") == 2
    assert run_button(view).text() == "Run"


def test_why_it_cannot_run(qtbot, view):
    view.show_ready("Wait until the answer in the chat is done.")
    assert not run_button(view).isEnabled()
    with qtbot.assertNotEmitted(view.run_wanted):
        qtbot.keyClick(view.findChild(MessageBox), Qt.Key.Key_Return)
    assert "Wait until the answer in the chat is done." in words_on(view)
    view.show_ready()
    assert run_button(view).isEnabled()
    assert "Wait until the answer in the chat is done." not in words_on(view)


def pane(view, title):
    return find(view, ComparePane, title)


def test_thinking_is_shown_and_compared(view):
    view.begin(816233)
    assert "Seed 816233" in words_on(view)
    for side, thought in (("on", "Rayleigh, surely."), ("off", "Rayleigh, maybe.")):
        view.begin_side(side)
        view.add_text(side, thought, is_thinking=True)
        view.add_text(side, "Because of it.")
        view.finish_side(side, ON if side == "on" else OFF)
    assert pane(view, "Drafting on").text.said == "Rayleigh, surely.\n\nBecause of it."
    assert "Differs from word 2: “surely.” with drafting, “maybe.” without." in words_on(view)
    assert marked(view, "Drafting on") == "surely.Because of it."


def marked(view, title):
    texts = pane(view, title).text.texts()
    selections = [selection for text in texts for selection in text.extraSelections()]
    return "".join(selection.cursor.selectedText() for selection in selections)


def test_a_difference_is_marked_as_it_comes(view):
    view.begin()
    view.begin_side("on")
    view.add_text("on", "😀 one two three")
    view.begin_side("off")
    view.add_text("off", "😀 one tw")
    assert marked(view, "Drafting off") == ""
    view.add_text("off", "enty")
    assert marked(view, "Drafting off") == "enty"
    assert marked(view, "Drafting on") == "o three"
    assert "Running. The texts differ." in words_on(view)
    finish(view)
    assert marked(view, "Drafting off") == ""


def test_speeds_are_seen_beside_each_other(view, wear):
    view.begin()
    view.begin_side("on")
    view.show_speed("on", 40.0)
    assert "40.0 tok/s" in words_on(view)
    finish(view)
    assert "1.87×" in words_on(view)
    bars = {bar.accessibleName(): bar for bar in view.findChildren(ShareBar)}
    assert bars["Drafting on: speed"]._parts[0].share == 1
    assert bars["Drafting off: speed"]._parts[0].share == pytest.approx(22.1 / 41.3)
    assert bars["Drafting off: speed"].accessibleDescription() == "22.1 tok/s"
    wear("dark", 1.5)
    assert not view.grab().isNull()


def test_answers_are_shown_as_in_a_chat(qtbot, view):
    source = "A **bold** word and $x^2$\n\n```py\nx = 1\n```\n\nend"
    finish(view, on=source, off=source.replace("1", "2"))
    formulas = view.reader.formulas
    qtbot.waitUntil(lambda: not formulas.is_busy)
    QApplication.processEvents()
    shown = [text.text() for text in pane(view, "Drafting on").text.texts()]
    assert shown == ["A bold word and \ufffc", "x = 1", "end"]
    assert pane(view, "Drafting on").text.said == source
    assert marked(view, "Drafting on") == "1end"


def test_a_long_difference_is_marked_from_where_it_begins(view):
    finish(view, on="# One\n\nSame **text** here", off="# One\n\nSame **words** there")
    assert marked(view, "Drafting on") == "text here"
    assert marked(view, "Drafting off") == "words there"


def test_answers_have_room_in_the_smallest_window(view):
    view.resize(520, 400)
    finish(view, on="word " * 60, off="word " * 60)
    view.show()
    for answer in view.findChildren(ComparedText):
        assert answer.height() >= 220


def test_in_a_small_window_the_newest_words_are_seen_and_then_those_that_differ(qtbot, view):
    def is_seen(title: str) -> bool:
        """Whether the end of this side, or what is marked first in it, is on the screen."""
        text = pane(view, title).text.texts()[-1]
        cursor = text.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        for mark in text.extraSelections():
            cursor.setPosition(mark.cursor.selectionStart())
        return text.viewport().visibleRegion().contains(text.cursorRect(cursor).center())

    same, rest = "word " * 150, " more" * 100
    view.resize(520, 400)
    view.show()
    view.begin()
    for side, title, stats in (("on", "Drafting on", ON), ("off", "Drafting off", OFF)):
        view.begin_side(side)
        view.add_text(side, same)
        qtbot.waitUntil(lambda title=title: is_seen(title))
        view.add_text(side, side + rest)
        qtbot.waitUntil(lambda title=title: is_seen(title))
        view.finish_side(side, stats)
    qtbot.waitUntil(lambda: is_seen("Drafting on") and is_seen("Drafting off"))
    assert not view.findChild(MessageBox).visibleRegion().contains(QPoint(5, 5))


def test_a_prompt_of_any_height_is_whole(view, theme):
    """Its box has a frame and a padding, which the composer's has not."""
    view.show()
    box = view.findChild(MessageBox)
    for lines in (1, 2, 5):
        view.show_prompt("\n".join(["def read_all(path):"] * lines))
        needed = lines * box.fontMetrics().lineSpacing() + 2 * box.document().documentMargin()
        assert box.viewport().height() >= round(needed), lines
