"""Settings of the app reach new chats only; figures of a chat are there again after a restart."""

from dataclasses import replace

import pytest
from panel_driving import type_into
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QTabBar,
    QToolButton,
    QWidget,
)
from scripted_engine import Answer
from seen import button, find, press, words_on
from windows import running, scripted

from app.state.round_history import LastAnswer
from app.values.app_settings import ModelSettings
from app.values.chat_settings import SamplingChoice
from app.window.controls.choices import DropDown
from app.window.drafting_view import summary
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.options import CacheOptions

WORDS = "one two three four five six seven eight nine ten eleven twelve"


def test_settings_open_a_page_and_reach_new_chats(driven, source, qtbot):
    source.engines["None"].answers.extend([Answer(WORDS)])
    app, widgets = driven.app, driven.widgets
    driven.ask("Count.")
    mine = app.chat.settings
    driven.app.actions["settings"].trigger()
    assert widgets.window.page == "settings"
    view = widgets.settings
    find(view, QPlainTextEdit, "System prompt of new chats").setPlainText("Be kind.")
    qtbot.waitUntil(lambda: app.settings.value.new_chat.system == "Be kind.")
    view.show_pane("drafting")
    find(view, QCheckBox, "Highlight drafted words").click()
    press(view, "Guess ahead: Custom")
    view.show_pane("appearance")
    press(view, "Theme: Dark")
    assert app.settings.value.theme == "dark"
    assert app.settings.value.show_drafted
    assert app.chat.settings == mine, "a chat that exists keeps its own"
    app.chats.begin()
    assert widgets.window.page == "chat"
    begun = app.chat.settings
    assert (begun.system, begun.draft.depth) == ("Be kind.", 3)
    assert begun.sampling == SamplingChoice(), "the model's own"


def test_a_pane_of_settings_is_made_when_it_is_opened(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        app, page, view = driven.app, driven.widgets.settings_page, driven.widgets.settings
        driven.widgets.window.activateWindow()
        driven.until(driven.widgets.window.isActiveWindow)
        assert "Language" not in [box.accessibleName() for box in view.findChildren(QComboBox)]
        app.settings.change(replace(app.settings.value, language="en"))
        driven.app.actions["settings"].trigger()
        assert find(view, QComboBox, "Language").currentText() == "English"
        names = []
        while len(names) < 99 and page.isAncestorOf(has_keys := QApplication.focusWidget()):
            names.append(has_keys.accessibleName())
            QTest.keyClick(has_keys, Qt.Key.Key_Tab)
        assert names[0] == "Settings"
        assert "Language" in names
        made = page.findChildren(QWidget)
        driven.widgets.window.show_page("chat")
        driven.app.actions["settings"].trigger()
        assert page.findChildren(QWidget) == made
        app.settings.change(replace(app.settings.value, idle_minutes=15))
        bar = view.findChild(QTabBar)
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(2).center())
        assert find(view, QComboBox, "Unload an idle model").currentText() == "After 15 minutes"


def test_what_a_chat_gives_its_template_is_kept_and_given(qapp, qtbot, tmp_path):
    models = scripted()
    engine = models.engines["None"]
    asked = ("enable_thinking", "reasoning_effort")
    engine.description = replace(engine.description, template_arguments=asked)
    with running(qapp, qtbot, tmp_path, models) as driven:
        panel = driven.widgets.session
        names = {edit.accessibleName() for edit in panel.findChildren(QLineEdit)}
        assert "reasoning_effort" in names and "enable_thinking" not in names
        type_into(qtbot, panel, "reasoning_effort", "low")
        driven.ask("Why?")
        assert engine.sessions[-1].template_arguments == {"reasoning_effort": "low"}
        driven.app.chats.begin()
        assert find(panel, QLineEdit, "reasoning_effort").text() == "", "of that chat only"
    with running(qapp, qtbot, tmp_path, models) as driven:
        driven.app.chat.open(1)
        assert driven.app.chat.settings.template_arguments == {"reasoning_effort": "low"}
        assert find(driven.widgets.session, QLineEdit, "reasoning_effort").text() == "low"


def test_what_was_typed_last_is_kept_when_a_shortcut_leaves_the_chat(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        app, panel = driven.app, driven.widgets.session
        driven.widgets.window.activateWindow()
        qtbot.waitUntil(driven.widgets.window.isActiveWindow)
        driven.ask("Why?")
        system = find(panel, QPlainTextEdit, "System prompt")
        system.setFocus()
        QTest.keyClicks(system, "Be kind.")
        driven.app.actions["new-chat"].trigger()
        assert app.chat.settings.system == system.toPlainText() == ""
        app.chat.open(1)
        assert app.chat.settings.system == system.toPlainText() == "Be kind."
        system.setFocus()
        QTest.keyClicks(system, "Or not. ")
        app.actions["new-chat"].trigger()
        app.chat.open(1)
        system.setFocus()
        QTest.keyClicks(system, "Now ")
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        driven.app.chat.open(1)
        assert driven.app.chat.settings.system == "Now Or not. Be kind."


def test_the_memory_of_a_model_is_told_in_the_bits_it_was_loaded_with(qapp, qtbot, tmp_path):
    models = scripted(Answer(WORDS))
    engine = models.engines["None"]
    engine.description = replace(engine.description, trunk_cache=CacheBytes(2, 10_000, 200))
    with running(qapp, qtbot, tmp_path, models) as driven:
        panel = driven.widgets.session

        def cache() -> str:
            texts = (label.text() for label in panel.findChildren(QLabel))
            (words,) = [text for text in texts if " chat + " in text or " chat)" in text]
            return words.partition(" model + ")[2].split(" chat")[0]

        assert cache() == "81.9 MB"
        driven.app.models.load(None, own=ModelSettings(cache=CacheOptions(4)))
        driven.until(lambda: driven.app.models.loading is None)
        assert cache() == "23.8 MB"


def test_saving_a_preset_leaves_what_is_typed_wrong_elsewhere(driven, qtbot):
    panel = driven.widgets.session
    type_into(qtbot, panel, "Seed", "many")
    type_into(qtbot, panel, "Name of a new preset", "Mine")
    assert driven.app.settings.value.presets
    assert find(panel, QLineEdit, "Seed").text() == "many"
    driven.app.chats.begin()
    assert find(panel, QLineEdit, "Seed").text() == "", "of that chat only"


def test_what_settings_brought_is_measured_in_answers(driven, source, qtbot):
    source.engines["None"].answers.extend([Answer(WORDS * 4), Answer(WORDS * 4)])
    panel = driven.widgets.session
    driven.ask("Count.")
    type_into(qtbot, panel, "Minimum certainty", "0.25")
    driven.ask("Count again.")
    told = next(text for text in words_on(panel) if "tok/s (off)" in text)
    assert "tok/s (0.25)" in told
    assert any("all tokens" in text for text in words_on(panel))


def test_a_preset_follows_its_chat(driven, source, qtbot):
    source.engines["None"].answers.extend([Answer(WORDS)])
    panel, chats = driven.widgets.session, driven.app.chat
    driven.ask("Count.")
    number = chats.chat_id
    assert number is not None
    panel.presets.presets.save("Mine")
    assert chats.settings.preset == "Mine"
    type_into(qtbot, panel, "Temperature", "0.1")
    save = next(b for b in panel.findChildren(QPushButton) if "Save Changes" in b.text())
    assert not save.isHidden()
    driven.app.chats.begin()
    assert save.isHidden(), "another chat knows nothing of it"
    chats.open(number)
    assert not save.isHidden()
    save.click()
    assert save.isHidden()
    assert driven.app.settings.value.presets["Mine"].sampling.temperature == 0.1


def test_a_preset_is_renamed_in_all_chats_and_deleted_with_an_undo(driven, source, qtbot):
    source.engines["None"].answers.extend([Answer(WORDS), Answer(WORDS)])
    panel, chats, left = driven.widgets.session, driven.app.chat, Qt.MouseButton.LeftButton
    choice = find(panel, DropDown, "Preset")

    def press(name: str) -> None:
        qtbot.mouseClick(find(panel, QToolButton, name), left)

    def names() -> list[str]:
        return [choice.itemText(place) for place in range(choice.count())]

    driven.ask("Count.")
    first = chats.chat_id
    assert first is not None
    for name in ("Mine", "Yours"):
        type_into(qtbot, panel, "Name of a new preset", name)
    chats.change_settings(replace(chats.settings, preset="Mine"))
    driven.app.chats.begin()
    driven.ask("Count again.")
    chats.change_settings(replace(chats.settings, preset="Mine"))
    press("Rename this preset")
    field = find(panel, QLineEdit, "Name of a new preset")
    assert field.selectedText() == "Mine"
    qtbot.keyClicks(field, "Yours")
    save = button(panel, "Rename")
    assert not save.isEnabled()
    assert "Another preset has this name" in save.toolTip()
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert names() == ["Mine", "Yours"]
    qtbot.keyClicks(field, " too")
    qtbot.mouseClick(save, left)
    assert names() == ["Yours too", "Yours"], "in its place"
    assert (choice.currentText(), field.text()) == ("Yours too", "")
    chats.open(first)
    assert choice.currentText() == "Yours too", "another chat that began with it"
    press("Delete this preset")
    assert (names(), choice.currentText()) == (["Yours"], "")
    assert not panel.presets.undo.isHidden()
    qtbot.mouseClick(panel.presets.undo.findChildren(QPushButton)[0], left)
    assert choice.currentText() == "Yours too", "it is this chat's again"
    assert set(driven.app.settings.value.presets) == {"Yours", "Yours too"}


@pytest.mark.parametrize("way", ["Save Changes", "Replace"])
def test_a_preset_that_is_replaced_comes_back_with_an_undo(driven, qtbot, way):
    panel = driven.widgets.session
    undo = panel.presets.undo
    type_into(qtbot, panel, "Name of a new preset", "Mine")
    type_into(qtbot, panel, "Name of a new preset", "Mine")
    assert undo.isHidden(), "nothing was lost"
    type_into(qtbot, panel, "Temperature", "0.1")
    if way == "Replace":
        qtbot.keyClicks(find(panel, QLineEdit, "Name of a new preset"), "Mine")
    next(b for b in panel.findChildren(QPushButton) if b.text().startswith(way)).click()
    assert driven.app.settings.value.presets["Mine"].sampling.temperature == 0.1
    assert not undo.isHidden()
    assert "“Mine” is replaced." in words_on(undo)
    undo.findChildren(QPushButton)[0].click()
    assert driven.app.settings.value.presets["Mine"].sampling.temperature is None
    assert driven.app.chat.settings.sampling.temperature == 0.1, "the chat keeps its own"


def test_figures_outlive_the_program(qapp, qtbot, tmp_path):
    with running(qapp, qtbot, tmp_path, scripted(Answer(WORDS))) as driven:
        driven.ask("Count.")
        before = driven.app.figures.history
        assert isinstance(before.state, LastAnswer)
        assert before.drafted
        assert " now" not in summary(before)
    with running(qapp, qtbot, tmp_path, scripted(Answer(WORDS))) as driven:
        after = driven.app.figures.history
        assert after is not before
        assert after.depths == before.depths
        assert after.tokens_per_pass == before.tokens_per_pass
        assert after.stages.total_ms == pytest.approx(before.stages.total_ms)
        assert after.state == before.state
        driven.ask("Again.")
        assert after.drafted > before.drafted
