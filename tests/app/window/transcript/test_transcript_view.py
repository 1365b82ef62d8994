"""The transcript follows, keeps still, finds, copies, and says what the user wants."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication

from app.values.chats import DraftedSpan
from app.window.theme import TypeSizes, load_theme
from app.window.transcript.code_segment import CodeSegment
from app.window.transcript.message_view import MessageView
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView
from app.window.transcript.user_bubble import UserBubble
from mlx_engine.values.events import TextPiece
from mlx_engine.values.stats import GenerationStats

PARAGRAPH = "Some words that make a paragraph of a few lines. " * 6 + "\n\n"
STATS = GenerationStats(
    generated_tokens=212, drafted=212, accepted=174, drafted_by_depth=(106, 106),
    accepted_by_depth=(96, 78), passes=106, tokens_per_pass=2.6, tokens_per_second=41.3,
    time_to_first_token_s=0.4,
)  # fmt: skip


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(load_theme("light"), TypeSizes(), "while-thinking")
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    QApplication.processEvents()
    return made


def settle() -> None:
    for _ in range(5):
        QApplication.processEvents()


def show(view: TranscriptView, *messages: ShownMessage) -> None:
    view.show_messages(messages)
    settle()


def stream(view: TranscriptView, text: str, channel="answer", depth=0, message=1) -> None:
    view.append_pieces(message, [TextPiece(text, channel, depth)])
    settle()


def of(view: TranscriptView, message_id: int) -> MessageView:
    found = view.column.view(message_id)
    assert found is not None
    return found


def shown_text(view: TranscriptView, message_id: int) -> str:
    return "\n".join(text.text() for text in of(view, message_id).texts())


def bar(view: TranscriptView):
    return view.column.verticalScrollBar()


def wheel(view: TranscriptView, pixels: int) -> None:
    place = QPointF(300, 200)
    event = QWheelEvent(
        place, place, QPoint(0, pixels), QPoint(0, pixels), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.ScrollUpdate, False,
    )  # fmt: skip
    QApplication.sendEvent(view.column.viewport(), event)
    settle()


LIVE = ShownMessage(1, "assistant", "", state="live")


def test_a_streamed_answer_is_the_answer_shown_whole(view):
    source = "# Title\n\nSome **bold** words.\n\n```py\nx = 1\n```\n\n- a\n- b\n"
    view.add_message(LIVE)
    for letter in source:
        view.append_pieces(1, [TextPiece(letter)])
    view.finish(ShownMessage(1, "assistant", source))
    settle()
    streamed = [type(w) for w in of(view, 1).texts()], shown_text(view, 1)
    show(view, ShownMessage(1, "assistant", source))
    assert streamed == ([type(w) for w in of(view, 1).texts()], shown_text(view, 1))
    assert "Title" in streamed[1] and "x = 1" in streamed[1] and "**" not in streamed[1]


def test_at_the_end_it_follows(view):
    view.add_message(LIVE)
    for _ in range(12):
        stream(view, PARAGRAPH)
        assert bar(view).value() == bar(view).maximum()
    assert bar(view).maximum() > 0
    assert not view.jump.isVisible()


def test_a_reader_who_went_up_by_a_pixel_is_left_alone(view):
    view.add_message(LIVE)
    stream(view, PARAGRAPH * 8)
    wheel(view, 2)
    place = bar(view).value()
    assert place == bar(view).maximum() - 1
    for _ in range(5):
        stream(view, PARAGRAPH)
    assert bar(view).value() == place
    assert view.jump.isVisible()


def test_coming_down_to_the_end_follows_again(view, qtbot):
    view.add_message(LIVE)
    stream(view, PARAGRAPH * 8)
    wheel(view, 200)
    wheel(view, -500)
    stream(view, PARAGRAPH)
    assert bar(view).value() == bar(view).maximum()
    wheel(view, 200)
    qtbot.mouseClick(view.jump, Qt.MouseButton.LeftButton)
    stream(view, PARAGRAPH)
    assert bar(view).value() == bar(view).maximum()


def test_thinking_closes_itself_only_when_nobody_reads_above(view):
    view.add_message(LIVE)
    stream(view, PARAGRAPH * 8, "thinking")
    thinking = of(view, 1).answer.thinking
    assert thinking.is_open and thinking.words() == "Thinking…"
    wheel(view, 100)
    view.finish_thinking(1, 4.2)
    settle()
    assert thinking.is_open and thinking.words() == "Thought for 4.2 s"
    view.column.follow()
    view.finish_thinking(1, 64)
    assert not thinking.is_open and thinking.words() == "Thought for 1 min 4 s"


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
    of(view, 2).answer.thinking.set_open(True)
    settle()
    assert text.mapTo(view, QPoint(0, 0)).y() == before


def test_a_long_chat_is_made_where_it_is_looked_at(view, qtbot):
    messages = [ShownMessage(n, "assistant", f"{n}\n\n" + PARAGRAPH * 3) for n in range(100)]
    for _ in range(2):
        view.clear()
        QApplication.processEvents()
        show(view, *messages)
        qtbot.wait(80)
        assert sum(of(view, n).is_built for n in range(100)) < 12
    assert of(view, 99).is_built and bar(view).value() == bar(view).maximum()
    bar(view).setValue(0)
    qtbot.waitUntil(lambda: of(view, 0).is_built and of(view, 1).is_built, timeout=2000)
    assert sum(of(view, n).is_built for n in range(100)) < 25


def test_a_selection_in_a_growing_answer_stays(view):
    view.add_message(LIVE)
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
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "NEEDLE")
    assert view.find_bar.count.text() == "1 of 3"
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return)
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return)
    settle()
    assert view.find_bar.count.text() == "3 of 3"
    code = of(view, 2).texts()[1]
    assert len(code.extraSelections()) == 1
    assert code.mapTo(view, QPoint(0, 0)).y() < view.height()
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert view.find_bar.count.text() == "2 of 3"
    qtbot.keyClicks(view.find_bar.field, "x")
    assert view.find_bar.count.text() == "no match"
    qtbot.keyClick(view.find_bar.field, Qt.Key.Key_Escape)
    assert not view.find_bar.isVisible() and not code.extraSelections()


def test_wishes(view, qtbot):
    show(
        view,
        ShownMessage(1, "user", "hi", branch_count=2),
        ShownMessage(2, "assistant", "yes", branch_count=3, branch_index=1, can_continue=True,
                     stats=STATS),
    )  # fmt: skip
    answer, prompt = of(view, 2), of(view, 1)
    left = Qt.MouseButton.LeftButton
    with qtbot.waitSignal(view.regenerate_wanted) as caught:
        qtbot.mouseClick(answer.buttons.regenerate, left)
    assert caught.args == [2]
    with qtbot.waitSignal(view.continue_wanted) as caught:
        qtbot.mouseClick(answer.buttons.go_on, left)
    assert caught.args == [2]
    with qtbot.waitSignal(view.branch_wanted) as caught:
        qtbot.mouseClick(answer.buttons.previous, left)
    assert caught.args == [2, -1]
    with qtbot.waitSignal(view.branch_wanted) as caught:
        qtbot.mouseClick(prompt.buttons.next, left)
    assert caught.args == [1, 1]
    assert not prompt.buttons.previous.isEnabled()
    assert answer.buttons.number.text() == "2/3"
    with qtbot.waitSignal(view.stats_clicked) as caught:
        qtbot.mouseClick(answer.footer, left)
    assert caught.args == [2]


def test_edit_and_send_again(view, qtbot):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    qtbot.mouseClick(of(view, 1).buttons.edit, Qt.MouseButton.LeftButton)
    field = of(view, 1).bubble.editor.field
    qtbot.keyClicks(field, "x")
    with qtbot.waitSignal(view.edit_wanted) as caught:
        qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert caught.args == [1, "xhi"]
    view.edit_last_prompt()
    with qtbot.assertNotEmitted(view.edit_wanted):
        qtbot.keyClick(of(view, 1).bubble.editor.field, Qt.Key.Key_Escape)
    assert of(view, 1).bubble.editor is None


def test_copies(view, qtbot):
    source = "A **bold** word\n\n```py\nx = 1\n```\n"
    show(view, ShownMessage(1, "assistant", source))
    clipboard, left = QGuiApplication.clipboard(), Qt.MouseButton.LeftButton
    qtbot.mouseClick(of(view, 1).buttons.copy, left)
    assert clipboard.text() == "A bold word\n\nx = 1"
    assert "<strong>bold</strong>" in clipboard.mimeData().html()
    qtbot.mouseClick(of(view, 1).buttons.copy_markdown, left)
    assert clipboard.text() == source
    of(view, 1).findChild(CodeSegment).copy()
    assert clipboard.text() == "x = 1"
    view.clear()
    view.copy_last_answer()


def test_the_footer_has_the_figures_and_gives_way(view):
    show(view, ShownMessage(1, "assistant", "x", stats=STATS))
    footer = of(view, 1).footer
    footer.resize(2000, 24)
    assert footer.shown() == (
        "41.3 tok/s  ·  212 tok  ·  0.40 s to first  ·  82 % (174/212)  ·  2.6 tok/pass  ·  depth 2"
    )
    footer.resize(10, 24)
    assert footer.shown() == "41.3 tok/s"
    assert "Depth 2: 78 of 106 accepted (74 %)" in footer.toolTip()


def test_another_branch(view):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    view.replace_from(2, [ShownMessage(3, "assistant", "no"), ShownMessage(4, "user", "why")])
    settle()
    assert [m.id for m in view.column.messages()] == [1, 3, 4]
    assert "no" in shown_text(view, 3)


def test_a_stopped_answer_keeps_its_text_and_says_so(view):
    view.add_message(LIVE)
    stream(view, "half an ans")
    view.finish(
        replace(LIVE, text="half an ans", state="stopped", notice="Stopped.", can_continue=True)
    )
    settle()
    assert shown_text(view, 1) == "half an ans"
    assert of(view, 1).buttons.go_on.isVisible()
    assert any(p.text() == "Stopped." for p in of(view, 1).findChildren(ProseSegment))


def test_an_answer_that_ended_differently_is_shown_as_it_ended(view):
    view.add_message(LIVE)
    stream(view, "so far STOP")
    view.finish(ShownMessage(1, "assistant", "so far"))
    settle()
    assert shown_text(view, 1) == "so far"


def test_tinted_words_are_painted_and_named(view):
    text = "plain drafted words"
    show(view, ShownMessage(1, "assistant", text, spans=(DraftedSpan(5, 13, 2),)))
    prose = of(view, 1).texts()[0]

    def picture() -> QImage:
        return prose.grab().toImage()

    bare = picture()
    view.set_drafted_shown(True)
    settle()
    assert view.legend.isVisible()
    tinted = picture()
    assert tinted != bare
    (tint,) = prose.tinted()
    assert text[tint.start : tint.end] == "drafted" and tint.depth == 2
    view.set_drafted_shown(False)
    settle()
    assert picture() == bare


def test_wide_letters_do_not_shift_tints(view):
    text = "🙂🙂 drafted"
    show(view, ShownMessage(1, "assistant", text, spans=(DraftedSpan(3, 10, 1),)))
    (tint,) = of(view, 1).texts()[0].tinted()
    assert (tint.start, tint.end) == (5, 12)


def test_two_megabytes_pasted_do_not_freeze(view):
    pasted = "word " * 400_000
    show(view, ShownMessage(1, "user", pasted))
    bubble = of(view, 1).findChild(UserBubble)
    assert len(bubble.prose.text()) < 3000
    of(view, 1).copy()
    assert QGuiApplication.clipboard().text() == pasted


@pytest.mark.parametrize(
    "text", ["```", "[" * 4000, "| a |\n|--", "<img src=x>", "\0\x07", "~~~\r\n"]
)
def test_broken_markdown_is_shown(view, text):
    view.add_message(LIVE)
    for letter in text[:40]:
        view.append_pieces(1, [TextPiece(letter)])
    view.append_pieces(1, [TextPiece(text[40:])])
    view.finish(ShownMessage(1, "assistant", text))
    settle()


def test_nothing_is_loaded(view):
    show(view, ShownMessage(1, "assistant", "![x](https://x.org/y.png)"))
    prose = of(view, 1).texts()[0]
    assert prose.loadResource(2, "https://x.org/y.png") is None
    assert "Image: x" in prose.text()


def test_links_are_handed_on(view, qtbot):
    show(view, ShownMessage(1, "assistant", "[x](https://x.org)"))
    prose = of(view, 1).texts()[0]
    with qtbot.waitSignal(view.link_clicked) as caught:
        qtbot.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(3, 8))
    assert caught.args == ["https://x.org"]


def test_other_colours_and_sizes(view):
    show(
        view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", PARAGRAPH + "```\nx\n```")
    )
    before = of(view, 2).height()
    view.set_style(load_theme("dark"), TypeSizes().zoomed(1.6))
    settle()
    assert of(view, 2).height() > before * 1.2


def test_narrow_and_wide(view):
    show(view, ShownMessage(1, "user", "hi " * 80), ShownMessage(2, "assistant", PARAGRAPH * 3))
    for width in (360, 1400):
        view.resize(width, 500)
        settle()
        assert view.column.content.width() <= width
        assert of(view, 2).width() <= 760
        prose = of(view, 2).texts()[0]
        assert prose.document().size().height() <= prose.height() + 1


def test_everything_can_be_named_by_a_screen_reader(view):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "x", stats=STATS))
    for message in (1, 2):
        buttons = of(view, message).buttons
        for button in (buttons.copy, buttons.edit, buttons.regenerate, buttons.previous):
            assert button.accessibleName()
            assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert of(view, 2).footer.accessibleName().startswith("Figures: 41.3 tok/s")
