"""App settings survive other versions, bad values, broken files and full or locked disks."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from chat_stores import without_rights

from app.state.settings import read_settings, save_settings
from app.values.app_settings import (
    LARGEST_ZOOM,
    RECENT_MODELS,
    SMALLEST_ZOOM,
    AppSettings,
    with_preset,
    with_recent_model,
    without_preset,
    zoomed,
)
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.errors import SettingsNotSaved
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DraftOptions

FULL = AppSettings(
    new_chat=ChatSettings(system="Be kind.", draft=DraftOptions(depth=2)),
    presets={"Exact ✓": ChatSettings(sampling=SamplingChoice(temperature=0.0))},
    theme="dark",
    text_zoom=1.3,
    show_drafted=True,
    recent_models=("/a", "org/b"),
    model_folders=(Path("/models"),),
    window_state=bytes(range(256)),
    last_chat=7,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "settings.json"


def test_they_come_back(path):
    assert read_settings(path).value == AppSettings()
    save_settings(path, FULL)
    assert read_settings(path).value == FULL and read_settings(path).notes == ()
    save_settings(path, AppSettings())
    assert read_settings(path).value == AppSettings()
    assert [file.name for file in path.parent.iterdir()] == ["settings.json"]


def test_keys_of_other_versions_stay(path):
    save_settings(path, FULL)
    content = json.loads(path.read_text())
    content["later"] = {"x": [1]}
    content["new_chat"]["draft"]["tree"] = True
    path.write_text(json.dumps(content))
    reading = read_settings(path)
    assert reading.value == FULL and reading.notes == ()
    save_settings(path, without_preset(reading.value, "Exact ✓"))
    content = json.loads(path.read_text())
    assert content["later"] == {"x": [1]} and content["new_chat"]["draft"]["tree"] is True
    assert content["presets"] == {}


def test_bad_values_are_reset_one_by_one_and_named(path):
    save_settings(path, FULL)
    content = json.loads(path.read_text())
    content |= {"theme": "pink", "text_zoom": 50, "last_chat": "seven"}
    content["new_chat"]["draft"]["depth"] = -1
    path.write_text(json.dumps(content))
    reading = read_settings(path)
    assert reading.value == replace(
        FULL,
        theme="system",
        text_zoom=1.0,
        last_chat=None,
        new_chat=ChatSettings(system="Be kind."),
    )
    assert len(reading.notes) == 4
    assert all(str(path) in note for note in reading.notes)
    assert any("settings.new_chat.draft.depth: -1" in note for note in reading.notes)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"{'a': 1}"])
def test_a_broken_file_is_kept_aside(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    reading = read_settings(path)
    assert reading.value == AppSettings()
    (aside,) = path.parent.iterdir()
    assert aside.read_bytes() == content and str(aside) in reading.notes[0]
    save_settings(path, FULL)
    assert read_settings(path).value == FULL


def test_json_of_another_shape(path):
    path.parent.mkdir()
    path.write_text("[1, 2]")
    assert read_settings(path).value == AppSettings() and read_settings(path).notes
    save_settings(path, FULL)
    assert read_settings(path).value == FULL


def test_a_folder_in_its_place(path):
    path.mkdir(parents=True)
    assert read_settings(path).value == AppSettings()
    with pytest.raises(SettingsNotSaved):
        save_settings(path, FULL)


def test_a_failed_save_leaves_the_old_file(path):
    save_settings(path, FULL)
    with without_rights(path.parent), pytest.raises(SettingsNotSaved, match="allow writing"):
        save_settings(path, AppSettings())
    assert read_settings(path).value == FULL
    assert len(list(path.parent.iterdir())) == 1


def test_a_cut_off_write_leaves_the_old_file(path, monkeypatch):
    save_settings(path, FULL)

    def no_space(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(SettingsNotSaved, match="No space left"):
        save_settings(path, AppSettings())
    assert read_settings(path).value == FULL
    assert len(list(path.parent.iterdir())) == 1


def test_a_linked_file_stays_linked(path, tmp_path):
    path.parent.mkdir()
    real = tmp_path / "dotfiles.json"
    path.symlink_to(real)
    save_settings(path, FULL)
    assert path.is_symlink() and read_settings(real).value == FULL


def test_changes():
    settings = AppSettings()
    for number in range(RECENT_MODELS + 3):
        settings = with_recent_model(settings, f"/{number}")
    settings = with_recent_model(settings, "/5")
    assert settings.recent_models[:2] == ("/5", "/12") and len(settings.recent_models) == 10
    assert len(set(settings.recent_models)) == RECENT_MODELS
    named = with_preset(with_preset(settings, "a", ChatSettings()), "a", ChatSettings(system="s"))
    assert named.presets == {"a": ChatSettings(system="s")}
    assert without_preset(without_preset(named, "a"), "a") == settings
    assert zoomed(zoomed(settings, 1), 1).text_zoom == 1.2
    assert zoomed(settings, 99).text_zoom == LARGEST_ZOOM
    assert zoomed(settings, -99).text_zoom == SMALLEST_ZOOM
    assert zoomed(zoomed(settings, 3), 0).text_zoom == 1.0
    with pytest.raises(BadOption):
        AppSettings(text_zoom=0.0)


def test_a_pipe_in_its_place_is_no_settings(path):
    path.parent.mkdir()
    os.mkfifo(path)
    assert (
        read_settings(path).value == AppSettings()
        and "could not be read" in read_settings(path).notes[0]
    )
    save_settings(path, FULL)
    assert read_settings(path).value == FULL


def test_what_is_not_ours_may_be_nested_deep(path):
    path.parent.mkdir()
    path.write_text('{"later": ' + "[" * 900 + "]" * 900 + "}")
    save_settings(path, FULL)
    assert read_settings(path).value == FULL


@pytest.mark.parametrize(
    "odd",
    [
        {"idle_minutes": 10**300, "text_zoom": 10**300, "prompt_files_gb": 2**70},
        {"last_chat": -(10**30), "unsent": {"1" * 19: "x"}, "recent_models": ["\ud800", None]},
        {"model_folders": ["\ud800", "/a\0b", "\udcff"], "downloads": [["a"], {}]},
        {"new_chat": {"load": {"heads": "\ud800"}, "read_from": 2**65, "sampling": []}},
        {"presets": {"\ud800": {"system": "\ud800"}, "": None}, "models": {"\0": {"keep": 3}}},
        {"window_state": "A" * 1000, "folded_groups": [[]], "language": None, "theme": {}},
    ],
)
def test_odd_values_leave_no_more_than_notes(path, odd):
    path.parent.mkdir()
    path.write_text(json.dumps(odd))
    reading = read_settings(path)
    heads = (own.load.heads for own in reading.value.models.values())
    for place in (*reading.value.model_folders, *heads):
        assert place is None or os.fsencode(place)
    assert abs(reading.value.idle_minutes) < 2**63
    save_settings(path, reading.value)
    assert read_settings(path).value == reading.value


def test_other_users_cannot_read_it(path):
    path.parent.mkdir(mode=0o755)
    path.write_text("{}")
    path.chmod(0o644)
    read_settings(path)
    assert path.stat().st_mode & 0o777 == 0o600
    save_settings(path, FULL)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
