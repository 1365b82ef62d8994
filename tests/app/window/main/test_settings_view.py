"""The settings page shows what holds and says what the user changes, nothing else."""

import pytest
from panel_driving import FULL
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPlainTextEdit, QPushButton, QToolButton
from seen import find, words_on

from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings
from app.window.controls.choices import DropDown, Tick
from app.window.controls.fields import Slider
from app.window.settings_view import SettingsView


@pytest.fixture
def view(qtbot):
    made = SettingsView()
    qtbot.addWidget(made)
    with qtbot.waitSignal(made.made):
        made.show()
    return made


@pytest.fixture
def heard(view):
    said = []
    view.appearance.changed.connect(said.append)
    view.appearance.zoom_wanted.connect(said.append)
    view.new_chat.changed.connect(said.append)
    return said


def test_showing_says_nothing(qtbot, view, heard, wear):
    view.appearance.show_appearance(
        AppSettings(theme="dark", text_zoom=1.4, show_drafted=True, notify=False)
    )
    view.new_chat.show_settings(FULL)
    wear("dark", 1.4)
    qtbot.wait(350)
    assert heard == []
    assert find(view, QToolButton, "Theme: Dark").isChecked()
    assert find(view, QLabel, "Text size 140 %").text() == "140 %"


def test_appearance(view, heard):
    find(view, QToolButton, "Theme: Dark").click()
    find(view, Tick, "Notify me when a long answer finishes in the background").click()
    QTest.keyClicks(find(view, DropDown, "Language"), "Deu")
    find(view, QPushButton, "Larger text").click()
    find(view, QPushButton, "Normal text size").click()
    assert heard == [
        AppSettings(theme="dark"),
        AppSettings(theme="dark", notify=False),
        AppSettings(theme="dark", notify=False, language="de"),
        1,
        0,
    ]


def test_what_new_chats_begin_with(qtbot, view, heard):
    reset = next(b for b in view.findChildren(QPushButton) if "Restore Defaults" in b.text())
    assert not reset.isEnabled()
    find(view, QPlainTextEdit, "System prompt of new chats").setPlainText("Be kind.")
    qtbot.waitUntil(lambda: bool(heard))
    find(view, QToolButton, "Thinking: Off").click()
    assert heard[-1] == ChatSettings(system="Be kind.", thinking=False)
    reset.click()
    assert heard[-1] == ChatSettings()
    assert find(view, QPlainTextEdit, "System prompt of new chats").toPlainText() == ""


def test_a_ticked_box_is_painted_in_both_schemes(qtbot, theme):
    tick = Tick("Words")
    qtbot.addWidget(tick)
    plain = tick.grab().toImage()
    tick.setChecked(True)
    assert tick.grab().toImage() != plain


def test_what_is_kept_of_chats_in_files(view):
    said = []
    view.models.changed.connect(said.append)
    QTest.keyClicks(find(view, DropDown, "Keep chats ready on disk"), "Not")
    assert said == [AppSettings(prompt_files_gb=0)]


def test_all_that_is_kept_of_chats_can_be_deleted(view):
    said = []
    view.models.forget_wanted.connect(lambda: said.append("forget"))
    button = find(view, QPushButton, "Delete everything stored of chats")
    view.models.show_kept(0)
    assert not button.isEnabled()
    view.models.show_kept(1_200_000_000)
    assert any("1.2 GB" in text for text in words_on(view))
    button.click()
    assert said == ["forget"]


def test_a_slider_can_be_moved_where_nothing_is_recommended(view):
    sliders = view.findChildren(Slider)
    assert sliders and all(slider.isEnabled() for slider in sliders)


def test_no_part_is_squeezed_while_the_next_ones_are_made(qtbot):
    view = SettingsView()
    qtbot.addWidget(view)
    view.resize(560, 300)
    view.show()
    made: list[bool] = []
    view.made.connect(lambda: made.append(True))
    while not made:
        QApplication.processEvents()
        for part in (view.appearance, view.models):
            assert part.isHidden() or part.height() >= part.minimumSizeHint().height()
