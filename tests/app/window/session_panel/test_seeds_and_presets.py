"""Seeds and presets in the session panel."""

from dataclasses import replace

from panel_driving import CAN, FULL, choose, type_into
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton, QToolButton
from seen import find, words_on

from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.controls.choices import DropDown, Segments
from app.window.session_panel.sampling_group import ArgumentFields

LOCKED = "The seed is locked. Click to use another one for every answer"
UNLOCKED = "Lock the seed of the last answer, so that answers can be repeated"


def test_the_lock_takes_the_last_seed_and_lets_it_go(panel, heard):
    panel.sampling.seed.show_last(816233)
    find(panel, QToolButton, UNLOCKED).click()
    find(panel, QToolButton, LOCKED).click()
    assert [sampling.seed for _, sampling in heard] == [816233, None]


def test_the_models_recommendation_keeps_a_locked_seed(panel, heard):
    panel.owner.give(panel, FULL)
    button = next(b for b in panel.findChildren(QPushButton) if "Model Defaults" in b.text())
    button.click()
    assert heard == [("sampling", SamplingChoice(seed=99))]
    assert not button.isEnabled()


def test_presets(qtbot, panel, heard):
    panel.presets.show_presets(["Code", "Prose"])
    delete = find(panel, QToolButton, "Delete this preset")
    assert not delete.isEnabled()
    choose(qtbot, find(panel, DropDown, "Preset"), "Prose")
    delete.click()
    type_into(qtbot, panel, "Name of a new preset", "  Mine ")
    type_into(qtbot, panel, "Name of a new preset", "   ")
    next(b for b in panel.findChildren(QPushButton) if "Defaults" in b.text()).click()
    assert heard == [
        ("preset chosen", "Prose"),
        ("preset deleted", "Prose"),
        ("preset saved", "Mine"),
        "defaults wanted",
    ]


def test_renaming_a_preset_is_given_up_by_the_same_button(qtbot, panel, heard):
    panel.presets.show_presets(["Code", "Prose"], "Code")
    rename, left = find(panel, QToolButton, "Rename this preset"), Qt.MouseButton.LeftButton
    for _ in range(2):
        qtbot.mouseClick(rename, left)
    type_into(qtbot, panel, "Name of a new preset", "Mine")
    assert heard == [("preset saved", "Mine")]
    qtbot.mouseClick(rename, left)
    type_into(qtbot, panel, "Name of a new preset", "Other")
    assert heard[1:] == [("preset renamed", "Code", "Other")]
    assert not rename.isChecked()


def test_a_preset_stays_named_after_a_change_by_hand(panel, heard):
    panel.presets.show_presets(["Code", "Prose"], "Code", is_changed=True)
    choice = find(panel, DropDown, "Preset")
    assert choice.currentText() == "Code (changed)"
    assert choice.currentData() == "Code"
    save = next(b for b in panel.findChildren(QPushButton) if "Save Changes" in b.text())
    assert not save.isHidden()
    save.click()
    assert heard == [("preset saved", "Code")]
    panel.presets.show_presets(["Code", "Prose"], "Code")
    assert (choice.currentText(), save.isHidden()) == ("Code", True)


def test_thinking_is_offered_where_the_template_knows_it(panel, heard):
    switch = find(panel, Segments, "Thinking")
    assert switch.parent().isHidden()
    panel.show_model(None, replace(CAN, can_switch_thinking=True))
    assert not switch.parent().isHidden()
    find(panel, QPushButton, "Thinking: Off").click()
    find(panel, QPushButton, "Thinking: Model default").click()
    assert heard == [("thinking", False), ("thinking", None)]
    panel.owner.give(panel, ChatSettings(thinking=True))
    assert find(panel, QPushButton, "Thinking: On").isChecked()


def test_a_template_is_given_what_it_asks_for_by_name(qtbot, panel, heard):
    template = panel.findChild(ArgumentFields)
    assert template.isHidden()
    asks = replace(CAN, template_arguments=("preserve_thinking", "reasoning_effort"))
    panel.show_model(None, asks)
    assert not template.isHidden()
    type_into(qtbot, panel, "preserve_thinking", "true")
    type_into(qtbot, panel, "reasoning_effort", "low")
    type_into(qtbot, panel, "preserve_thinking", "")
    assert [given for _, given in heard] == [
        {"preserve_thinking": True},
        {"preserve_thinking": True, "reasoning_effort": "low"},
        {"reasoning_effort": "low"},
    ]
    assert {name for name, _ in heard} == {"template_arguments"}


def test_a_value_no_template_can_be_given_is_told_beside_it(qtbot, panel, heard):
    panel.show_model(None, replace(CAN, template_arguments=("reasoning_effort",)))
    type_into(qtbot, panel, "reasoning_effort", "[1, 2]")
    assert heard == []
    assert "“[1, 2]” is not possible" in " ".join(words_on(panel))
    assert find(panel, QLineEdit, "reasoning_effort").text() == "[1, 2]"


def test_what_another_models_template_asks_for_stays(qtbot, panel, heard):
    given = {"date_string": "1 May", "reasoning_effort": "2"}
    panel.owner.give(panel, ChatSettings(template_arguments=given))
    panel.show_model(None, replace(CAN, template_arguments=("reasoning_effort",)))
    assert find(panel, QLineEdit, "date_string").text() == "1 May"
    assert "does not have this setting" in find(panel, QLineEdit, "date_string").toolTip()
    assert find(panel, QLineEdit, "reasoning_effort").text() == '"2"'
    type_into(qtbot, panel, "reasoning_effort", "high")
    assert heard == [("template_arguments", given | {"reasoning_effort": "high"})]
    panel.owner.give(panel, ChatSettings())
    assert find(panel, QLineEdit, "date_string").parent().isHidden()
    assert not find(panel, QLineEdit, "reasoning_effort").parent().isHidden()
