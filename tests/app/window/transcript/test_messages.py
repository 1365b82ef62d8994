"""A message says what is wanted of it, copies, shows figures and tints, and fetches nothing."""

from dataclasses import replace
from unittest.mock import Mock, call

import pytest
from PySide6.QtCore import QMimeData, QPoint, QRectF, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QTextCursor, QTextDocument
from PySide6.QtWidgets import QPushButton, QScrollArea
from seen import words_on
from shown_transcript import (
    STATS,
    begin,
    of,
    settle,
    show,
    shown_text,
    stream,
)

from app.start.folders import asset_path
from app.values.attached_text import AttachedText, with_attachments
from app.values.chats import DraftedSpan
from app.window.attachments import PictureChip
from app.window.pictures import png_of
from app.window.transcript.code_segment import CodeSegment, CodeText
from app.window.transcript.drafted_spans import Tint
from app.window.transcript.message_foot import FiguresPopover, MessageFooter
from app.window.transcript.page_boxes import placed, quote_bars
from app.window.transcript.reader import LIST_STEP, QUOTE_STEP, Reader
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.streaming_markdown import Segment
from app.window.transcript.user_bubble import UserBubble
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.picture import Picture


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_wishes(view, qtbot):
    show(
        view,
        ShownMessage(1, "user", "hi", branch_count=2),
        ShownMessage(2, "assistant", "yes", branch_count=3, branch_index=1, can_continue=True,
                     stats=STATS),
    )  # fmt: skip
    answer, prompt = of(view, 2), of(view, 1)
    left = Qt.MouseButton.LeftButton
    chat = view.reader.chat = Mock()
    qtbot.mouseClick(answer.buttons.regenerate, left)
    qtbot.mouseClick(answer.buttons.go_on, left)
    qtbot.mouseClick(answer.buttons.previous, left)
    qtbot.mouseClick(prompt.buttons.next, left)
    assert chat.mock_calls == [
        call.regenerate(2),
        call.continue_answer(2),
        call.show_branch(2, -1),
        call.show_branch(1, 1),
    ]
    assert not prompt.buttons.previous.isEnabled()
    assert answer.buttons.number.text() == "2/3"
    view.window().move(0, 200)
    qtbot.mouseClick(answer.footer, left)
    (popover,) = answer.footer.findChildren(FiguresPopover)
    assert "2.6 tokens per step" in popover.accessibleDescription()
    assert popover.y() >= view.window().y() == 200
    popover.close()


def test_an_answer_is_copied_as_text_or_markdown_and_an_empty_one_not_at_all(view):
    clipboard = QGuiApplication.clipboard()
    show(view, ShownMessage(1, "user", "?"), ShownMessage(2, "assistant", "**Yes**"))
    copy = of(view, 2).buttons.copy
    assert copy.contextMenuPolicy() == Qt.ContextMenuPolicy.ActionsContextMenu
    words, markdown = copy.actions()
    assert (words.text(), markdown.text()) == ("Copy", "Copy with Formatting Marks (Markdown)")
    markdown.trigger()
    assert clipboard.text() == "**Yes**"
    words.trigger()
    assert clipboard.text() == "Yes"
    show(view, ShownMessage(3, "assistant", "", "Hm", state="stopped"))
    assert of(view, 3).buttons.copy.isHidden()
    view.copy_last_answer()
    of(view, 3).copy_markdown()
    assert clipboard.text() == "Yes"


def test_edit_and_send_again(view, qtbot):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    qtbot.mouseClick(of(view, 1).buttons.edit, Qt.MouseButton.LeftButton)
    field = of(view, 1).editor.field
    qtbot.keyClicks(field, "x")
    view.reader.chat = Mock()
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(field, "more")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert view.reader.chat.mock_calls == [call.edit(1, "hix\nmore", ())], (
        "the cursor is at the end"
    )
    assert field.toPlainText() == "hix\nmore", "it stays until it was sent"
    qtbot.keyClick(of(view, 1).editor.field, Qt.Key.Key_Escape)
    assert of(view, 1).editor is None and len(view.reader.chat.mock_calls) == 1
    view.edit_last_prompt()
    assert of(view, 1).editor.field.toPlainText() == "hi"


def test_a_message_that_is_being_changed_has_no_other_buttons(view, qtbot):
    messages = (ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    show(view, *messages)
    for number in (1, 2):
        buttons = of(view, number).buttons
        qtbot.mouseClick(buttons.edit, Qt.MouseButton.LeftButton)
        assert buttons.isHidden()
        qtbot.keyClick(of(view, number).editor.field, Qt.Key.Key_Escape)
        assert buttons.isVisible()
    view.edit_last_prompt()
    show(view, *messages)
    assert of(view, 1).buttons.isHidden(), "it is still being changed"


def test_a_message_that_is_being_changed_stays_so(view, qtbot):
    messages = (ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    show(view, *messages)
    view.edit_last_prompt()
    editor = of(view, 1).editor
    qtbot.keyClicks(editor.field, " there")
    show(view, ShownMessage(3, "user", "another chat"))
    show(view, *messages)
    editor = of(view, 1).editor
    assert editor.field.toPlainText() == "hi there"
    low = editor.field.height()
    editor.field.insertPlainText("\nline" * 9)
    assert editor.field.height() > 2 * low
    editor.field.undo()
    assert editor.field.height() == low
    qtbot.mouseClick(editor.send.parent().findChildren(QPushButton)[0], Qt.MouseButton.LeftButton)
    show(view, *messages)
    assert of(view, 1).editor is None


def test_a_bubble_is_as_wide_again_once_there_is_room(view):
    show(view, ShownMessage(1, "user", "Some words that fill more than a line. " * 2))
    view.resize(700, 400)
    settle()
    [prose] = of(view, 1).texts()
    wide, height = prose.width(), prose.height()
    for width in (300, 700):
        view.resize(width, 400)
        settle()
    assert (prose.width(), prose.height()) == (wide, height)


def test_buttons_keep_to_the_right_side(view):
    show(view, ShownMessage(1, "user", "hi"), ShownMessage(2, "assistant", "yes"))
    settle()
    buttons = of(view, 1).buttons
    assert buttons.edit.x() - buttons.copy.x() < 60
    assert buttons.geometry().right() > of(view, 1).width() - 10
    view.edit_last_prompt()
    settle()
    send = of(view, 1).editor.send
    assert send.width() < 200 and send.geometry().right() > of(view, 1).width() - 10


def test_an_editor_takes_neither_files_nor_texts_without_end(view, tmp_path):
    show(view, ShownMessage(1, "user", "hi"))
    view.edit_last_prompt()
    editor = of(view, 1).editor
    assert not editor.field.acceptDrops()
    long = QMimeData()
    long.setText("x" * 30_000)
    editor.field.insertFromMimeData(long)
    assert editor.field.toPlainText() == "hi"
    assert "too long" in " ".join(words_on(editor))


def test_copies(view, qtbot):
    source = "A **bold** word\n\n```py\nx = 1\n```\n"
    show(view, ShownMessage(1, "assistant", source))
    clipboard, left = QGuiApplication.clipboard(), Qt.MouseButton.LeftButton
    qtbot.mouseClick(of(view, 1).buttons.copy, left)
    assert clipboard.text() == "A bold word\n\nx = 1"
    assert "<strong>bold</strong>" in clipboard.mimeData().html()
    of(view, 1).copy_markdown()
    assert clipboard.text() == source
    of(view, 1).findChild(CodeSegment).copy()
    assert clipboard.text() == "x = 1"
    view.show_messages(())
    view.copy_last_answer()


def test_the_footer_has_two_figures_and_tells_all(view):
    show(view, ShownMessage(1, "assistant", "x", stats=STATS))
    footer = of(view, 1).footer
    assert footer.shown() == "41.3 tok/s  ·  212 tokens"
    assert "82% of guesses right (174 of 212)" in footer.accessibleDescription()
    assert "Guess 2 of a step: 78 of 106 right (74%)" in footer.toolTip()
    assert "read once more" not in footer.toolTip()
    few = replace(STATS, prompt_tokens=8000, reused_tokens=0, head_rows=256, head_share=0.0132)
    footer.show_stats(few)
    assert "\n\nRead 8,000 tokens\n" in footer.toolTip()
    assert "256 of them read once more, for drafting (1% of reading time)" in footer.toolTip()


def test_a_figure_without_room_is_left_out_whole(qtbot):
    footer = MessageFooter()
    qtbot.addWidget(footer)
    footer.show_stats(STATS, "qwen35-hf")
    whole = footer.shown()
    footer.resize(footer.sizeHint())
    assert footer.fitting() == whole
    footer.resize(footer.width() - 20, footer.height())
    assert footer.fitting() == whole.rpartition("  ·  ")[0]
    footer.resize(1, footer.height())
    assert footer.fitting() == "qwen35-hf"
    assert whole.replace("  ·  ", ", ") in footer.accessibleName()


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


@pytest.mark.parametrize("indent", ["", "    "])
def test_drafted_code_is_tinted_where_it_stands(view, indent):
    lines = f"{indent}🙂 = 1\n{indent}value = drafted(2)\n"
    text = f"Words\n\n{lines}" if indent else f"Words\n\n```python\n{lines}```\n"
    at = text.index("drafted")
    show(view, ShownMessage(1, "assistant", text, spans=(DraftedSpan(at, at + 7, 2),)))
    code = of(view, 1).texts()[-1]
    first, *rest = placed(code.document())
    for shown in ([first, *rest], rest):
        (tint,) = code.tinted(shown)
        assert (tint.depth, words_at(code, tint)) == (2, "drafted")
    assert code.tinted([first]) == []


def words_at(code: CodeText, tint: Tint) -> str:
    return code.text().encode("utf-16-le")[2 * tint.start : 2 * tint.end].decode("utf-16-le")


class Spans(list[DraftedSpan]):
    """Counts those that are looked at."""

    looked_at = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        self.looked_at += len(found) if isinstance(at, slice) else 1
        return found

    def __iter__(self):
        self.looked_at += len(self)
        return super().__iter__()


def test_code_stays_where_it_is_whatever_is_selected(view, qtbot):
    show(view, ShownMessage(1, "assistant", "```\n" + "line\n" * 30 + "```"))
    [code] = of(view, 1).texts()
    code.moveCursor(QTextCursor.MoveOperation.Start)
    qtbot.mousePress(code.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    below = QPoint(20, code.viewport().height() + 40)
    qtbot.mouseMove(code.viewport(), below)
    qtbot.wait(120)  # Qt scrolls every 100 ms
    qtbot.mouseRelease(code.viewport(), Qt.MouseButton.LeftButton, pos=below)
    code.moveCursor(QTextCursor.MoveOperation.End)
    code.verticalScrollBar().setValue(9)
    assert code.firstVisibleBlock().blockNumber() == 0 and not code.verticalScrollBar().maximum()


def test_of_long_code_only_what_is_drafted_in_view_is_looked_at(qtbot):
    line = "value = drafted(2)\n"
    source = f"```python\n{line * 5000}"
    spans = Spans(DraftedSpan(at, at + 5, 1) for at in range(10, len(source), len(line)))
    reader, area = Reader(), QScrollArea()
    reader.shows_drafted = True
    code = CodeSegment(reader, "python")
    area.setWidget(code)
    qtbot.addWidget(area)
    area.resize(700, 500)
    area.show()
    code.show_segment(Segment("code", 0, source, closed=False), spans)
    code.resize(code.sizeHint())
    settle()
    assert 20 < spans.looked_at < 1000


def test_two_megabytes_pasted_do_not_freeze(view):
    pasted = "word " * 400_000
    show(view, ShownMessage(1, "user", pasted))
    bubble = of(view, 1).findChild(UserBubble)
    assert len(bubble.prose.text()) < 3000
    of(view, 1).copy()
    assert QGuiApplication.clipboard().text() == pasted


def test_what_was_attached_is_a_chip_that_opens(view, qtbot):
    files = [AttachedText("main.py", "x = 1\n" * 50), AttachedText("b.txt", "other")]
    show(view, ShownMessage(1, "user", with_attachments("Why?", files)))
    bubble = of(view, 1).findChild(UserBubble)
    first, second = (b for b in bubble.findChildren(QPushButton) if b.isCheckable())
    assert first.text() == "main.py · 299 B"
    assert bubble.prose.text() == "Why?"
    height = bubble.height()
    qtbot.mouseClick(first, Qt.MouseButton.LeftButton)
    assert bubble.prose.text().startswith("Why?\n\nx = 1\nx = 1")
    assert bubble.height() > height
    qtbot.mouseClick(second, Qt.MouseButton.LeftButton)
    assert (first.isChecked(), second.isChecked()) == (False, True)
    assert bubble.prose.text() == "Why?\n\nother"
    qtbot.mouseClick(second, Qt.MouseButton.LeftButton)
    assert (bubble.prose.text(), bubble.height()) == ("Why?", height)
    inside = bubble.rect().adjusted(0, 0, -16, 0)
    assert all(
        inside.contains(b.geometry().translated(b.parentWidget().pos())) for b in (first, second)
    )
    of(view, 1).copy()
    assert QGuiApplication.clipboard().text() == with_attachments("Why?", files)


def test_pictures_of_a_question_that_is_edited_are_taken_out_one_by_one(view, qtbot):
    images = (QImage(3, side, QImage.Format.Format_RGB32) for side in (4, 5))
    first, second = (Picture.from_bytes(png_of(image), 3, image.height()) for image in images)
    show(view, ShownMessage(1, "user", "Why?", pictures=(first, second)))
    of(view, 1).edit()
    chips = of(view, 1).editor.findChildren(PictureChip)
    assert [chip.picture for chip in chips] == [first, second]
    qtbot.waitUntil(lambda: chips[1].isVisible() and chips[1].height() > 20)
    view.reader.chat = Mock()
    for left in ((second,), ()):
        chips.pop(0).remove.click()
        of(view, 1).editor.send.click()
        assert view.reader.chat.mock_calls[-1] == call.edit(1, "Why?", left)
    of(view, 1).editor.cancel.click()
    of(view, 1).edit()
    assert of(view, 1).editor.pictures == (first, second)


def test_what_was_attached_stays_with_a_question_that_is_edited(view, qtbot):
    """Its text would hide the question."""
    files = [AttachedText("main.py", "x = 1\n" * 50), AttachedText("b.txt", "other")]
    show(view, ShownMessage(1, "user", with_attachments("Why?", files)))
    of(view, 1).edit()
    editor = of(view, 1).editor
    assert editor.field.toPlainText() == "Why?"
    assert "With main.py, b.txt" in words_on(editor)
    qtbot.keyClicks(editor.field, " Really?")
    view.reader.chat = Mock()
    qtbot.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    words = with_attachments("Why? Really?", files)
    assert view.reader.chat.mock_calls == [call.edit(1, words, ())]


@pytest.mark.parametrize(
    "text", ["```", "[" * 4000, "| a |\n|--", "<img src=x>", "\0\x07", "~~~\r\n"]
)
def test_broken_markdown_is_shown(view, text):
    begin(view)
    for letter in text[:40]:
        view.append_pieces(1, [TextPiece(letter)])
    view.append_pieces(1, [TextPiece(text[40:])])
    view.finish(ShownMessage(1, "assistant", text))
    settle()


def test_code_in_a_list_has_its_card_and_a_quote_its_bar_beside_it(view):
    source = "1. x\n   ```py\n   a\n\n   b\n   ```\n\n   > q\n"
    show(view, ShownMessage(1, "assistant", source, spans=(DraftedSpan(17, 18, 2),)))
    view.set_drafted_shown(True)
    before, code, prose = of(view, 1).texts()
    assert (before.text(), code.text(), prose.text()) == ("x", "a\n\nb", "q")
    assert code.mapTo(view, QPoint()).x() > before.mapTo(view, QPoint()).x() + LIST_STEP
    assert prose.mapTo(view, QPoint()).x() == before.mapTo(view, QPoint()).x() + LIST_STEP
    assert [tint.depth for tint in code.tinted(list(code._lines(QRectF(code.rect()))))] == [2]
    card = of(view, 1).findChild(CodeSegment)
    card.copy()
    assert QGuiApplication.clipboard().text() == "a\n\nb"
    blocks = list(placed(prose.document()))
    (bar,) = quote_bars(blocks[-1:])
    text = blocks[-1].block.layout().lineAt(0).x()
    assert 0 < text - bar.x() <= QUOTE_STEP


def test_a_quote_written_from_the_right_has_its_bar_there(view):
    show(view, ShownMessage(1, "assistant", "> שלום\n>\n> > עולם\n\nthen\n\n> left\n"))
    prose = of(view, 1).texts()[0]
    blocks = list(placed(prose.document()))
    width = prose.document().textWidth()
    outer, both, inner, left = [
        bar for at in range(len(blocks)) for bar in quote_bars(blocks[at : at + 2])
    ]
    assert outer.bottom() == both.top() == blocks[1].corner.y(), "no gap between paragraphs"
    assert outer.right() == both.right() == pytest.approx(width, abs=1)
    assert inner.right() == pytest.approx(width - QUOTE_STEP, abs=1)
    assert left.x() == 0
    for block, bar in zip(blocks[:2], (outer, inner), strict=True):
        line = block.block.layout().lineAt(0)
        text = block.corner.x() + line.naturalTextRect().right()
        assert 0 < bar.x() - text <= QUOTE_STEP


def test_the_text_of_a_bubble_stands_in_its_middle(view):
    show(view, ShownMessage(1, "user", "hi"))
    bubble = of(view, 1).findChild(UserBubble)
    line = bubble.prose.document().begin().layout().lineAt(0)
    metrics = bubble.prose.fontMetrics()
    baseline = bubble.prose.y() + line.y() + line.ascent()
    middle = baseline - metrics.xHeight() / 2
    assert abs(middle - bubble.height() / 2) <= 3


def test_a_fence_of_maths_is_rendered_also_while_it_grows(view):
    text = "So\n\n```math\n\\frac{a}{b} + x^2\n```\n\nand\n\n```python\nx = 1\n```\n"
    begin(view)
    for letter in text[:30]:
        view.append_pieces(1, [TextPiece(letter)])
    (prose,) = of(view, 1).texts()
    assert "$$\\frac{a}{b}" in prose.text() and "```" not in prose.text()
    view.append_pieces(1, [TextPiece(text[30:])])
    view.finish(ShownMessage(1, "assistant", text))
    prose, code = of(view, 1).texts()
    assert "".join(prose.text().split()) == "So$$\\frac{a}{b}+x^2$$and"
    assert code.text() == "x = 1"


def test_nothing_is_loaded(view):
    show(view, ShownMessage(1, "assistant", "![x](https://x.org/y.png)"))
    prose = of(view, 1).texts()[0]
    assert prose.loadResource(2, "https://x.org/y.png") is None
    picture = QUrl.fromLocalFile(str(asset_path("icons/app.svg")))
    assert prose.loadResource(QTextDocument.ResourceType.ImageResource.value, picture) is None
    assert "Image: x" in prose.text()


def test_links_are_handed_on(view, qtbot):
    show(view, ShownMessage(1, "assistant", "[x](https://x.org)"))
    prose = of(view, 1).texts()[0]
    with qtbot.waitSignal(view.reader.link_clicked) as caught:
        qtbot.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(3, 8))
    assert caught.args == ["https://x.org"]


def test_links_defined_in_another_segment(view):
    source = "See [the notes][1] of [x].\n\n```\n[x]: y\n```\n\n[1]: https://x.org\n"
    begin(view)
    stream(view, source)
    assert "[1]" in shown_text(view, 1)
    view.finish(ShownMessage(1, "assistant", source))
    assert shown_text(view, 1).startswith("See the notes of [x]."), "code defines nothing"


def test_the_buttons_of_an_answer_need_no_wide_window(view):
    answer = ShownMessage(
        1, "assistant", "yes", stats=STATS, state="stopped", branch_count=2, can_continue=True
    )
    show(view, answer)
    buttons = of(view, 1).buttons
    assert buttons.previous.mapTo(view, QPoint()).y() == buttons.copy.mapTo(view, QPoint()).y()
    view.resize(buttons.sizeHint().width() - 40 + 48, 500)
    settle()
    settle()
    assert view.column.content.width() <= view.column.viewport().width()
    above, below = (b.mapTo(view, QPoint()).y() for b in (buttons.previous, buttons.copy))
    assert below >= above + buttons.previous.height()
    assert of(view, 1).height() >= buttons.mapTo(of(view, 1), QPoint()).y() + buttons.height()


DATA = '{"title": "*Zebras*",\n\n    "stripes": [1,\n\n    2]}'


@pytest.mark.parametrize("text", [DATA, f"{DATA}\n", "[]", DATA[:12], DATA[:-4]])
@pytest.mark.parametrize("is_live", [True, False])
def test_an_answer_that_is_json_is_one_block_of_code(view, text, is_live):
    if is_live:
        show(view, ShownMessage(1, "assistant", "", state="live"))
        for letter in text:
            of(view, 1).append([TextPiece(letter)])
            if of(view, 1).answer.text().startswith('{"'):
                assert isinstance(of(view, 1).answer.texts()[0], CodeText), "while it grows too"
        of(view, 1).finish(ShownMessage(1, "assistant", text))
    else:
        show(view, ShownMessage(1, "assistant", text))
    answer = of(view, 1).answer
    assert answer is not None and answer.text() == text
    (code,) = answer.texts()
    assert isinstance(code, CodeText) and code.text() == text.strip()
    assert "json" in words_on(answer)


@pytest.mark.parametrize(
    "text", ["[see](https://example.org)", "{x}", "[1] and [2]", "12", f"{DATA} is **JSON**."]
)
def test_an_answer_that_is_no_json_is_prose(view, text):
    show(view, ShownMessage(1, "assistant", "", state="live"))
    of(view, 1).append([TextPiece(text)])
    of(view, 1).finish(ShownMessage(1, "assistant", text))
    (shown,) = of(view, 1).answer.texts()[:1]
    assert not isinstance(shown, CodeText)
