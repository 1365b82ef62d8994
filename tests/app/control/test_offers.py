"""A chat that another model answered offers that model, and never loads it by itself."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from scripted_models import WorkerEngine, described
from windows import Driven, scripted


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def source(other):
    models = scripted()
    models.engines[str(other)] = WorkerEngine([], described("Other-8B", 9_000_000))
    return models


def load(driven: Driven, path: Path | None) -> None:
    driven.app.models.load(None if path is None else str(path))
    driven.until(lambda: driven.app.models.loading is None)


def said(driven: Driven) -> str:
    return driven.widgets.transcript.offer.words()


def test_the_model_of_a_chat_is_offered_and_loaded_on_demand(driven, source, other, qtbot):
    load(driven, other)
    driven.ask("One")
    first = driven.app.chat.chat_id or 0
    assert driven.app.chat.settings.model_path == str(other)
    assert said(driven) == ""
    load(driven, None)
    assert said(driven) == "This chat was answered by Other-8B."
    driven.app.chats.begin()
    assert said(driven) == ""
    driven.app.chat.open(first)
    assert source.loaded == ["None", str(other), "None"], "nothing loads by itself"
    button = driven.widgets.transcript.offer.take
    assert button.text() == "Load Other-8B"
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert said(driven) == ""
    driven.until(lambda: driven.app.models.model_name == "Other-8B")
    assert said(driven) == ""


def test_the_built_in_model_is_offered_too(driven, other):
    driven.ask("One")
    load(driven, other)
    assert driven.widgets.transcript.offer.take.text() == "Load Pocket model"
    driven.ask("Two")
    assert said(driven) == "", "now it is a chat of the model in use"


def test_a_model_that_is_gone_is_said_so(driven, other):
    load(driven, other)
    driven.ask("One")
    load(driven, None)
    other.unlink()
    driven.app.chat.open(driven.app.chat.chat_id or 0)
    assert f"Other-8B, which is no longer at {other}." in said(driven)
    assert not driven.widgets.transcript.offer.take.isVisible()


def test_no_other_model_goes_on_where_none_is_in_use(driven, other):
    load(driven, other)
    driven.ask("One")
    other.unlink()
    driven.app.models.forget(str(other))
    driven.until(lambda: "no longer at" in said(driven))
    assert driven.app.models.in_use is None
    assert "in use" not in said(driven)


def test_a_chat_from_a_file_names_no_place_and_offers_nothing(driven, other, tmp_path):
    load(driven, other)
    driven.ask("One")
    first = driven.app.chat.chat_id or 0
    driven.app.files.export_to(first, tmp_path / "chat.json")
    load(driven, None)
    driven.app.files.import_from(tmp_path / "chat.json")
    driven.until(lambda: driven.app.chat.chat_id != first)
    assert driven.app.chat.last_answer is not None
    assert said(driven) == ""
