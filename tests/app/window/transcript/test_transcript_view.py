"""The transcript follows, keeps still, finds, and shows how an answer ended."""

import gc
from dataclasses import replace
from itertools import pairwise
from unittest.mock import Mock
from weakref import ref

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from shown_transcript import (
    LIVE,
    PARAGRAPH,
    bar,
    begin,
    of,
    settle,
    show,
    shown_text,
    stream,
    wheel,
)

from app.window.controls.layouts import column
from app.window.look import look
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.conversation import TextPiece


def test_a_streamed_answer_is_the_answer_shown_whole(view):
    source = "# Title\n\nSome **bold** words.\n\n```py\nx = 1\n```\n\n- a\n- b\n"
    begin(view)
    for letter in source:
        view.append_pieces(1, [TextPiece(letter)])
    view.finish(ShownMessage(1, "assistant", source))
    settle()
    streamed = [type(w) for w in of(view, 1).texts()], shown_text(view, 1)
    show(view, ShownMessage(1, "assistant", source))
    assert streamed == ([type(w) for w in of(view, 1).texts()], shown_text(view, 1))
    assert "Title" in streamed[1] and "x = 1" in streamed[1] and "**" not in streamed[1]


GROWING = (
    "# Title\n\nWords with `code`.\n\n> quoted\n\n> שלום\n\nBefore.\n\n| a | b |\n|---|:-:|\n"
    "| 1 | 2 |\n\nAfter the table.\n\n1. one\n   - two **three**\n2. four\n\n   five\n\n***\n\n"
    "## More\n\n[^1]: A note.\n\n$$x^2$$\n\nThe end."
)


def test_a_stored_answer_is_rendered_once(view, monkeypatch):
    shown = []
    show_html = ProseSegment.show_html

    def counted(segment, html, source, *more, **named):
        shown.append(source)
        show_html(segment, html, source, *more, **named)

    monkeypatch.setattr(ProseSegment, "show_html", counted)
    text = "One.\n\n```\ncode\n```\n\nTwo, see [it].\n\n[it]: https://example.org\n"
    show(view, ShownMessage(1, "assistant", text))
    assert shown == ["One.\n\n", "\nTwo, see [it].\n\n[it]: https://example.org\n"]


def test_chats_that_are_looked_through_quickly_do_not_pile_up(view):
    """Nothing waits for a moment in which there is nothing else to do."""
    for chat in range(12):
        view.show_messages([ShownMessage(9 * chat + n, "assistant", PARAGRAPH) for n in range(9)])
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert len(view.findChildren(ProseSegment)) < 40


def test_at_the_end_it_follows(view):
    begin(view)
    for _ in range(12):
        stream(view, PARAGRAPH)
        assert bar(view).value() == bar(view).maximum()
    assert bar(view).maximum() > 0
    assert not view.jump.isVisible()


def test_a_reader_who_went_up_by_a_pixel_is_left_alone(view):
    begin(view)
    stream(view, PARAGRAPH * 8)
    wheel(view, 2)
    place = bar(view).value()
    assert place == bar(view).maximum() - 1
    for _ in range(5):
        stream(view, PARAGRAPH)
    assert bar(view).value() == place
    assert view.jump.isVisible()


def test_coming_down_to_the_end_follows_again(view, qtbot):
    begin(view)
    stream(view, PARAGRAPH * 8)
    wheel(view, 200)
    wheel(view, -500)
    stream(view, PARAGRAPH)
    assert bar(view).value() == bar(view).maximum()
    wheel(view, 200)
    qtbot.mouseClick(view.jump, Qt.MouseButton.LeftButton)
    stream(view, PARAGRAPH)
    assert bar(view).value() == bar(view).maximum()


def test_thinking_opens_and_closes_for_the_reader_alone(view):
    begin(view)
    stream(view, PARAGRAPH * 8, "thinking")
    thinking = of(view, 1).answer.thinking
    assert not thinking.is_open and thinking.words() == "Thinking…"
    thinking.head.setChecked(True)
    stream(view, PARAGRAPH, "thinking")
    view.finish_thinking(1, 4.2)
    settle()
    assert thinking.is_open and thinking.words() == "Thought for 4.2 s"
    view.finish_thinking(1, 64)
    assert thinking.is_open and thinking.words() == "Thought for 1 min 4 s"
    stream(view, "So.\n\n")
    stream(view, "Late thought.", "thinking")
    assert "Late thought." in shown_text(view, 1)
    thoughts = PARAGRAPH * 9 + "Late thought."
    view.finish(replace(LIVE, text="So.\n\n", thinking=thoughts, state="done"))
    assert of(view, 1).answer.thinking.words() == "Thought for 1 min 4 s"


def test_what_turns_out_to_be_a_thought_is_shown_as_one(view):
    begin(view)
    stream(view, "A plan. And words.")
    view.finish(replace(LIVE, text="And words.", thinking="A plan.", state="done"))
    answer = of(view, 1).answer
    assert (answer.text(), answer.thinking.text) == ("And words.", "A plan.")


def test_opening_thinking_does_not_move_its_line(view, qtbot):
    show(view, ShownMessage(1, "assistant", PARAGRAPH * 9, PARAGRAPH * 5, 4.2))
    bar(view).setValue(0)
    settle()
    head = of(view, 1).answer.thinking.head
    for _ in range(2):
        before = head.mapTo(view, QPoint(0, 0)).y()
        qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
        settle()
        assert head.mapTo(view, QPoint(0, 0)).y() == before


def test_text_in_view_stays_where_it_is_when_something_above_grows(view, qtbot):
    show(view, *(ShownMessage(n, "assistant", PARAGRAPH * 4, "t\n\n" * 30, 1) for n in (1, 2, 3)))
    bar(view).setValue(bar(view).maximum() - 100)
    settle()
    qtbot.waitUntil(lambda: of(view, 2).is_built)
    settle()
    text = of(view, 3).texts()[0]
    before = text.mapTo(view, QPoint(0, 0)).y()
    of(view, 2).answer.thinking.head.setChecked(True)
    settle()
    assert text.mapTo(view, QPoint(0, 0)).y() == before


def test_a_long_chat_is_made_where_it_is_looked_at(view, qtbot):
    messages = [ShownMessage(n, "assistant", f"{n}\n\n" + PARAGRAPH * 3) for n in range(100)]
    for _ in range(2):
        view.show_messages(())
        QApplication.processEvents()
        show(view, *messages)
        qtbot.wait(80)
        assert sum(of(view, n).is_built for n in range(100)) < 12
    qtbot.waitUntil(lambda: of(view, 99).is_built and bar(view).value() == bar(view).maximum())
    bar(view).setValue(0)
    qtbot.waitUntil(lambda: of(view, 0).is_built and of(view, 1).is_built)
    assert sum(of(view, n).is_built for n in range(100)) < 25


def test_a_selection_in_a_growing_answer_stays(view):
    begin(view)
    stream(view, "some words here")
    prose = of(view, 1).texts()[0]
    cursor = prose.textCursor()
    cursor.setPosition(5)
    cursor.setPosition(10, cursor.MoveMode.KeepAnchor)
    prose.setTextCursor(cursor)
    stream(view, " and more **words**")
    assert prose.textCursor().selectedText() == "words"


def test_find(view, qtbot):
    show(
        view,
        ShownMessage(1, "user", "a needle"),
        ShownMessage(2, "assistant", PARAGRAPH * 6 + "a **nee**dle\n\n```py\nneedle = 1\n```\n"),
        *(ShownMessage(n, "assistant", PARAGRAPH * 5) for n in range(3, 20)),
    )
    view.column.selectAll()
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "NEEDLE")
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "1 of 3")
    assert not view.reader.selection.markdown(), "it would hide the marks"
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return)
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return)
    assert view.find_bar.count.text() == "3 of 3"
    qtbot.waitUntil(lambda: of(view, 2).is_built)
    code = of(view, 2).texts()[1]
    qtbot.waitUntil(lambda: len(code.extraSelections()) == 1)
    assert code.mapTo(view, QPoint(0, 0)).y() < view.height()
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert view.find_bar.count.text() == "2 of 3"
    qtbot.keyClicks(view.find_bar.field, "x")
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "no match")
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Escape)
    assert not view.find_bar.isVisible() and not code.extraSelections()


def test_find_opens_thoughts_and_leaves_languages_of_code_out(view, qtbot):
    show(
        view,
        ShownMessage(1, "user", "a needle"),
        ShownMessage(2, "assistant", "The *needle*.\n\n```needle\nx\n```\n", "A **needle**?\n"),
        *(ShownMessage(n, "assistant", PARAGRAPH * 5) for n in range(3, 9)),
        ShownMessage(9, "assistant", "needle", "needle"),
    )
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    places, stronger = [], look().colour("warning", 0.5)
    for number in range(1, 6):
        assert view.find_bar.count.text() == f"{number} of 5"
        message = of(view, {1: 1, 2: 2, 3: 2, 4: 9, 5: 9}[number])
        qtbot.waitUntil(lambda: view._search.current is not None)
        match = view._search.current
        settle()
        marked = [s for s in match.widget.extraSelections() if s.format.background() == stronger]
        assert [s.cursor.selectedText() for s in marked] == ["needle"]
        assert match.widget in message.texts()
        top = match.widget.mapTo(view, QPoint()).y()
        assert 0 < top < view.height()
        places.append(message.texts().index(match.widget))
        qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return)
    assert places == [0, 0, 1, 0, 1] and view.find_bar.count.text() == "1 of 5"


def test_a_hit_in_an_answer_is_shown_there_though_its_thoughts_have_it_too(view):
    view.reader.chat = Mock()
    view.reader.chat.place = lambda _: 1
    messages = ShownMessage(1, "user", "?"), ShownMessage(2, "assistant", "needle", "needle")
    show(view, *messages)
    view.show_hit(2, "needle")
    assert not of(view, 2).shows_thoughts and view.find_bar.count.text() == "2 of 2"
    assert view._search.current.widget.text() == "needle"


RICH = (
    "# Needle\n\n" + PARAGRAPH * 3 + "A **nee**dle & [needle][1], `needle`.\n\n- need\n  le\n\n"
    "```py\nneedle = 1\n```\n\n| needle | b |\n|---|---|\n| $x$ | needle |\n\n"
    "> needle\n\n[1]: https://example.org/needle\n"
)


def test_find_makes_only_the_messages_it_goes_to(view, qtbot):
    show(view, *(ShownMessage(n, "assistant", RICH, "needle", 1.0) for n in range(60)))
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    counted = view.find_bar.count.text()
    assert sum(of(view, n).is_built for n in range(60)) < 15
    for n in range(60):
        view.column.make(of(view, n))
    view.open_find()
    assert view.find_bar.count.text() == counted == f"1 of {60 * 9}"


def test_find_goes_around_both_ends(view, qtbot):
    texts = {n: "a needle" if n in (3, 20) else PARAGRAPH for n in range(30)}
    show(view, *(ShownMessage(n, "user", text) for n, text in texts.items()))
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    shift, none = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier
    for number, held in ((1, shift), (2, none), (1, none), (2, none), (1, shift), (2, None)):
        words = f"{number} of 2"
        qtbot.waitUntil(lambda words=words: view.find_bar.count.text() == words)
        if held is not None:
            qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return, held)
    found = of(view, 20)
    qtbot.waitUntil(lambda: found.is_built and found.texts()[0].extraSelections() != [])
    assert 0 <= found.mapTo(view, QPoint(0, 0)).y() < view.height()


def test_what_was_gone_to_keeps_its_place_while_another_grows(qtbot):
    scroll, parts = PinnedScroll(), [QLabel() for _ in range(20)]
    qtbot.addWidget(scroll)
    column(*parts, of=scroll.content)
    for part in parts:
        part.setFixedHeight(200)
    scroll.resize(300, 500)
    scroll.show()
    settle()
    scroll.go_to(parts[10], QPoint(0, 10), 80)
    place = parts[10].mapTo(scroll, QPoint(0, 0)).y()
    assert 0 < place < 200, "the one before it is cut by the upper edge"
    parts[9].setFixedHeight(400)
    settle()
    assert parts[10].mapTo(scroll, QPoint(0, 0)).y() == place


def test_what_comes_into_view_while_text_is_sought_is_marked(view, qtbot):
    def is_marked(number: int) -> bool:
        found = of(view, number)
        return found.is_built and found.texts()[0].extraSelections() != []

    show(view, *(ShownMessage(n, "assistant", PARAGRAPH * 5 + "needle") for n in range(40)))
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    qtbot.waitUntil(lambda: is_marked(0))
    view.column.make(of(view, 25))
    settle()
    assert not is_marked(25)
    view.column.ensureWidgetVisible(of(view, 25))
    qtbot.waitUntil(lambda: is_marked(25))


def test_a_growing_answer_keeps_its_marks(view, qtbot):
    begin(view)
    stream(view, "a needle here, ")
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    for count in (1, 2):
        qtbot.waitUntil(lambda n=count: len(of(view, 1).texts()[0].extraSelections()) == n)
        stream(view, "and a **needle** there ")


def test_marked_text_may_go_while_it_is_sought(view, qtbot):
    begin(view)
    stream(view, "a needle here, ")
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    settle()
    view.finish(ShownMessage(1, "assistant", "a needle there"))
    qtbot.wait(20)
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "1 of 1")
    show(view, ShownMessage(2, "assistant", "no such word"))
    qtbot.wait(20)
    view.open_find()
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "no match")
    view.close_find()


def test_find_goes_on_in_messages_that_take_the_place_of_others(view, qtbot):
    many = [ShownMessage(n, "assistant", "a needle here") for n in range(200)]
    show(view, *many)
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "1 of 200")
    view.replace_from(0, [replace(one, id=one.id + 500) for one in many])
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    view._search.mark()
    view._search.step(1)
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "2 of 200")


def test_marked_text_that_is_gone_is_not_kept(view, qtbot):
    def is_gone():
        gc.collect()
        return all(text() is None for text in marked)

    many = [ShownMessage(n, "assistant", "a needle here") for n in range(5)]
    show(view, *many)
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    qtbot.waitUntil(lambda: bool(of(view, 0).texts()[0].extraSelections()))
    marked = [ref(of(view, n).texts()[0]) for n in range(5)]
    view.replace_from(0, [replace(one, id=one.id + 50) for one in many])
    qtbot.waitUntil(is_gone)
    qtbot.waitUntil(lambda: view.find_bar.count.text() == "1 of 5")


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_that_cannot_be_rendered_is_shown_as_it_is_stored(view, qtbot, monkeypatch, role):
    """The mistake is told; the messages around it are shown."""
    show_html = ProseSegment.show_html

    def fails(segment, html, text, *more):
        if text == "**odd** words":
            raise ZeroDivisionError("in the middle")
        show_html(segment, html, text, *more)

    monkeypatch.setattr(ProseSegment, "show_html", fails)
    around = [ShownMessage(n, "assistant", "around") for n in (1, 3)]
    with qtbot.captureExceptions() as mistakes:
        show(view, around[0], ShownMessage(2, role, "**odd** words"), around[1])
    assert [kind for kind, _, _ in mistakes] == [ZeroDivisionError]
    assert view.column.viewport().updatesEnabled()
    assert "around" in shown_text(view, 1) and "around" in shown_text(view, 3)
    assert "**odd** words" in of(view, 2).findChild(ProseSegment).toPlainText()
    of(view, 2).copy_markdown()
    assert QApplication.clipboard().text() == "**odd** words"


def test_another_branch(view):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    view.column.replace_from(
        1, [ShownMessage(3, "assistant", "no"), ShownMessage(4, "user", "why")]
    )
    assert [v.message.id for v in view.column.views] == [1, 3, 4]
    assert "no" in shown_text(view, 3)


def test_the_place_is_kept_where_another_branch_is_shown(view):
    """Before it is made, a message of many short paragraphs is taken for a lower one."""
    short = "A few words.\n\n" * 60
    show(view, *(ShownMessage(n, "assistant", short) for n in range(3)))
    bar(view).setValue(bar(view).maximum() - 40)
    settle()
    place = bar(view).value()
    view.replace_from(2, [ShownMessage(n, "assistant", short) for n in (10, 11)])
    settle()
    assert bar(view).value() == place and of(view, 10).is_built
    view.replace_from(2, [ShownMessage(2, "assistant", short)])
    settle()
    assert bar(view).value() == place


def test_a_longer_branch_of_a_chat_that_was_all_in_view_is_shown_from_its_place(view):
    """All in view is the end as well, which would be gone to."""
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    assert bar(view).maximum() == 0
    long = [ShownMessage(n, "assistant", "A few words.\n\n" * 20) for n in range(3, 9)]
    view.replace_from(1, long)
    settle()
    assert bar(view).maximum() > 0 == bar(view).value()
    assert view.jump.isVisible()
    view.replace_from(1, [ShownMessage(2, "assistant", "yes")])
    settle()
    assert view.column.pinned and view.jump.isHidden()


def test_an_editor_stays_while_an_answer_grows_below_it(view):
    show(view, ShownMessage(1, "user", "hi"), replace(LIVE, id=2))
    view.column.view(1).edit()
    for _ in range(40):
        view.append_pieces(2, [TextPiece("A few words.\n\n")])
    settle()
    assert bar(view).maximum() > 0 == bar(view).value()
    view.jump.click()
    assert bar(view).value() == bar(view).maximum()


def test_a_long_chat_is_shown_from_a_message_on(view, qtbot):
    messages = [ShownMessage(n, "assistant", f"{n}. {PARAGRAPH}") for n in range(300)]
    for goal in (150, 298, 299, 0):
        view.show_messages(messages, goal)
        assert len(placed(view)) < 300
        qtbot.waitUntil(lambda: not view.reader.turns.is_busy)
        settle()
        assert sum(v.is_built for v in view.column.views) < 20
        shown = of(view, goal)
        assert (shown.is_built and goal >= 298) or shown.mapTo(view.column, QPoint(0, 0)).y() == 24
        assert not shown.visibleRegion().isEmpty()
        assert view.column.pinned == (goal >= 298) == view.jump.isHidden()


def test_what_arrives_right_after_a_long_chat_was_opened_is_shown(view):
    view.show_messages([*(ShownMessage(n, "user", "hi") for n in range(2, 300)), LIVE])
    view.append_pieces(1, [TextPiece("word")])
    view.finish_thinking(1, 1.0)
    view.open_find()
    settle()
    assert shown_text(view, 1) == "word"


def test_a_stopped_answer_keeps_its_text_and_says_so(view):
    begin(view)
    stream(view, "half an ans")
    view.finish(
        replace(LIVE, text="half an ans", state="stopped", notice="Stopped.", can_continue=True)
    )
    settle()
    assert shown_text(view, 1) == "half an ans"
    assert of(view, 1).buttons.go_on.isVisible()
    assert any(p.text() == "Stopped." for p in of(view, 1).findChildren(ProseSegment))


def test_an_answer_that_ended_differently_is_shown_as_it_ended(view):
    begin(view)
    stream(view, "so far STOP")
    view.finish(ShownMessage(1, "assistant", "so far"))
    assert shown_text(view, 1) == "so far"


def test_other_colours_and_sizes(view, wear):
    show(
        view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", PARAGRAPH + "```\nx\n```")
    )
    before = of(view, 2).height()
    wear("dark", 1.6)
    settle()
    assert of(view, 2).height() > before * 1.2


def test_texts_in_view_wear_another_theme_at_once_and_the_others_in_turns(view, qtbot, wear):
    wear("light", 1.0)
    show(view, ShownMessage(1, "assistant", (PARAGRAPH + "```\nx = 1\n```\n") * 12))
    texts = of(view, 1).texts()
    in_view = [text for text in texts if not text.visibleRegion().isEmpty()]
    assert 2 <= len(in_view) < 10 < len(texts)
    usual = [text.height() for text in texts]
    wear("dark", 1.5)
    assert any(text.font().pixelSize() == look().sizes.transcript for text in in_view)
    qtbot.waitUntil(lambda: all(t.height() > h for t, h in zip(texts, usual, strict=True)))
    wear("light", 1.0)
    qtbot.waitUntil(lambda: [text.height() for text in texts] == usual)


def test_a_wide_table_scrolls_sideways_and_breaks_no_number(view, qtbot):
    numbers = [str(1_000_000 * n) for n in range(1, 30)]
    rows = "|".join(numbers), "|".join("-" for _ in numbers), "|".join(numbers)
    show(view, ShownMessage(1, "assistant", "\n".join(f"|{row}|" for row in rows)))
    (text,) = of(view, 1).texts()
    block = text.document().begin()
    while block.isValid():
        assert block.layout().lineCount() <= 1, block.text()
        block = block.next()
    bar = text.horizontalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert text.height() >= text.document().size().height() + bar.height()


def test_a_message_that_is_edited_wears_another_look(view, wear):
    show(view, ShownMessage(1, "user", "hi"))
    view.column.view(1).edit()
    wear("light", 1.5)
    assert of(view, 1).editor.field.font().pixelSize() == look().sizes.transcript
    wear("light", 1.0)
    assert of(view, 1).editor.field.font().pixelSize() == look().sizes.transcript


def test_narrow_and_wide(view):
    show(view, ShownMessage(1, "user", "hi " * 80), ShownMessage(2, "assistant", PARAGRAPH * 3))
    for width in (360, 1400):
        view.resize(width, 500)
        settle()
        assert view.column.content.width() <= width
        assert of(view, 2).width() <= 760
        prose = of(view, 2).texts()[0]
        assert prose.document().size().height() <= prose.height() + 1


def test_text_out_of_view_wraps_anew_a_piece_a_turn(view):
    def wraps(message_id: int) -> list[bool]:
        """Of each text, whether it wraps at its width."""
        texts = of(view, message_id).texts()
        return [text.lineWrapColumnOrWidth() == text.width() for text in texts]

    show(view, ShownMessage(1, "user", PARAGRAPH), ShownMessage(2, "assistant", PARAGRAPH * 60))
    view.column.make(of(view, 1))
    at_rest(view)
    assert len(wraps(2)) > 4 and all(wraps(2))
    view.resize(500, 500)
    fitted = [wraps(2)]
    assert fitted[0][-1] and sum(fitted[0]) < 4, "what is seen alone"
    while view.reader.turns.is_busy:
        QApplication.processEvents()
        fitted.append(wraps(2))
    assert all(sum(later) - sum(now) <= 1 for now, later in pairwise(fitted))
    settle()
    assert all(wraps(2)) and all(wraps(1)) and of(view, 1).texts()[0].width() < 400
    assert bar(view).value() == bar(view).maximum()
    assert of(view, 2).height() == of(view, 2).sizeHint().height()


def test_the_reader_keeps_their_place_while_text_above_wraps_anew(view):
    def top(text: QWidget) -> int:
        return text.mapTo(view, QPoint(0, 0)).y()

    show(view, ShownMessage(1, "assistant", PARAGRAPH * 60))
    bar(view).setValue(bar(view).maximum() // 2)
    settle()
    read = next(text for text in of(view, 1).texts() if top(text) + text.height() > 0)
    place, before = top(read), bar(view).value()
    view.resize(500, 500)
    while view.reader.turns.is_busy:
        QApplication.processEvents()
    settle()
    assert top(read) == place < 0 and bar(view).value() > before + 500


def at_rest(view: TranscriptView) -> None:
    while view.reader.turns.is_busy:
        QApplication.processEvents()
    settle()


@pytest.fixture()
def section(monkeypatch) -> int:
    """Messages that have places before a chat is shown."""
    monkeypatch.setattr("app.window.transcript.message_column.MOST_PLACED", 240)
    monkeypatch.setattr("app.window.transcript.message_column.SECTION", 120)
    return 120


def many_messages(count: int = 400) -> list[ShownMessage]:
    return [ShownMessage(number, "user", f"words {number}") for number in range(count)]


def placed(view: TranscriptView) -> list[int]:
    return [shown.message.id for shown in view.column.views]


def test_of_very_many_messages_the_last_have_places_and_others_when_they_are_near(view, section):
    show(view, *many_messages())
    assert placed(view) == list(range(400 - section, 400))
    for _ in range(5):
        first = view.column.views[0]
        bar(view).setValue(0)
        at_rest(view)
        assert abs(first.mapTo(view.column, QPoint()).y()) < 100, "it keeps its place"
        assert placed(view)[0] < first.message.id and len(placed(view)) <= 240
    assert placed(view)[0] == 0 and placed(view)[-1] < 399 and view.jump.isVisible()
    while placed(view)[-1] < 399:
        assert not view.column.pinned
        last = view.column.views[-1]
        bar(view).setValue(bar(view).maximum())
        at_rest(view)
        assert last.mapTo(view.column, QPoint()).y() > 0, "it keeps its place"
        assert last.message.id < placed(view)[-1] and len(placed(view)) <= 240
        assert placed(view) == list(range(placed(view)[0], placed(view)[-1] + 1))
    bar(view).setValue(bar(view).maximum())
    assert view.column.pinned


@pytest.mark.parametrize("first", [0, 3, 200, 399])
def test_very_many_messages_are_shown_from_one_of_them_and_from_the_end_again(view, section, first):
    view.show_messages(many_messages(), first)
    settle()
    assert first in placed(view) and len(placed(view)) == section
    assert 0 <= of(view, first).mapTo(view.column, QPoint()).y() < view.column.height()
    view.jump.click()
    settle()
    assert placed(view)[-1] == 399 and len(placed(view)) <= 2 * section
    assert bar(view).value() == bar(view).maximum() and view.column.pinned


def test_find_gives_places_only_around_what_it_goes_to(view, section, qtbot):
    texts = {20: "a needle", 390: "a needle"}
    show(view, *(ShownMessage(n, "user", texts.get(n, f"words {n}")) for n in range(400)))
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "needle")
    assert view.find_bar.count.text() == "1 of 2"
    assert 20 in placed(view) and len(placed(view)) <= section
    view._search.step(-1)
    assert view.find_bar.count.text() == "2 of 2" and 390 in placed(view)
    view._search.step(1)
    settle()
    assert len(placed(view)) <= section and of(view, 20).texts()[0].extraSelections()


@pytest.mark.parametrize("is_made", [True, False])
def test_an_answer_is_written_on_while_another_part_of_its_chat_is_on_show(view, section, is_made):
    show(view, *many_messages())
    live = ShownMessage(1000, "assistant", "", state="live")
    view.add_message(live)
    if is_made:
        at_rest(view)
    view.append_pieces(1000, [TextPiece("one ")])
    view.column.go_to_place(3)
    view.append_pieces(1000, [TextPiece("two ")])
    assert 1000 not in placed(view)
    view.column.follow()
    view.append_pieces(1000, [TextPiece("three")])
    at_rest(view)
    assert placed(view)[-1] == 1000 and shown_text(view, 1000) == "one two three"
    view.column.go_to_place(3)
    view.finish(replace(live, text="one two three four", state="done"))
    view.column.follow()
    assert shown_text(view, 1000) == "one two three four"
    view.column.go_to_place(3)
    view.add_message(ShownMessage(1001, "user", "and?"))
    assert placed(view)[-2:] == [1000, 1001] and len(placed(view)) <= section + 1


def test_another_branch_of_very_many_messages_has_places_for_a_section(view, section):
    show(view, *many_messages())
    other = [ShownMessage(1000 + n, "user", f"other {n}") for n in range(300)]
    view.replace_from(390, other)
    settle()
    assert {389, 1000} <= {*placed(view)} and len(placed(view)) <= 2 * section
    view.jump.click()
    assert placed(view)[-1] == 1299


def test_a_list_of_one_entry_is_laid_out_where_it_begins_a_text(view):
    show(view, ShownMessage(1, "assistant", "- only\n\nThen a paragraph."))
    (text,) = of(view, 1).texts()
    assert text.document().firstBlock().layout().lineCount() == 1
