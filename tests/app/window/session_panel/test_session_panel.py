"""The panel shows what it is given without a word, and says only what the user changed."""

import dataclasses
from typing import get_args

import pytest
from panel_driving import CAN, CANNOT, FULL, WHY, Figures, Owner, choose, field_of, type_into
from PySide6.QtCore import QMimeData, QPoint, Qt, QTimer
from PySide6.QtWidgets import (
    QApplication,
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
)
from scripted_engine import DESCRIPTION, NO_HEADS
from seen import find, words_on
from shown_transcript import settle

from app.library.machine import Machine
from app.library.model_card import make_card
from app.state.round_history import DraftingNow, LastAnswer, SpeedBySetting
from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.controls.choices import DropDown, Segments
from app.window.controls.fields import SETTLED_MS
from app.window.controls.labels import ShortLabel
from app.window.controls.layouts import Group
from app.window.controls.numbers import Slider
from app.window.session_panel.abilities import SourceAbility, abilities
from app.window.session_panel.draft_group import WHAT_OUTPUT_DOES, WHAT_PROBABILITY_DOES
from app.window.session_panel.session_panel import SessionPanel
from app.window.session_panel.tools_group import FormatField
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import (
    MAX_DEPTH,
    DraftOptions,
    DraftSourceName,
    GenerationOptions,
    LoadOptions,
)
from mlx_engine.values.stats import RoundStats

AUTO = "Auto: guesses ahead where it helps."


def test_showing_settings_says_nothing(qtbot, panel, heard, wear):
    for settings in (FULL, ChatSettings(), FULL):
        panel.owner.give(panel, settings)
    panel.show_model(None, CANNOT)
    Figures(panel).tell(DraftingNow(2))
    panel.presets.show_presets(["Code", "Prose"], "Prose")
    panel.sampling.seed.show_last(5)
    wear("dark", 1.4)
    qtbot.wait(350)
    assert heard == []


def test_what_is_shown_is_what_was_given(panel):
    panel.owner.give(panel, FULL)
    texts = {w.accessibleName(): w.text() for w in panel.findChildren(QLineEdit)}
    assert texts["Top p"] == "0.9"
    assert texts["Temperature"] == "0.3"
    assert texts["Top k"] == "40"
    assert texts["Frequency penalty"] == "-0.3"
    assert texts["Seed"] == "99"
    assert texts["Max tokens"] == "200"
    assert texts["Minimum certainty"] == "0.25"
    areas = {w.accessibleName(): w.toPlainText() for w in panel.findChildren(QPlainTextEdit)}
    assert areas["Stop strings"] == "END\n\\n\\n"
    assert areas["System prompt"] == "Be brief."


def test_one_change_changes_one_thing(qtbot, panel, heard):
    panel.owner.give(panel, FULL)
    type_into(qtbot, panel, "Top p", "0.5")
    (name, sampling), *rest = heard
    assert name == "sampling"
    assert sampling.top_p == 0.5
    assert sampling.frequency_penalty == -0.3
    assert sampling.seed == 99
    assert not rest


def test_the_format_of_answers_leaves_the_other_limits(qtbot, panel):
    type_into(qtbot, panel, "Max tokens", "400")
    settle_format(panel, "[0-9]+")
    type_into(qtbot, panel, "Max tokens", "30")
    settle_format(panel, "")
    assert panel.owner.settings.generation == GenerationOptions(30)


def settle_format(panel, text):
    field = panel.findChild(FormatField)
    field.findChild(QPlainTextEdit).setPlainText(text)
    field.settle()


def test_an_empty_field_is_no_choice_or_no_limit(qtbot, panel, heard):
    panel.owner.give(panel, FULL)
    type_into(qtbot, panel, "Top p", "1")
    type_into(qtbot, panel, "Top p", "")
    type_into(qtbot, panel, "Max tokens", "")
    assert [sampling.top_p for _, sampling in heard[:2]] == [1.0, None]
    assert heard[2] == ("generation", GenerationOptions(None, ("END", "\n\n")))


@pytest.mark.parametrize(
    ("field", "text", "number"),
    [
        ("Temperature", "11", None),
        ("Temperature", "hot", None),
        ("Temperature", "nan", None),
        ("Top k", "1.5", None),
        ("Top k", "1e9", None),
        ("Max tokens", "99999999999", None),
        ("Max tokens", "1,024", 1024),
        ("Max tokens", "32.768", 32768),
        ("Max tokens", "0", None),
        ("Minimum certainty", "2", None),
    ],
)
def test_no_number_out_of_range_is_taken(qtbot, panel, heard, field, text, number):
    type_into(qtbot, panel, field, text)
    numbers = {
        "Temperature": lambda: panel.owner.settings.sampling.temperature,
        "Top k": lambda: panel.owner.settings.sampling.top_k,
        "Max tokens": lambda: panel.owner.settings.generation.max_tokens,
        "Minimum certainty": lambda: panel.owner.settings.draft.min_probability or None,
    }
    assert numbers[field]() == number, heard
    said = any("Use a number from" in shown for shown in words_on(panel))
    assert said == (number is None), "the range is told where the text was not taken"


def test_a_number_too_large_stays_as_typed_until_the_field_is_left(qtbot, panel, heard):
    type_into(qtbot, panel, "Top k", "7")
    field = field_of(panel, "Top k")
    field.selectAll()
    qtbot.keyClicks(field, "99999999")
    assert field.text() == "99999999" and field.property("bad")
    qtbot.wait(2 * SETTLED_MS)
    assert panel.owner.settings.sampling.top_k == 7, "not what it was on the way there"
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.text() == "7"
    assert any("from 0 to 1" in shown for shown in words_on(panel))
    assert not field.property("bad"), "what stands there now is good"
    (passing,) = (timer for timer in field.parent().findChildren(QTimer) if timer.isActive())
    passing.timeout.emit()
    assert not any("Use a number from" in shown for shown in words_on(panel))
    field.selectAll()
    qtbot.keyClicks(field, "99999999\r")
    assert any("from 0 to 1" in shown for shown in words_on(panel))
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert not any("Use a number from" in shown for shown in words_on(panel))
    type_into(qtbot, panel, "Top k", "8")
    assert not any("Use a number from" in shown for shown in words_on(panel))


@pytest.mark.parametrize("text", ["-1", "x", "18446744073709551616"])
def test_a_wrong_seed_is_said_and_not_taken(qtbot, panel, heard, text):
    type_into(qtbot, panel, "Seed", text)
    assert heard == []
    assert any("whole number from 0" in shown for shown in words_on(panel))
    type_into(qtbot, panel, "Top k", "5")
    panel.owner.change(dataclasses.replace(panel.owner.settings, preset="Mine"))
    assert field_of(panel, "Seed").text() == text, "it stays while other settings change"
    panel.owner.give(panel, ChatSettings())
    assert not any("whole number from 0" in shown for shown in words_on(panel))


def test_arrows_step(qtbot, panel, heard):
    temperature = field_of(panel, "Temperature")
    for _ in range(3):
        qtbot.keyClick(temperature, Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: bool(heard))
    qtbot.keyClick(field_of(panel, "Top k"), Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: len(heard) == 2)
    assert heard[-1][1] == SamplingChoice(0.75, 21), "from what the model recommends"


def test_numbers_are_written_as_the_language_does(qtbot, speaking):
    speaking("de")
    panel = SessionPanel()
    qtbot.addWidget(panel)
    owner = Owner(panel)
    panel.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    owner.give(panel, ChatSettings(sampling=SamplingChoice(0.7)))
    temperature = field_of(panel, "Temperatur")
    qtbot.keyClick(temperature, Qt.Key.Key_Up)
    assert temperature.text() == "0,75"
    for typed in ("0,8", "0.9"):
        type_into(qtbot, panel, "Temperatur", typed)
        assert owner.settings.sampling.temperature == float(typed.replace(",", "."))
        assert temperature.text() == typed.replace(".", ",")


def test_what_the_model_recommends_is_shown_where_nothing_was_chosen(panel):
    panel.owner.give(panel, ChatSettings(sampling=SamplingChoice(top_k=0)))
    shown = {
        name: (field.text(), field.property("unset"))
        for name in ("Temperature", "Top k", "Top p")
        for field in [field_of(panel, name)]
    }
    assert shown == {"Temperature": ("0.6", True), "Top k": ("off", False), "Top p": ("off", True)}


def test_a_number_has_room_for_its_figures(panel, wear):
    wear("light", 1.0)
    panel.resize(288, 900)
    settle()
    for field in panel.findChildren(QDoubleSpinBox):
        needed = field.fontMetrics().horizontalAdvance(field.text())
        assert field.lineEdit().width() > needed or not field.isVisible()


def test_a_number_takes_the_keys_by_click_and_tab(qtbot, panel):
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    temperature, top_k = field_of(panel, "Temperature"), field_of(panel, "Top k")
    qtbot.mouseClick(temperature.lineEdit(), Qt.MouseButton.LeftButton)
    assert QApplication.focusWidget() is temperature
    qtbot.keyClick(temperature, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is top_k


def test_typing_settles_without_return(qtbot, panel):
    field = field_of(panel, "Temperature")
    field.selectAll()
    qtbot.keyClicks(field, "0.15")
    qtbot.waitUntil(lambda: panel.owner.settings.sampling.temperature == 0.15)
    assert field.text() == "0.15"


def test_the_system_prompt_settles_and_leaving_is_enough(qtbot, panel, heard):
    editor = find(panel, QPlainTextEdit, "System prompt")
    editor.setPlainText("Be kind.")
    qtbot.waitUntil(lambda: heard == [("system", "Be kind.")])
    panel.activateWindow()
    editor.setFocus()
    qtbot.keyClicks(editor, "!")
    qtbot.keyClick(editor, Qt.Key.Key_Tab)
    assert heard[-1] == ("system", "!Be kind.")


def test_a_paste_too_long_for_a_field_is_refused_in_words(panel):
    editor = find(panel, QPlainTextEdit, "System prompt")
    mime = QMimeData()
    mime.setText("x" * 2_000_000)
    editor.insertFromMimeData(mime)
    assert editor.toPlainText() == ""
    assert any("20,000 characters at most" in text for text in words_on(panel))


def test_text_of_one_chat_never_reaches_the_next(qtbot, panel, heard):
    find(panel, QPlainTextEdit, "System prompt").setPlainText("Half a sen")
    panel.owner.give(panel, ChatSettings(system="Another chat"))
    qtbot.wait(350)
    assert heard == []


def test_the_depth_is_automatic_off_or_a_number(panel, qtbot, heard):
    tokens = find(panel, QDoubleSpinBox, "Tokens ahead")
    assert not tokens.isVisible()
    find(panel, QPushButton, "Guess ahead: Custom").click()
    assert tokens.isVisible() and (tokens.minimum(), tokens.maximum()) == (1, MAX_DEPTH)
    type_into(qtbot, panel, "Tokens ahead", "5")
    find(panel, QPushButton, "Guess ahead: Off").click()
    assert not tokens.isVisible()
    find(panel, QPushButton, "Guess ahead: Auto").click()
    assert [options.depth for _, options in heard] == [3, 5, 0, "auto"]
    for depth, name in ((0, "Off"), (7, "Custom"), ("auto", "Auto")):
        panel.owner.give(panel, ChatSettings(draft=DraftOptions(depth=depth)))
        assert find(panel, QPushButton, f"Guess ahead: {name}").isChecked()
    assert tokens.value() == 7


def test_what_the_model_cannot_do_is_disabled_with_the_reason(panel):
    panel.show_model(None, CANNOT)
    panel.owner.give(panel, ChatSettings())
    controls = [
        find(panel, QPushButton, "Guess ahead: Auto"),
        find(panel, QPushButton, "Which token is guessed: Most likely"),
        field_of(panel, "Minimum certainty"),
    ]
    for control in controls:
        assert not control.isEnabled()
        assert control.toolTip() == WHY
    assert WHY in words_on(panel)
    assert find(panel, QLabel, "In effect").accessibleDescription() == f"Off: {WHY}"
    source = find(panel, DropDown, "Guesses come from")
    assert source.isEnabled(), "drafting can still be switched off"


def test_switching_the_source(qtbot, panel, heard):
    choose(qtbot, find(panel, DropDown, "Guesses come from"), "none")
    assert heard == [("draft", DraftOptions(source="none"))]
    assert not find(panel, QPushButton, "Guess ahead: Auto").isEnabled()


def test_the_output_head_is_chosen_where_mtp_heads_draft(qtbot, panel, heard):
    output = find(panel, DropDown, "Guess among")
    choose(qtbot, output, "4-bit")
    assert heard == [("draft", DraftOptions(output="4-bit"))]
    panel.owner.give(panel, ChatSettings(draft=DraftOptions("prompt-lookup")))
    assert not output.isVisibleTo(panel)


def test_sources_of_a_model(panel):
    plain = abilities(NO_HEADS)
    assert plain.source("mtp").why_not == NO_HEADS.mtp.words
    assert plain.source("prompt-lookup") == SourceAbility("prompt-lookup", MAX_DEPTH)
    assert plain.source("model").problem
    small = abilities(DESCRIPTION, LoadOptions(draft_model="org/small"))
    known = {ability.name for ability in small.sources}
    assert known == set(get_args(DraftSourceName)), "each source of the engine is known"
    assert all(not ability.problem for ability in small.sources)
    panel.show_model(None, plain)
    source = find(panel, DropDown, "Guesses come from")
    can_be_chosen = {
        source.itemData(row): bool(source.model().item(row).isEnabled())
        for row in range(source.count())
    }
    assert can_be_chosen == {name: "mtp" not in name for name in get_args(DraftSourceName)}


def test_a_draft_model_that_is_missing_is_said_where_it_is_the_source(panel):
    panel.draft.advanced.open(True)
    panel.show_model(None, abilities(DESCRIPTION))
    panel.owner.give(panel, ChatSettings(draft=DraftOptions("model")))
    assert (
        find(panel, QLabel, "In effect")
        .accessibleDescription()
        .startswith("Off: No draft model is chosen")
    )
    chosen = LoadOptions(draft_model="org/small")
    panel.show_model(None, abilities(DESCRIPTION, chosen))
    assert find(panel, QLabel, "In effect").accessibleDescription() == AUTO
    misfit = Reason("draft-model-misfit", "org/small is not there.")
    refused = dataclasses.replace(DESCRIPTION, declined=(misfit,))
    panel.show_model(None, abilities(refused, chosen))
    said = find(panel, QLabel, "In effect").accessibleDescription()
    assert said == "Off: org/small is not there."


def test_what_is_in_effect_is_as_high_as_its_letters_need_again(qtbot):
    words = ShortLabel(name="In effect")
    words.show_text("Off")
    qtbot.addWidget(words)
    words.show()
    heights = []
    for size in (13, 26, 13):
        words.setStyleSheet(f"font-size: {size}px")
        heights.append(words.sizeHint().height())
    assert heights[0] == heights[2] < heights[1]


def test_newcomers_see_what_is_in_effect_the_depth_and_three_sliders(panel):
    panel.fold_groups(AppSettings().folded_groups)
    drafting, sampling = panel.draft, panel.sampling

    def controls(group):
        kinds = (QDoubleSpinBox, QPlainTextEdit, DropDown, Segments, Slider)
        found = [w for kind in kinds for w in group.findChildren(kind)]
        return {w.accessibleName() for w in found if w.isVisibleTo(panel)}

    assert controls(drafting) == {"Guess ahead"}
    assert find(panel, QLabel, "In effect").isVisibleTo(panel)
    usual = {"Temperature", "Top k", "Top p"}
    assert controls(sampling) == usual | {f"{name}, slider" for name in usual}
    drafting.advanced.open(True)
    assert controls(drafting) > {"Guesses come from", "Minimum certainty", "Guess among"}
    assert "Advanced drafting" not in panel.folded_groups()


def test_a_slider_and_its_field_are_one_number(qtbot, panel, heard):
    panel.owner.give(panel, ChatSettings())
    slider = find(panel, Slider, "Temperature, slider")
    field = field_of(panel, "Temperature")
    assert (slider.value(), field.text()) == (12, "0.6"), "what the model recommends"
    slider.setValue(14)
    qtbot.waitUntil(lambda: bool(heard))
    assert [(name, value.temperature) for name, value in heard] == [("sampling", 0.7)]
    type_into(qtbot, panel, "Temperature", "9")
    assert (slider.value(), slider.maximum()) == (40, 40), "as far as it goes"
    assert heard[-1][1].temperature == 9
    shares = find(panel, Slider, "Top p, slider")
    shares.setValue(0)
    qtbot.waitUntil(lambda: heard[-1][1].top_p == 0)
    shares.setValue(shares.maximum())
    qtbot.waitUntil(lambda: heard[-1][1].top_p == 1)
    assert field_of(panel, "Top p").text() == "off"


def test_two_settings_say_what_they_do_and_what_that_brought_here(panel):
    assert field_of(panel, "Minimum certainty").accessibleDescription() == WHAT_PROBABILITY_DOES
    output = find(panel, DropDown, "Guess among")
    assert output.accessibleDescription() == f"{WHAT_OUTPUT_DOES}\nAs exact as the answer itself."
    fast, slow, few = (RoundStats(0, 2, 2, 1, 2, 4.0, ms, 0.0) for ms in (16.0, 36.0, 1.0))
    figures = Figures(panel)
    by_probability, by_output = figures.speeds_by_probability, figures.speeds_by_output
    by_probability.add("0", [slow] * 16)
    by_probability.add("0.25", [fast] * 16)
    by_probability.add("0.5", [few] * 15)
    by_output.add("full", [slow] * 16)
    by_output.add("4-bit", [fast] * 8)
    by_output.add("4-bit", [fast] * 8)
    figures.changed.emit()
    assert "Speed so far: 50.0 tok/s (off), 100.0 tok/s (0.25)." in words_on(panel)
    said = "Speed so far: 50.0 tok/s (all tokens), 100.0 tok/s (all tokens, less exact)."
    assert said in words_on(panel)
    figures.speeds_by_probability, figures.speeds_by_output = SpeedBySetting(), SpeedBySetting()
    figures.changed.emit()
    assert not any("Speed so far" in text for text in words_on(panel))


def test_what_is_in_effect_after_an_answer_has_room(panel, wear):
    wear("light", 1.0)
    panel.resize(288, 900)
    panel.show_model(None, CAN)
    Figures(panel).tell(LastAnswer(3, 9, 7))
    settle()
    words = find(panel, QLabel, "In effect")
    assert words.text() == "Auto: guesses ahead where it helps. Last answer: up to 3 tokens ahead."
    assert words.height() >= words.heightForWidth(words.width())


def test_nothing_moves_below_what_is_in_effect_whatever_that_is(panel, wear):
    wear("light", 1.0)
    figures = Figures(panel)
    panel.draft.advanced.open(False)
    panel.resize(288, 900)
    words, depth = find(panel, QLabel, "In effect"), find(panel, Segments, "Guess ahead")

    def place():
        settle()
        return depth.mapTo(panel, QPoint(0, 0)).y()

    before = place()
    parked = Reason(
        "parked-cost", "Drafting parked: a 2-row pass costs 1.74 of one pass here. " * 2
    )
    for state in (DraftingNow(None), DraftingNow(2), DraftingNow(0, parked), LastAnswer(3, 9, 7)):
        figures.tell(state)
        assert place() == before
    for zoom in (1.0, 1.5):
        wear("light", zoom)
        settle()
        before = place()
        figures.tell(DraftingNow(0, dataclasses.replace(parked, words=parked.words * 3)))
        assert place() == before
        assert words.height() >= words.heightForWidth(words.width())
        assert words.text().endswith("…")
        assert " ".join(words.toolTip().split()).startswith(words.text()[:-1].strip())
        figures.tell(None)


def test_how_weights_are_stored_does_not_widen_the_panel(panel, wear):
    wear("light", 1.0)
    words = (
        "Q4_K as 4-bit affine, groups of 32 + Q6_K as 8-bit affine, groups of 32 + kept as IQ4_XS"
    )
    words += " blocks (our kernel)"
    model = dataclasses.replace(
        DESCRIPTION, quantisation=words, template_arguments=("reasoning_effort",)
    )
    card = make_card(model, Machine(40 * 10**9))
    assert card.quantisation == "Q4_K + Q6_K + IQ4_XS"
    panel.show_model(card, dataclasses.replace(CAN, can_switch_thinking=True))
    for group in panel.findChildren(Group):
        group.open(True)
    panel.resize(288, 900)
    QApplication.processEvents()
    (area,) = panel.findChildren(QScrollArea)
    assert area.horizontalScrollBar().maximum() == 0
