"""Dialogs: confirmations, and file dialogs that begin in the folder used last."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.state.settings import KeptSettings


def confirm(
    parent: QWidget, question: str, details: str, verb: str, do: Callable[[], object]
) -> None:
    """Ask before something is lost; call `do` when the button with the verb is pressed."""
    box = QMessageBox(QMessageBox.Icon.Question, verb, "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(question)
    box.setInformativeText(details)
    agree = box.addButton(verb, QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(QMessageBox.StandardButton.Cancel)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    agree.clicked.connect(do)
    box.open()


def inform(
    parent: QWidget, title: str, heading: str, html: str, icon: QPixmap | None = None
) -> None:
    """Show a text with a button to close it."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, title, heading, parent=parent)
    if icon is not None:
        box.setIconPixmap(icon)
    box.setInformativeText(html)
    box.open()


def start_folder(settings: KeptSettings) -> Path:
    """Return the folder used last, else Downloads, else the home folder."""
    downloads = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DownloadLocation)
    folders = (settings.value.last_folder, Path(downloads) if downloads else None)
    return next((folder for folder in folders if folder and folder.is_dir()), Path.home())


def choose_files(parent: QWidget, title: str, kinds: str, settings: KeptSettings) -> list[str]:
    """Ask for files to open, none if cancelled. kinds: a Qt name filter."""
    start = str(start_folder(settings))
    paths, _ = QFileDialog.getOpenFileNames(parent, title, start, kinds)
    _remember(settings, paths[:1])
    return paths


def choose_file(parent: QWidget, title: str, kinds: str, settings: KeptSettings) -> str:
    """Ask for a file to open, "" if cancelled."""
    path, _ = QFileDialog.getOpenFileName(parent, title, str(start_folder(settings)), kinds)
    _remember(settings, [path] if path else [])
    return path


def choose_folder(parent: QWidget, title: str, settings: KeptSettings) -> str:
    """Ask for a folder, "" if cancelled."""
    path = QFileDialog.getExistingDirectory(parent, title, str(start_folder(settings)))
    _remember(settings, [path] if path else [])
    return path


def choose_target(
    parent: QWidget, title: str, name: str, kinds: str, settings: KeptSettings
) -> tuple[str, str]:
    """Ask for a path to write to, "" if cancelled, and the chosen name filter."""
    start = str(start_folder(settings) / name)
    path, kind = QFileDialog.getSaveFileName(parent, title, start, kinds)
    _remember(settings, [path] if path else [])
    return path, kind


def _remember(settings: KeptSettings, chosen: list[str]) -> None:
    for path in chosen:
        settings.change(replace(settings.value, last_folder=Path(path).parent))
