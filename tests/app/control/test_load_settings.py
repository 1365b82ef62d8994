"""What is remembered of a model decides how it is loaded, at every start and under every chat."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDoubleSpinBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QPushButton,
)
from pytestqt.qtbot import QtBot
from scripted_engine import Answer
from scripted_models import WorkerEngine, described
from seen import button, find, press
from windows import Driven, running, scripted

from app.control.rest import RestController
from app.values.app_settings import ModelSettings, with_settings_of
from mlx_engine.built_in_model import built_in_model
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import CacheOptions, LoadOptions

SHORT = LoadOptions(context_length=4096)


@pytest.fixture
def source(model):
    made = scripted(*(Answer(f"Answer {n}.") for n in range(9)))
    description = replace(described("Other", 10**6), path=str(model))
    made.engines[str(model)] = WorkerEngine([Answer("Yes.")], description)
    return made


def offer(driven: Driven, path: Path | None) -> None:
    driven.app.offered.offer(None if path is None else str(path))
    driven.until(driven.widgets.card.load_fields.isVisible)


def load(driven: Driven) -> None:
    click_load(driven)
    driven.until(lambda: driven.app.models.loading is None)


def click_load(driven: Driven) -> None:
    def load_button() -> list[QPushButton]:
        buttons = driven.widgets.card.findChildren(QPushButton)
        return [button for button in buttons if button.text() == "Load" and button.isVisible()]

    driven.until(lambda: bool(load_button()))
    load_button()[0].click()


def context_field(driven: Driven) -> QDoubleSpinBox:
    return find(driven.widgets.card, QDoubleSpinBox, "Context length")


def type_context(driven: Driven, qtbot: QtBot, text: str) -> None:
    field = context_field(driven)
    field.selectAll()
    qtbot.keyClicks(field, text) if text else qtbot.keyClick(field, Qt.Key.Key_Delete)


def options(driven: Driven) -> LoadOptions | None:
    in_use = driven.app.models.in_use
    return in_use.options if in_use else None


def test_a_context_is_typed_on_the_card_and_holds_from_then_on(driven, source, model, qtbot):
    offer(driven, model)
    fields = driven.widgets.card.load_fields
    assert not fields.is_open, "nobody needs to see it"
    fields.open(True)
    type_context(driven, qtbot, "3")
    fields.settle()
    assert context_field(driven).text() == "maximum", "no chat is so short"
    type_context(driven, qtbot, "4096")
    load(driven)
    assert options(driven) == SHORT
    assert driven.ask("Does it stay?") == "Yes."
    assert source.loaded == ["None", str(model)], "the chat does not load it in its own way again"
    driven.app.models.load(None)
    driven.until(lambda: driven.app.models.model_name == "Pocket model")
    assert options(driven) == LoadOptions(), "it is remembered of one model"
    driven.app.models.load(str(model))
    driven.until(lambda: driven.app.models.model_name == "Other")
    assert options(driven) == SHORT
    offer(driven, model)
    assert fields.is_open
    assert context_field(driven).text() == "4096"


def test_what_is_changed_with_keys_leaves_them_where_they_are(driven, model, qtbot):
    offer(driven, model)
    driven.widgets.card.load_fields.open(True)
    context_field(driven).setFocus()
    type_context(driven, qtbot, "512")
    qtbot.keyClick(context_field(driven), Qt.Key.Key_Tab)
    offered = driven.app.offered
    driven.until(lambda: offered.facts is not None and "512" in offered.facts.memory.words)
    field = QApplication.focusWidget()
    assert field is not None and field.accessibleName() == "Drafting heads"


def test_it_is_remembered_over_a_restart(qapp, qtbot, tmp_path, source, model):
    with running(qapp, qtbot, tmp_path / "home", source) as first:
        offer(first, model)
        type_context(first, qtbot, "4096")
        load(first)
    with running(qapp, qtbot, tmp_path / "home", source) as again:
        assert again.app.models.model_name == "Other"
        assert options(again) == SHORT
        offer(again, model)
        type_context(again, qtbot, "")
        load(again)
        assert again.app.settings.value.models == {}, "as any other model"


def test_bits_of_keys_and_values_are_those_of_the_model(driven, source, model):
    offer(driven, model)
    driven.widgets.card.load_fields.open(True)
    press(driven.widgets.card, "Chat memory: 8-bit")
    load(driven)
    engine = source.engines[str(model)]
    assert driven.ask("In 8 bits?") == "Yes."
    assert engine.sessions[-1].cache == CacheOptions(8, 16)


def test_a_draft_model_is_named_on_the_card(driven, model, qtbot):
    offer(driven, model)
    driven.widgets.card.load_fields.open(True)
    field = find(driven.widgets.card, QLineEdit, "Draft model")
    qtbot.keyClicks(field, " org/small ")
    field.editingFinished.emit()
    load(driven)
    beside = LoadOptions(draft_model="org/small", draft_misfit="plain")
    assert options(driven) == beside
    offer(driven, model)
    choose_place(driven, "Draft model", "None")
    load(driven)
    assert options(driven) == LoadOptions()


def choose_place(driven: Driven, name: str, place: str) -> None:
    menu = button(driven.widgets.card, f"Choose: {name}").menu()
    next(action for action in menu.actions() if action.text() == place).trigger()


def test_a_way_that_does_not_work_is_not_remembered(driven, source, model, qtbot):
    source.broken[str(model)] = BadModelFile("other: the heads are of another model.")
    offer(driven, model)
    type_context(driven, qtbot, "4096")
    click_load(driven)
    driven.until(lambda: driven.app.models.loading is None)
    assert driven.app.settings.value.models == {}
    assert context_field(driven).text() == "4096", "it can be changed and tried again"


def test_heads_from_elsewhere_are_chosen_and_taken_back(driven, tmp_path, monkeypatch):
    heads = tmp_path / "mtp.safetensors"
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(heads), ""))
    offer(driven, None)
    fields = driven.widgets.card.load_fields
    fields.open(True)
    choose_place(driven, "Drafting heads", "File…")
    load(driven)
    assert options(driven) == LoadOptions(heads=heads)
    assert driven.ask("And now?") == "Answer 0."
    assert options(driven) == LoadOptions(heads=heads), "the chat leaves them"
    offer(driven, None)
    choose_place(driven, "Drafting heads", "Included with the model")
    load(driven)
    assert options(driven) == LoadOptions()


def test_a_model_that_is_to_stay_is_not_let_go(driven):
    settings = driven.app.settings
    settings.change(replace(settings.value, idle_minutes=5))
    (rest,) = driven.app.findChildren(RestController)
    assert rest.idle.isActive()
    offer(driven, None)
    keep = driven.widgets.card.load_fields.findChild(QCheckBox)
    assert keep is not None
    keep.click()
    load(driven)
    assert not rest.idle.isActive()


def test_the_card_reckons_with_what_is_typed(driven, qtbot):
    offer(driven, None)
    type_context(driven, qtbot, "2048")

    def said() -> str:
        labels = driven.widgets.card.facts.findChildren(QLabel)
        return " ".join(label.text() for label in labels).replace("\N{NO-BREAK SPACE}", " ")

    driven.until(lambda: "2,048 tokens" in said())
    assert driven.widgets.card.load_fields.isVisible(), "it is typed in on"
    assert driven.app.settings.value.models == {}, "only what was loaded is remembered"


def test_the_card_reckons_with_the_draft_model(driven):
    own = ModelSettings(LoadOptions(draft_model=built_in_model()))
    value = driven.app.settings.value
    driven.app.settings.change(with_settings_of(value, None, own))
    offer(driven, None)

    def said() -> str:
        labels = driven.widgets.card.facts.findChildren(QLabel)
        return " ".join(label.text() for label in labels)

    driven.until(lambda: "draft model" in said())


def test_heads_that_cannot_be_used_can_be_taken_back(driven, tmp_path, monkeypatch):
    heads = tmp_path / "mtp.safetensors"
    heads.write_bytes(b"damaged")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(heads), ""))
    offer(driven, None)
    card = driven.widgets.card
    choose_place(driven, "Drafting heads", "File…")
    driven.until(lambda: "Load" not in loads(driven))
    assert card.load_fields.isVisible()
    choose_place(driven, "Drafting heads", "Included with the model")
    driven.until(lambda: "Load" in loads(driven))
    load(driven)
    assert options(driven) == LoadOptions()


def loads(driven: Driven) -> list[str]:
    buttons = driven.widgets.card.findChildren(QPushButton)
    return [button.text() for button in buttons if button.isVisible()]
