"""Colours, text size, panels and commands: chosen, applied, remembered."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QImage, QPalette, QStyleHints
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QSplitter
from scripted_engine import Answer
from seen import find, words_on
from windows import running, scripted

from app.window.look import Scheme, load_theme, look
from app.window.sidebar.sidebar import NARROWEST, WIDEST
from app.window.style_sheet import scheme_for
from app.window.transcript.reader import MARGIN


@pytest.fixture(scope="module", autouse=True)
def in_plain_dress():
    """Not here, where looks are tested."""


@pytest.mark.parametrize(
    ("wish", "system", "scheme"),
    [
        ("system", Qt.ColorScheme.Dark, "dark"),
        ("system", Qt.ColorScheme.Light, "light"),
        ("system", Qt.ColorScheme.Unknown, "light"),
        ("light", Qt.ColorScheme.Dark, "light"),
        ("dark", Qt.ColorScheme.Unknown, "dark"),
    ],
)
def test_the_scheme_is_the_user_s_or_the_system_s(wish, system, scheme):
    assert scheme_for(wish, system) == scheme


def test_dark_dresses_the_application(driven, qapp):
    driven.ask("A message to be dressed")
    for scheme, other in (("dark", "light"), ("light", "dark")):
        driven.app.actions[scheme].trigger()
        assert driven.app.actions[scheme].isChecked()
        assert not driven.app.actions[other].isChecked()
        driven.until(lambda scheme=scheme: page_of(qapp) == load_theme(scheme).page.lower())


def page_of(qapp: QApplication) -> str:
    return qapp.palette().color(QPalette.ColorRole.Window).name()


def test_text_is_as_wide_as_its_reader_wants(driven, qapp, qtbot, tmp_path):
    driven.widgets.window.resize(2200, 800)
    driven.widgets.window.show_panel("session")
    driven.ask("word " * 400)
    views = driven.widgets.transcript.column.views
    widths = []
    for name in ("Narrow", "Default", "Wide", "Full width"):
        driven.app.actions["settings"].trigger()
        driven.widgets.settings.show_pane("appearance")
        qtbot.mouseClick(
            find(driven.widgets.settings, QAbstractButton, f"Text width: {name}"),
            Qt.MouseButton.LeftButton,
        )
        driven.widgets.window.show_page("chat")
        qapp.processEvents()
        widths.append(views[0].width())
    assert widths[:3] == [600, 760, 1040]
    assert widths[3] == driven.widgets.transcript.column.viewport().width() - 2 * MARGIN > 1040
    assert driven.app.settings.value.text_width == "full"


def test_parts_of_the_system_s_own_follow(driven, monkeypatch):
    asked: list[Qt.ColorScheme] = []
    monkeypatch.setattr(QStyleHints, "setColorScheme", lambda _, scheme: asked.append(scheme))
    for wish in ("dark", "light", "system"):
        driven.app.actions[wish].trigger()
    scheme = Qt.ColorScheme
    assert asked == [scheme.Dark, scheme.Light, scheme.Unknown]


def test_text_grows_and_shrinks(driven, qapp):
    usual, widgets = qapp.font().pixelSize(), driven.widgets
    widgets.window.resize(2200, 800)
    widgets.transcript.set_text_width("usual")
    driven.ask("word " * 400)
    driven.app.actions["larger"].trigger()
    driven.app.actions["larger"].trigger()
    assert driven.app.settings.value.text_zoom == 1.2
    driven.until(lambda: qapp.font().pixelSize() == round(1.2 * usual))
    widest = round(760 * look().zoom)
    text = widgets.transcript.column.views[0]
    driven.until(lambda: text.width() - widest in (0, 1))  # what is left is halved
    driven.until(lambda: widgets.composer.width() == widest)
    driven.app.actions["actual-size"].trigger()
    driven.until(lambda: qapp.font().pixelSize() == usual)


def test_another_theme_is_there_at_once_on_every_page(driven, qapp):
    """No step between the old and the new theme, in which something could interrupt."""
    driven.ask("A message to be dressed")
    widgets = driven.widgets
    for page in ("chat", "library", "compare", "settings"):
        widgets.window.show_page(page)  # type: ignore[arg-type]
        for scheme in ("dark", "light"):
            driven.app.look.choose(scheme)  # type: ignore[arg-type]
            seen = widgets.window.grab().toImage()
            assert ground(seen) == load_theme(scheme).side.lower()  # type: ignore[arg-type]
            assert page_of(qapp) == load_theme(scheme).page.lower()  # type: ignore[arg-type]
    for text in widgets.transcript.column.views[-1].texts():
        assert load_theme("light").text.lower() in text.toHtml().lower()


def ground(picture: QImage) -> str:
    """The colour of the sidebar."""
    return picture.pixelColor(4, picture.height() // 2).name()


def test_chats_pages_and_looks_that_come_and_go_leave_nothing_behind(driven, qapp):
    widgets, chats = driven.widgets, list[int]()
    for words in ("One", "Other"):
        driven.app.chats.begin()
        driven.ask(words)
        chats.append(driven.app.chat.chat_id or 0)
    counts = []
    looks: tuple[Scheme, ...] = ("dark", "light", "dark")
    for scheme in looks:
        for chat in chats:
            driven.app.chat.open(chat, None)
            driven.until(lambda: len(driven.shown) == 2)
        for page in ("settings", "library", "compare"):
            driven.app.actions[page].trigger()
        widgets.window.show_page("chat")
        driven.app.look.choose(scheme)
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        counts.append(len(qapp.allWidgets()))
    assert counts[1] == counts[2]


def test_panels_and_choices_are_remembered(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as first:
        first.app.actions["sidebar"].trigger()
        first.app.actions["drafted-words"].trigger()
        first.app.actions["session"].trigger()
        assert first.widgets.window.panel == "session"
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert not again.widgets.window.has_sidebar
        assert again.widgets.window.panel == "session"
        assert again.app.actions["drafted-words"].isChecked()
        assert not again.app.actions["sidebar"].isChecked()


def test_the_whole_screen_is_taken_and_given_back(driven):
    window, action = driven.widgets.window, driven.app.actions["full-screen"]
    assert [keys.toString() for keys in action.shortcuts()] == ["F11", "Meta+Ctrl+F"]
    action.trigger()
    driven.until(window.isFullScreen)
    action.trigger()
    driven.until(lambda: not window.isFullScreen())


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_a_second_launch_brings_a_minimized_window_back(driven):
    window = driven.widgets.window
    window.showMinimized()
    driven.until(window.isMinimized)
    driven.app.open(())
    assert not window.isMinimized() and window.isVisible()


def test_the_strip_opens_the_drafting_view_and_closes_it(driven):
    driven.ask("Draft something")
    driven.widgets.strip.click()
    assert driven.widgets.window.panel == "drafting"
    driven.widgets.strip.click()
    assert driven.widgets.window.panel != "drafting"


def test_stop_is_there_only_while_something_runs(driven):
    actions = driven.app.actions
    assert not actions["stop"].isEnabled()
    driven.send("Go")
    assert actions["stop"].isEnabled()
    driven.until_answered()
    assert not actions["stop"].isEnabled()
    assert actions["regenerate"].isEnabled()


def test_a_mistake_in_a_slot_is_kept_and_told(driven):
    driven.app.crash_log.take(ValueError, ValueError("oops"), None)
    assert "ValueError: oops" in driven.app.crash_log.log_file.read_text()
    boxes = [
        w
        for w in QApplication.topLevelWidgets()
        if w.windowTitle().startswith("Something went wrong")
    ]
    for _ in range(19):
        driven.app.crash_log.take(ValueError, ValueError("oops"), None)
    now = [
        w
        for w in QApplication.topLevelWidgets()
        if w.windowTitle().startswith("Something went wrong")
    ]
    (box,) = now
    assert now == boxes and not box.isModal(), "it neither piles up nor blocks the window"
    assert any("19 more" in text for text in words_on(box))
    box.close()


def test_the_sidebar_is_as_wide_as_it_was_dragged(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as first:
        splitter, sidebar = first.widgets.window.findChild(QSplitter), first.widgets.sidebar
        for wanted, width in ((300, 300), (20, NARROWEST), (4000, WIDEST), (310, 310)):
            splitter.moveSplitter(wanted, 1)
            assert sidebar.width() == width
        first.app.actions["sidebar"].trigger()
        first.app.actions["sidebar"].trigger()
        assert sidebar.width() == 310
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert again.widgets.sidebar.width() == 310


def test_panels_have_room_for_larger_text_from_the_start(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as first:
        usual = first.widgets.sidebar.width()
        settings = first.app.settings
        settings.change(replace(settings.value, text_zoom=1.5))
        first.until(lambda: first.widgets.sidebar.width() > usual)
    with running(qapp, qtbot, tmp_path, scripted()) as again:
        assert again.widgets.sidebar.width() > usual
        again.app.actions["actual-size"].trigger()
        again.until(lambda: again.widgets.sidebar.width() == usual)


def test_escape_in_a_search_leaves_the_answer_alone(qapp, qtbot, tmp_path):
    source = scripted(Answer("word " * 400, pause_s=0.02))
    with running(qapp, qtbot, tmp_path, source) as driven:
        widgets = driven.widgets
        driven.send("Talk.")
        driven.until(lambda: len(driven.shown) == 2)
        widgets.window.activateWindow()
        for name, field in (("find", widgets.transcript.find_bar.field), ("search", None)):
            driven.app.actions[name].trigger()  # type: ignore[index]
            focus = field or QApplication.focusWidget()
            assert focus is not None
            qtbot.keyClicks(focus, "zebra")
            qtbot.keyClick(focus, Qt.Key.Key_Escape)
            assert driven.app.chat.running is not None
            assert not widgets.transcript.find_bar.isVisible()
        assert isinstance(focus, QLineEdit) and focus.text() == ""
        driven.app.actions["stop"].trigger()
        driven.until_answered()
