"""File dialogs begin where the user was last, over a restart too."""

import pytest
from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget

from app.state.settings import KeptSettings
from app.window.controls.dialogs import (
    choose_file,
    choose_files,
    choose_folder,
    choose_target,
)


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """Folders that dialogs began in; each of them chooses `chosen`, if it is a path."""
    seen: list[str] = []

    def answer(result):
        def ask(parent, title, start, *kinds):
            seen.append(start)
            return result

        return staticmethod(ask)

    def choose(path: str) -> list[str]:
        monkeypatch.setattr(QFileDialog, "getOpenFileName", answer((path, "")))
        monkeypatch.setattr(QFileDialog, "getOpenFileNames", answer(([path] if path else [], "")))
        monkeypatch.setattr(QFileDialog, "getExistingDirectory", answer(path))
        monkeypatch.setattr(QFileDialog, "getSaveFileName", answer((path, "")))
        return seen

    return choose


def test_dialogs_begin_in_the_folder_chosen_last(qtbot, tmp_path, begun, monkeypatch):
    downloads = tmp_path / "Downloads"
    monkeypatch.setattr(QStandardPaths, "writableLocation", lambda _: str(downloads))
    monkeypatch.setattr("app.window.controls.dialogs.Path.home", lambda: tmp_path)
    parent = QWidget()
    qtbot.addWidget(parent)
    settings = KeptSettings(tmp_path / "settings.json")
    seen = begun("")
    choose_file(parent, "Open", "", settings)
    downloads.mkdir()
    choose_files(parent, "Open", "", settings)
    assert seen == [str(tmp_path), str(downloads)], "nothing was chosen so far"
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    begun(str(tmp_path / "a" / "file.gguf"))
    choose_file(parent, "Open", "", settings)
    begun(str(tmp_path / "b"))
    choose_folder(parent, "Open", settings)
    begun(str(tmp_path / "c" / "chat.md"))
    choose_target(parent, "Export", "chat.md", "", settings)
    assert seen[2:] == [
        str(downloads),
        str(tmp_path / "a"),
        str(tmp_path / "chat.md"),
    ]
    settings.close()
    begun("")
    choose_files(parent, "Open", "", KeptSettings(tmp_path / "settings.json"))
    assert seen[-1] == str(tmp_path / "c")
