"""The settings page shows what holds and changes what the user changes, nothing else."""

from dataclasses import replace

import pytest
from panel_driving import type_into
from PySide6.QtCore import QObject, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QTabBar,
)
from seen import find, press, words_on

from app.state.server import ServerState
from app.state.tools import Tools
from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.controls.choices import DropDown, Tick
from app.window.controls.numbers import Slider
from app.window.settings_view import SettingsView
from mlx_engine.service.engine_thread import EngineThread

PANES = ("general", "appearance", "models", "drafting", "tools", "server", "advanced")


class Settings(QObject):
    """Stands in for the settings that are kept in a file."""

    changed = Signal()

    def __init__(self):
        super().__init__()
        self.value, self.stored = AppSettings(), 0

    def change(self, value):
        if value != self.value:
            self.value = value
            self.changed.emit()


@pytest.fixture
def settings():
    return Settings()


@pytest.fixture
def view(qtbot, settings):
    made = SettingsView()
    qtbot.addWidget(made)
    server = ServerState(EngineThread(), settings, settings)
    stored = (lambda: settings.stored, lambda: setattr(settings, "stored", 0))
    made.watch(settings, server, *stored, Tools())
    made.show()
    return made


def test_showing_changes_nothing(qtbot, view, settings, wear):
    chat = ChatSettings(system="Be brief.", sampling=SamplingChoice(0.3), thinking=True)
    given = AppSettings(theme="dark", text_zoom=1.4, notify=False, new_chat=chat)
    settings.change(given)
    for pane in PANES:
        view.show_pane(pane)
    wear("dark", 1.4)
    qtbot.wait(350)
    assert settings.value == given
    assert find(view, QPushButton, "Theme: Dark").isChecked()
    assert find(view, QLabel, "Text size 140%").text() == "140%"


def test_no_name_of_a_pane_is_cut_where_a_row_of_them_has_no_room(qtbot, view):
    bar, names = view.findChild(QTabBar), find(view, DropDown, "Settings")
    view.resize(1000, 500)
    bar.setFocus()
    assert bar.isVisible() and bar.width() >= bar.sizeHint().width() and not names.isVisible()
    view.resize(bar.sizeHint().width(), 500)
    assert names.isVisible() and not bar.isVisible() and view.focusProxy() is names
    QTest.keyClicks(names, "Serv")
    assert any("OpenAI" in words for words in words_on(view))
    view.resize(1000, 500)
    assert bar.isVisible() and bar.tabText(bar.currentIndex()) == "Server"


def test_general_and_appearance(view, settings):
    find(view, Tick, "Notify me when a long answer finishes in the background").click()
    QTest.keyClicks(find(view, DropDown, "Language"), "Deu")
    view.show_pane("appearance")
    press(view, "Theme: Dark")
    find(view, QPushButton, "Larger text").click()
    assert settings.value == AppSettings(notify=False, language="de", theme="dark", text_zoom=1.1)
    find(view, QPushButton, "Default text size").click()
    assert settings.value.text_zoom == 1


def test_what_new_chats_begin_with(qtbot, view, settings):
    system = find(view, QPlainTextEdit, "System prompt of new chats")
    system.setPlainText("Be kind.")
    view.show_pane("advanced")
    reset = next(b for b in view.findChildren(QPushButton) if "Restore Defaults" in b.text())
    qtbot.waitUntil(lambda: settings.value.new_chat.system == "Be kind.")
    assert not reset.isEnabled(), "words of the user are no default to go back to"
    find(view, QDoubleSpinBox, "Temperature").setValue(0.2)
    qtbot.waitUntil(lambda: settings.value.new_chat.sampling.temperature == 0.2)
    reset.click()
    assert settings.value == replace(AppSettings(), new_chat=ChatSettings(system="Be kind."))
    assert system.toPlainText() == "Be kind."
    assert find(view, QDoubleSpinBox, "Temperature").text() == "default"
    assert not reset.isEnabled()


def test_what_is_typed_wrong_stays_while_other_settings_change(view, settings, qtbot):
    view.show_pane("advanced")
    type_into(qtbot, view, "Seed", "many")
    settings.change(replace(settings.value, theme="dark"))
    assert find(view, QLineEdit, "Seed").text() == "many"


def test_a_ticked_box_is_painted_in_both_schemes(qtbot, theme):
    tick = Tick("Words")
    qtbot.addWidget(tick)
    plain = tick.grab().toImage()
    tick.setChecked(True)
    assert tick.grab().toImage() != plain


def test_what_is_kept_of_chats_in_files(view, settings):
    settings.stored = 1_200_000_000
    view.show_pane("models")
    QTest.keyClicks(find(view, DropDown, "Keep chats ready on disk"), "Off")
    assert settings.value == AppSettings(prompt_files_gb=0)
    assert any("1.2 GB" in text for text in words_on(view))
    delete = find(view, QPushButton, "Delete everything stored of chats")
    delete.click()
    assert settings.stored == 0 and not delete.isEnabled()


def test_a_slider_can_be_moved_where_nothing_is_recommended(view):
    view.show_pane("advanced")
    sliders = view.findChildren(Slider)
    assert sliders and all(slider.isEnabled() for slider in sliders)
