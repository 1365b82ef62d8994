"""The composer sends once, never in the middle of a word, and swallows large pastes."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QEvent, QMimeData, Qt, QUrl, Signal
from PySide6.QtGui import QImage, QInputMethodEvent, QKeyEvent, QKeySequence, QTextCursor
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget
from seen import button, find, press, words_on

from app.library.picture_file import checked_picture
from app.state.state import State
from app.values.attached_text import AttachedPdf, AttachedText, Refused, SaidWith, fenced
from app.window.attachments import MOST, MOST_PICTURES, AttachmentChip, PdfChip, PictureChip
from app.window.composer import LONGEST, MOST_LINES, Composer, MessageBox
from app.window.controls.fields import Lines
from app.window.controls.layouts import column
from app.window.pictures import (
    COPIED,
    PictureDialog,
    Thumbnail,
    copied_pictures,
    mime_of,
    png_of,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.words import Words

SHIFT = Qt.KeyboardModifier.ShiftModifier


class Watched(State):
    """The chat, the model and the files of a composer; heard: what it asked them for."""

    opened, switched, progressed = Signal(object), Signal(), Signal()
    arrived = Signal(object)
    chat_id, running, description = None, None, None
    can_answer, unsent, turns, unseen = True, SaidWith(""), (), None

    def __init__(self):
        super().__init__()
        self.heard, self.names, self.token_counts = [], [], {}
        self.read = self.read_pages = self.heard.append
        self.stop = lambda: self.heard.append("stop")
        self.give_up = self.names.clear

    def why_unseen(self, place):
        """Why the pictures of the chat cannot be read."""
        return self.unseen

    def count(self, texts):
        """Nothing is counted."""

    def send(self, text, pictures):
        """The message stays."""
        self.heard.append((text, *pictures) if pictures else text)

    def read_pasted(self, name, png):
        """As if a thread had checked the picture."""
        self.arrived.emit([checked_picture(png(), name)])

    def become(self, **what):
        for name, value in what.items():
            setattr(self, name, value)
        self.changed.emit()

    def show_tokens(self, counts, room):
        """As if the model had counted the tokens of the attachments, and then of the pictures."""
        self.description = SimpleNamespace(context_length=room, vision=None)
        told = (*map(fenced, self.unsent.attachments), *self.unsent.pictures)
        self.token_counts = {t: n for t, n in zip(told, counts, strict=True) if n is not None}
        self.progressed.emit()


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def composer(qtbot, watched):
    widget = Composer()
    widget.watch(watched, watched, watched, None, lambda: watched.heard.append("edit last"))
    qtbot.addWidget(widget)
    widget.resize(600, 200)
    widget.show()
    return widget


@pytest.fixture
def box(composer):
    return composer.findChild(MessageBox)


@pytest.fixture
def heard(watched):
    return watched.heard


def paste(box, text="", paths=()):
    mime = QMimeData()
    if text:
        mime.setText(text)
    if paths:
        mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    assert box.canInsertFromMimeData(mime)
    box.insertFromMimeData(mime)


def test_a_pasted_picture_is_sent_by_a_model_that_sees(qtbot, composer, box, watched):
    picture = QMimeData()
    picture.setImageData(QImage(4, 6, QImage.Format.Format_RGB32))
    assert box.canInsertFromMimeData(picture)
    box.insertFromMimeData(picture)
    (kept,) = composer.pictures()
    assert (kept.width, kept.height) == (4, 6) and watched.unsent.pictures == (kept,)
    why = Reason("no-vision", "This model sees no pictures.")
    watched.become(description=SimpleNamespace(context_length=99, vision=why))
    qtbot.keyClicks(box, "What?")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert watched.heard == [] and composer.message() == SaidWith("What?", (), (kept,))
    assert "This model sees no pictures. Leave the pictures out" in " ".join(words_on(composer))
    watched.become(description=SimpleNamespace(context_length=99, vision=None))
    assert "sees no pictures" not in " ".join(words_on(composer))
    watched.become(unseen=Words("This chat has pictures."))
    assert "This chat has pictures." in words_on(composer)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert watched.heard == []
    watched.become(unseen=None)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert watched.heard == [("What?", kept)]


def test_copied_pictures_are_pasted_with_their_text(qtbot, composer, box):
    """Other programs get the text and the first picture; dragged out, it is a file."""
    images = (QImage(3, side, QImage.Format.Format_RGB32) for side in (4, 5))
    pictures = tuple(checked_picture(png_of(image), "p") for image in images)
    copied = mime_of(pictures, "Which?")
    assert copied.text() == "Which?" and QImage(copied.imageData()).height() == 4
    box.insertFromMimeData(copied)
    assert composer.message() == SaidWith("Which?", (), pictures)
    dragged = find(composer, Thumbnail, "Picture 2").drag_data()
    (file,) = (Path(url.toLocalFile()) for url in dragged.urls())
    assert (file.name, file.read_bytes()) == ("Picture 2.png", pictures[1].data)
    odd = QMimeData()
    odd.setData(COPIED, b'{"a": 1}')
    assert copied_pictures(odd) == []


def test_tab_goes_from_the_message_through_its_attachments_and_back(qtbot, composer, box):
    window, before, after = QWidget(), QPushButton("before"), QPushButton("after")
    column(before, composer, after, of=window)
    qtbot.addWidget(window)
    window.show()
    composer.row.attach([AttachedText("a", "1"), AttachedText("b", "2")])
    box.setFocus()
    passed = list[str]()
    for key in [Qt.Key.Key_Tab] * 3 + [Qt.Key.Key_Backtab] * 4:
        qtbot.keyClick(window.focusWidget(), key)
        passed.append(window.focusWidget().accessibleName())
    assert passed == ["Remove a", "Remove b", "Attach files", "Remove b", "Remove a", "Message", ""]
    assert window.focusWidget() is before
    composer.setParent(None)


def test_bad_and_too_many_pictures_are_named_and_lose_nothing(qtbot, composer, watched):
    images = (QImage(3, side, QImage.Format.Format_RGB32) for side in range(1, MOST_PICTURES + 2))
    found = [checked_picture(png_of(image), "a") for image in images]
    bad = checked_picture(b"\xff\xd8\xff\xe0 torn", "torn.png")
    composer.row.attach([*found[:2], bad])
    assert composer.pictures() == tuple(found[:2])
    assert "torn.png: the picture is damaged" in " ".join(words_on(composer))
    assert composer.row.unseen == ""
    composer.row.attach(found[2:])
    assert composer.pictures() == tuple(found[:MOST_PICTURES])
    assert "A message takes 50 pictures at most." in " ".join(words_on(composer))
    assert len(found) > 3 * 9 and composer.row.height() < 5 * 60, "those below are scrolled to"
    press(composer, "Remove picture 1")
    assert composer.pictures() == watched.unsent.pictures == tuple(found[1:MOST_PICTURES])
    shown = find(composer, Thumbnail, "Picture 2")
    shown.setFocus()
    qtbot.keyClick(shown, Qt.Key.Key_Space)
    large = composer.window().findChild(PictureDialog)
    assert large.isVisible() and large.accessibleName() == "Picture, 3 × 2 pixels"
    qtbot.keyClick(large, Qt.Key.Key_Escape)
    assert not large.isVisible()


def test_a_pdf_goes_as_its_text_or_as_pictures_of_its_pages(composer, watched):
    """A page without text cannot go as text; a model that sees none gets the text."""
    text = AttachedText("a.pdf", "words")
    images = (QImage(3, side, QImage.Format.Format_RGB32) for side in (4, 5))
    pages = tuple(checked_picture(png_of(image), "p") for image in images)
    pdf = AttachedPdf(Path("a.pdf"), text)
    watched.arrived.emit([pdf])
    assert watched.unsent == SaidWith("", (text,), (), (pdf,))
    press(composer, "Attach a.pdf as pictures")
    assert watched.heard == [replace(pdf, as_pictures=True)]
    drawn = replace(pdf, pages=pages, page_count=3, as_pictures=True)
    watched.arrived.emit([drawn])
    assert watched.unsent == SaidWith("", (), pages, (drawn,))
    assert "2 of 3 pages as pictures" in words_on(composer)
    watched.show_tokens([1, 1050], 4096)
    assert "2 of 3 pages as pictures · 1,051 tokens" in words_on(composer)
    _, second = (t for t in composer.row.findChildren(Thumbnail) if t.isVisible())
    assert second.toolTip() == "3 × 5 pixels, 1,050 tokens: open it large"
    watched.show_tokens([3000, 1050], 4000)
    assert "(4,050 of 4,000 tokens)" in composer.row.too_long
    watched.show_tokens([3000, None], 4000)
    assert composer.row.too_long == "" and "2 of 3 pages as pictures" in words_on(composer)
    why = Reason("no-vision", "This model sees no pictures.")
    watched.become(description=SimpleNamespace(context_length=99, vision=why))
    assert watched.unsent == SaidWith("", (text,), (), (drawn,))
    assert composer.row.unseen == "" and "As pictures" not in words_on(composer)
    watched.become(description=SimpleNamespace(context_length=99, vision=None))
    composer.show_message(*watched.unsent)
    assert composer.message() == SaidWith("", (), pages, (drawn,))
    press(composer, "Attach a.pdf as text")
    assert composer.attachments() == (text,)
    press(composer, "Attach a.pdf as pictures")
    assert composer.pictures() == pages
    first, _ = (chip for chip in composer.row.findChildren(PictureChip) if chip.isVisible())
    first.remove.click()
    assert composer.pictures() == pages[1:]
    (chip,) = (chip for chip in composer.row.findChildren(PdfChip) if chip.isVisible())
    chip.remove.click()
    assert composer.message() == SaidWith("")
    watched.arrived.emit([drawn])
    assert composer.message() == SaidWith(""), "it was removed while its pages were read"


def test_return_while_an_answer_is_written_says_why_nothing_is_sent(qtbot, composer, box, watched):
    heard = watched.heard
    watched.become(running=True)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert "An answer is being written" not in " ".join(words_on(composer))
    qtbot.keyClicks(box, "Next")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == [] and "An answer is being written" in " ".join(words_on(composer))
    watched.become(running=None)
    assert "An answer is being written" not in " ".join(words_on(composer))


def test_a_context_that_is_nearly_full_is_told(composer):
    for used, is_told in ((749, False), (750, True), (1000, True), (0, False)):
        composer.ring.show_context(used, 1000)
        assert composer.ring.isVisible() == is_told
    composer.ring.show_context(800, 1000)
    assert composer.ring.toolTip() == "80% of the room for this chat is used: 800 of 1,000 tokens."
    composer.ring.show_context(10, 0)
    assert not composer.ring.isVisible()


def test_return_sends_what_stays_until_it_is_sent(qtbot, composer, box, heard):
    qtbot.keyClicks(box, "  Hello")
    qtbot.keyClick(box, Qt.Key.Key_Return, SHIFT)
    qtbot.keyClicks(box, "there ")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == ["Hello\nthere"]
    assert composer.text() == "  Hello\nthere "
    composer.show_message("")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert len(heard) == 1


def test_keypad_enter_sends_too(qtbot, box, heard):
    qtbot.keyClicks(box, "1")
    qtbot.keyClick(box, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert heard == ["1"]


def test_no_sending_while_an_input_method_composes(qtbot, composer, box, heard):
    qtbot.keyClicks(box, "a")
    QApplication.sendEvent(box, QInputMethodEvent("にほ", []))
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == []
    finished = QInputMethodEvent()
    finished.setCommitString("日本")
    QApplication.sendEvent(box, finished)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == ["a日本"]


def test_up_edits_the_last_prompt_only_in_an_empty_box(qtbot, box, heard):
    qtbot.keyClicks(box, "a")
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert heard == []
    box.clear()
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert heard == ["edit last"]


def test_it_grows_to_ten_lines(qtbot, box):
    heights = []
    for lines in range(1, MOST_LINES + 4):
        box.setPlainText("\n".join("x" * lines))
        heights.append(box.height())
    step = box.document().firstBlock().layout().lineAt(0).height()
    assert heights[9] == pytest.approx(heights[0] + 9 * step, abs=1)
    assert heights[9:] == [heights[9]] * 4
    box.clear()
    assert box.height() == heights[0]


def test_it_is_as_high_before_it_is_shown_as_then(qtbot):
    box = MessageBox()
    qtbot.addWidget(box)
    for size in (20, 24, 28):
        font = box.font()
        font.setPixelSize(size)
        box.setFont(font)
        wanted = box.fontMetrics().lineSpacing() + 2 * box.document().documentMargin()
        assert box.height() == round(wanted)
    box.show()
    assert box.height() == round(wanted)


@pytest.mark.parametrize("zoom", [0.9, 1.0, 1.5])
def test_all_lines_are_seen_up_to_ten(qtbot, wear, composer, box, zoom):
    wear("light", zoom)
    for line in range(MOST_LINES - 1):
        qtbot.keyClicks(box, f"line {line}")
        qtbot.keyClick(box, Qt.Key.Key_Return, SHIFT)
        QApplication.processEvents()
        assert box.firstVisibleBlock().blockNumber() == 0
        last = box.blockBoundingGeometry(box.document().lastBlock())
        assert last.translated(box.contentOffset()).bottom() <= box.viewport().height()


def test_wrapped_lines_count(qtbot, composer, box):
    one = box.height()
    box.setPlainText("word " * 60)
    assert box.height() > one
    assert box.verticalScrollBar().value() == 0


def test_stop_while_answering(qtbot, composer, box, watched, heard):
    watched.become(running=True)
    qtbot.keyClicks(box, "next question")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == []
    assert composer.text() == "next question"
    button(composer, "Stop (Esc)").click()
    assert heard == ["stop"]
    watched.become(running=None)
    press(composer, "Send")
    assert heard[1] == "next question"


def test_why_nothing_can_be_sent(qtbot, composer, box, watched, heard):
    watched.become(can_answer=False)
    qtbot.keyClicks(box, "hi")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == []
    assert not button(composer, "Send").isEnabled()
    assert button(composer, "Send").toolTip() == "Open or drop a model first"
    watched.become(can_answer=True)
    assert button(composer, "Send").isEnabled()


def test_what_is_there_without_having_been_read_has_no_reading_to_give_up(composer, watched):
    composer.row.attach([AttachedText("a.py", "x = 1")])
    stop = find(composer, QToolButton, "Stop reading")
    assert not stop.isVisibleTo(composer)
    watched.become(names=["b.pdf"])
    assert stop.isVisibleTo(composer)


def test_files_are_pasted_as_chips_and_sent(qtbot, tmp_path, composer, box, heard):
    paths = [tmp_path / "a.py", tmp_path / "b.bin"]
    paste(box, paths=paths)
    assert heard == [paths] and composer.text() == ""
    heard.clear()
    composer.row.attach([AttachedText("a.py", "x = 1"), Refused("b.bin is not text.")])
    assert [a.name for a in composer.attachments()] == ["a.py"]
    assert any("b.bin is not text" in text for text in words_on(composer))
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == [fenced(AttachedText("a.py", "x = 1"))]


def test_a_huge_paste_becomes_a_chip_at_once(composer, box):
    text = "lorem ipsum\n" * 180_000
    started = time.process_time()
    paste(box, text)
    assert time.process_time() - started < 10
    assert composer.text() == ""
    assert composer.attachments()[0].text == text


def test_an_ordinary_paste_is_typed(composer, box):
    paste(box, "a" * (LONGEST - 1))
    assert composer.text() == "a" * (LONGEST - 1)
    assert composer.attachments() == ()


def test_pastes_that_add_up_become_a_chip(composer, box):
    paste(box, "a" * 15_000)
    paste(box, "b" * 15_000)
    assert composer.text() == "a" * 15_000
    assert [a.text for a in composer.attachments()] == ["b" * 15_000]


def test_a_huge_message_to_edit_is_attached(composer):
    started = time.process_time()
    composer.show_message("x" * 2_000_000, [AttachedText("a", "1")])
    assert time.process_time() - started < 10
    assert composer.text() == ""
    assert [len(a.text) for a in composer.attachments()] == [1, 2_000_000]


def test_chips_show_tokens_and_go_away(composer, watched):
    composer.show_message("hi", [AttachedText("a.py", "x" * 1200), AttachedText("b", "y")])
    watched.show_tokens([1234, None], 4096)
    chips = [c for c in composer.findChildren(AttachmentChip) if not c.isHidden()]
    assert chips[0].accessibleName() == "Attachment a.py, 1.2 kB · 1,234 tokens"
    assert chips[1].accessibleName() == "Attachment b, 1 B · about 6 tokens"
    press(composer, "Remove a.py")
    assert watched.unsent == SaidWith("hi", (AttachedText("b", "y"),))
    assert composer.text() == "hi"


def test_what_the_model_cannot_read_is_red_and_not_sent(qtbot, composer, box, watched, heard):
    composer.show_message("hi", [AttachedText("a.py", "x"), AttachedText("b", "y")])
    watched.show_tokens([5000, 10], 4096)
    red, plain = (c for c in composer.findChildren(AttachmentChip) if not c.isHidden())
    assert (red.property("bad"), plain.property("bad")) == (True, False)
    assert "longer than the model can read" in red.accessibleName()
    words = "a.py is longer than this model can read (5,000 of 4,096 tokens)"
    assert any(words in text for text in words_on(composer))
    assert not button(composer, "Send").isEnabled()
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert heard == []
    assert composer.text() == "hi"
    composer.row.attach([AttachedText("c.py", "z")])
    assert not button(composer, "Send").isEnabled(), "while the new one is counted"
    watched.show_tokens([5000, 10, 10], 8192)
    assert button(composer, "Send").isEnabled()
    watched.show_tokens([3000, 3000, 0], 4096)
    words = "longer than this model can read (6,000 of 4,096 tokens): remove some,"
    assert any(words in text for text in words_on(composer))
    press(composer, "Remove a.py")
    assert button(composer, "Send").isEnabled()


def test_there_is_an_end_to_attachments(composer):
    composer.row.attach([AttachedText(f"{n}.txt", "x") for n in range(MOST + 5)])
    assert len(composer.attachments()) == MOST
    assert any(f"{MOST} attachments at most" in text for text in words_on(composer))
    for count, last in ((3, "2.png is empty."), (5, "2 more files were refused.")):
        composer.row.attach([Refused(Words(f"{n}.png is empty.")) for n in range(count)])
        assert any(text.endswith(last) for text in words_on(composer))


def test_drops_are_left_to_the_window(composer, box):
    assert not box.acceptDrops()
    assert not box.viewport().acceptDrops()


def test_zoom_makes_it_higher(qtbot, composer, box):
    small = box.height()
    font = box.font()
    font.setPixelSize(30)
    box.setFont(font)
    assert box.height() > small


@pytest.mark.parametrize("make", [MessageBox, lambda: Lines(3)])
def test_words_begin_where_their_writing_begins(qtbot, make):
    """Hebrew and Arabic at the right; the cursor's place tells of the text's."""
    box = make()
    qtbot.addWidget(box)
    box.resize(400, 100)
    box.show()
    middle = box.viewport().width() / 2
    for words, is_right in (("\u05e9\u05dc\u05d5\u05dd", True), ("Hello", False), ("\u0645", True)):
        box.setPlainText(words)
        assert (box.cursorRect().x() > middle) is is_right
    box.clear()
    assert box.cursorRect().x() < middle


@pytest.mark.parametrize(("at", "is_taken"), [("End", False), ("Start", True)])
def test_a_jump_to_the_end_is_left_to_the_chat_where_the_cursor_is_at_the_end(qtbot, at, is_taken):
    box = MessageBox()
    qtbot.addWidget(box)
    box.insert("words")
    box.moveCursor(QTextCursor.MoveOperation[at])
    (keys, *_) = QKeySequence.keyBindings(QKeySequence.StandardKey.MoveToEndOfDocument)
    event = QKeyEvent(QEvent.Type.ShortcutOverride, keys[0].key(), keys[0].keyboardModifiers())
    event.ignore()
    box.event(event)
    assert event.isAccepted() is is_taken
