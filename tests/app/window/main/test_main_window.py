"""The frame folds, remembers, passes on drops; every command is there once."""

from collections.abc import Callable

import pytest
from model_states import StatedModels
from PySide6.QtCore import QEvent, QMimeData, QObject, QPoint, Qt, QUrl
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QImage,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from seen import words_on
from shown_transcript import settle

from app.window.controls import notice_bar
from app.window.controls.choices import DropDown, Option
from app.window.controls.labels import ShortButton, paragraph
from app.window.controls.layouts import stacked
from app.window.controls.notice_bar import NoticeBar
from app.window.layers import CrashBox
from app.window.look import Scheme, look
from app.window.main_window import MainWindow, dragged_from
from app.window.widgets import Widgets

Dressed = Callable[[Scheme, float], None]


@pytest.fixture
def window(qtbot):
    sidebar = QLabel("sidebar")
    sidebar.setFixedWidth(232)
    made = MainWindow(
        sidebar,
        {"chat": QLabel("chat"), "library": QLabel("library")},
        {"session": QLabel("session"), "drafting": QLabel("drafting")},
        QLabel("strip"),
        QLabel("notice"),
    )
    qtbot.addWidget(made)
    made.restore(bytes([True, 1, 0]))
    made.show()
    return made


def test_a_first_start_has_no_panel_on_the_right(qtbot):
    made = Widgets().window
    qtbot.addWidget(made)
    made.resize(1180, 780)
    made.show()
    assert made.has_sidebar and made.panel is None


def is_shown(window: MainWindow, words: str) -> bool:
    return any(w.isVisible() for w in window.findChildren(QLabel) if w.text() == words)


def test_panels_fold_and_take_turns(window):
    assert is_shown(window, "session")
    window.show_panel("drafting")
    assert is_shown(window, "drafting")
    assert not is_shown(window, "session")
    window.show_panel(None)
    assert window.panel is None
    assert not is_shown(window, "drafting")
    window.show_sidebar(False)
    assert not is_shown(window, "sidebar")


def test_a_page_that_comes_back_is_laid_out_for_the_width_it_gets(qtbot):
    widths = list[int]()

    class Chat(QLabel):
        def resizeEvent(self, event: QResizeEvent) -> None:
            widths.append(event.size().width())

    chat, other = Chat("chat"), QLabel("library")
    pages = {"chat": chat, "library": other}
    window = MainWindow(QLabel(), pages, {"session": QLabel()}, QLabel(), QLabel())
    qtbot.addWidget(window)
    window.show_panel("session")
    window.show()
    QApplication.processEvents()
    usual = chat.width()
    window.show_page("library")
    QApplication.processEvents()
    assert other.width() > usual
    widths.clear()
    window.show_page("chat")
    QApplication.processEvents()
    assert set(widths) <= {usual} and chat.width() == usual


def test_the_right_side_gives_way_when_there_is_no_room(window):
    window.resize(800, 600)
    assert not is_shown(window, "session")
    assert window.panel == "session", "it comes back"
    window.resize(1200, 600)
    assert is_shown(window, "session")


def test_the_sidebar_makes_room_for_a_panel_that_is_asked_for(window):
    window.resize(800, 600)
    window.show_panel("drafting")
    assert window.is_shown("drafting")
    assert not window.has_sidebar
    window.show_sidebar(True)
    assert window.has_sidebar
    assert not window.is_shown("drafting")
    window.show_panel("session")
    window.resize(1200, 600)
    assert window.has_sidebar
    assert window.is_shown("session")


@pytest.mark.parametrize("zoom", [0.5, 1.5, 3.0])
def test_a_panel_can_be_seen_at_any_text_size(window, wear, zoom):
    wear("light", zoom)
    window.resize(760, 480)
    window.show_panel("session")
    assert is_shown(window, "session")
    assert is_shown(window, "chat")


def test_a_sidebar_of_large_text_gives_way_until_it_is_asked_for(window):
    sidebar = next(w for w in window.findChildren(QLabel) if w.text() == "sidebar")
    sidebar.setFixedWidth(464)
    window.resize(760, 480)
    assert not window.has_sidebar
    assert is_shown(window, "chat")
    window.show_sidebar(True)
    assert window.has_sidebar
    window.show_sidebar(False)
    window.resize(1180, 780)
    assert not window.has_sidebar, "it was folded away by hand"
    window.show_sidebar(True)
    window.resize(760, 480)
    assert not window.has_sidebar
    window.resize(1180, 780)
    assert window.has_sidebar


def test_drafting_gives_way_to_what_it_came_over(window):
    window.resize(800, 600)
    window.show_panel("drafting")
    window.show_panel("drafting")
    window.close_drafting()
    assert window.has_sidebar and not is_shown(window, "session")
    assert not is_shown(window, "drafting")
    window.resize(1200, 600)
    assert is_shown(window, "session"), "it only had no room"
    window.show_panel("drafting")
    window.close_drafting()
    assert is_shown(window, "session")
    window.show_panel(None)
    window.show_panel("drafting")
    window.close_drafting()
    assert not is_shown(window, "session"), "it was folded away by hand"


def test_other_pages_have_the_whole_width(window):
    window.show_page("library")
    assert not is_shown(window, "session")
    window.show_panel("drafting")
    assert window.page == "chat"


def test_size_and_folds_are_remembered(window, qtbot):
    window.resize(780, 560)  # the screen without a screen has 800 x 800
    window.show_panel("drafting")
    window.show_sidebar(False)
    state = window.state()
    window.resize(1300, 900)
    window.show_panel("session")
    window.show_sidebar(True)
    window.restore(state)
    assert window.panel == "drafting"
    assert (window.width(), window.height()) == (780, 560)
    assert not window.has_sidebar


@pytest.mark.parametrize("state", [b"", b"\1", b"\1\1nonsense", b"\0" * 50])
def test_an_odd_state_changes_nothing_that_matters(window, state):
    window.restore(state)
    assert window.width() >= 760


def test_drops_are_let_in_and_passed_on(window, qtbot):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/tmp/model.gguf")])
    place, action, button = QPoint(5, 5), Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(place, action, data, button, none)
    with qtbot.waitSignal(window.dragged) as dragged:
        window.dragEnterEvent(enter)
    assert enter.isAccepted()
    with qtbot.waitSignal(window.dropped):
        window.dropEvent(QDropEvent(place.toPointF(), action, data, button, none))
    assert dragged.args == [["/tmp/model.gguf"], ""]


def test_words_dragged_within_the_window_are_not_let_in(window, qtbot):
    class FromWithin(QDragEnterEvent):
        def source(self):
            return window

    data = QMimeData()
    data.setText("selected words")
    none, button = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    enter = FromWithin(QPoint(5, 5), Qt.DropAction.CopyAction, data, button, none)
    enter.ignore()
    with qtbot.assertNotEmitted(window.dragged):
        window.dragEnterEvent(enter)
    assert not enter.isAccepted()


def test_links_and_texts_can_be_dragged():
    data = QMimeData()
    assert not any(dragged_from(data))
    data.setText(" two\nlines\n")
    assert dragged_from(data) == ([], " two\nlines\n")
    data.setUrls([QUrl("https://huggingface.co/Qwen/Qwen3.5-4B")])
    assert dragged_from(data) == (["https://huggingface.co/Qwen/Qwen3.5-4B"], "")


class ShownWindows(QObject):
    """Notes each window of its own that appears."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[QObject] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.seen.append(watched)
        return False


def test_nothing_flashes_up_while_the_window_is_made(qapp, qtbot):
    shown = ShownWindows()
    qapp.installEventFilter(shown)
    qtbot.addWidget(Widgets().window)
    qapp.removeEventFilter(shown)
    assert shown.seen == []


def test_the_longest_names_keep_nothing_from_its_place(qtbot, wear):
    wear("light", 1.0)
    made, word = Widgets(), "Long" * 100
    qtbot.addWidget(made.window)
    made.window.resize(800, 600)
    made.window.show()
    model = made.head.findChild(ShortButton)
    assert model is not None
    qtbot.waitUntil(lambda: model.text() == "No model")
    made.head.show_loading(word, 1, 10)
    made.notice.say(f"{word} is gone.")
    stated = StatedModels()
    stated.known.problem = f"{word} is not there."
    made.library.watch(*stated.watched, stated.settings)
    made.card.watch(stated.offered, stated.settings)
    stated.show_card(None, "unreadable", f"{word} cannot be read.")
    for part in (made.head, made.notice, made.library, made.card):
        assert part.minimumSizeHint().width() < 600, part
    assert model.accessibleDescription() == word
    qtbot.waitUntil(lambda: "…" in model.text())
    made.head.show_loading("Short", 1, 10)
    qtbot.waitUntil(lambda: model.text() == "Short")
    assert any("1 of 10" in words for words in words_on(made.head))
    made.head.show_loading("Short", 10, 10)
    assert "Getting ready" in words_on(made.head), "the first pass has no measure"


def test_what_needs_no_answer_goes_by_itself(qtbot, monkeypatch):
    monkeypatch.setattr(notice_bar, "PASSING_MS", 1)
    notice = NoticeBar()
    qtbot.addWidget(notice)
    notice.say("The disk is full.", is_problem=True, stays=True)
    notice.mention("The chat was written.")
    assert notice.words() == "The disk is full.\nThe chat was written."
    qtbot.waitUntil(lambda: notice.words() == "The disk is full.")
    notice.mention("The chat was written.")
    notice.say("The model was let go.")
    qtbot.wait(20)
    assert "The model was let go." in notice.words()


def test_a_notice_is_read_and_dismissed(qtbot):
    notice = NoticeBar()
    qtbot.addWidget(notice)
    assert notice.words() == ""
    notice.say("The disk is full.", "traceback", is_problem=True)
    assert notice.words() == "The disk is full."
    with qtbot.waitSignal(notice.details_wanted) as heard:
        notice._more.click()
    assert heard.args == ["traceback"]
    notice.hide()
    assert notice.words() == ""


def test_what_stays_keeps_its_colour_its_details_and_the_offer_below_it(qtbot, theme):
    notice = NoticeBar()
    qtbot.addWidget(notice)

    def is_red() -> bool:
        (words,) = (one for one in notice.findChildren(QLabel) if one.text() == notice.words())
        return words.palette().windowText().color() == look().colour("error")

    notice.say("The disk is full.", "traceback", is_problem=True, stays=True)
    notice.offer("A model is downloaded.", "a/model")
    assert is_red(), "one of them is a problem"
    notice.withdraw("A model is downloaded.")
    assert is_red() and notice.words() == "The disk is full."
    with qtbot.waitSignal(notice.details_wanted) as heard:
        notice._more.click()
    assert heard.args == ["traceback"]
    notice.offer("A model is downloaded.", "a/model")
    notice.withdraw("The disk is full.")
    assert not is_red() and not notice._more.isVisible()
    with qtbot.waitSignal(notice.taken) as taken:
        notice.take.click()
    assert taken.args == ["a/model"] and notice.words() == ""


def test_details_of_a_mistake_can_be_copied(qtbot):
    box = CrashBox("ValueError: oops", "Traceback: line 1")
    qtbot.addWidget(box)
    box.copy_button.click()
    assert QGuiApplication.clipboard().text() == "Traceback: line 1"


def test_pages_that_nobody_sees_are_not_laid_out(qtbot):
    seen, unseen = paragraph("Words"), paragraph("Many more words " * 50)
    stack = stacked(seen, unseen)
    qtbot.addWidget(stack)
    assert (stack.sizeHint(), stack.minimumSizeHint()) == (seen.sizeHint(), seen.minimumSizeHint())
    assert not stack.hasHeightForWidth()
    stack.setCurrentWidget(unseen)
    assert stack.sizeHint() == unseen.sizeHint()


def test_choices_that_did_not_change_are_not_made_again(qtbot):
    options = [Option("a", "A"), Option("b", "B", "not now")]
    listed = DropDown("Letter")
    qtbot.addWidget(listed)
    listed.show_options(options, "a")
    made: list[object] = []
    listed.model().rowsInserted.connect(lambda *_: made.append(1))
    listed.show_options(tuple(options), "b")
    assert listed.currentData() == "b" and not made
    listed.show_options(options[:1], "a")
    assert listed.count() == 1 and made


def test_a_long_name_of_a_choice_ends_with_an_ellipsis(qtbot, theme):
    listed, name = DropDown("Preset"), "Translations of old letters, word by word"
    qtbot.addWidget(listed)
    listed.resize(160, 30)

    def painted(words: str) -> QImage:
        listed.show_options([Option("a", words)], "a")
        return listed.grab().toImage()

    wide = listed.fontMetrics().horizontalAdvance
    cut = [f"{name[:length].rstrip()}…" for length in range(1, len(name))]
    whole = [words for words in cut if wide(words) < listed.width() // 2 + 30]
    assert painted(name) in [painted(words) for words in whole]


def test_full_screen_and_back(window):
    window.resize(1180, 780)
    settle()
    window.showFullScreen()
    settle()
    assert window.isFullScreen() and window.size() == window.screen().size()
    assert window.has_sidebar and window.body.width() == window.width()
    window.showNormal()
    settle()
    assert not window.isFullScreen() and window.size().toTuple() == (1180, 780)


def test_at_larger_text_a_narrow_window_keeps_its_page_wide(qtbot, wear):
    window = Widgets().window
    qtbot.addWidget(window)
    window.show()
    window.resize(800, 600)
    settle()
    assert window.has_sidebar
    wear("light", 2.0)
    settle()
    assert not window.has_sidebar
    wear("light", 1.0)
    settle()
    assert window.has_sidebar
