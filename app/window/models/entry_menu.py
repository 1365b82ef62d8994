"""What can be done with a model in the library's list, as a menu."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from app.window.models.model_values import LibraryEntry


@dataclass(frozen=True, slots=True)
class EntryActions:
    """What the menu's owner does with a path."""

    choose: Callable[[LibraryEntry], object]
    reveal: Callable[[str], object]
    forget: Callable[[str], object]


def entry_menu(entry: LibraryEntry, actions: EntryActions, parent: QWidget) -> QMenu:
    """Its entries; a model that has no file of its own can only be loaded."""
    menu = QMenu(parent)
    first = "Go on with the download" if entry.unfinished else "Load…"
    choose = menu.addAction(first, lambda: actions.choose(entry))
    choose.setEnabled(not entry.problem or bool(entry.unfinished))
    if entry.has_file:
        menu.addAction("Show in its folder", lambda: actions.reveal(entry.path))
        menu.addAction("Copy path", lambda: QGuiApplication.clipboard().setText(entry.path))
    if entry.is_recent:
        menu.addSeparator()
        menu.addAction("Remove from recent models", lambda: actions.forget(entry.path))
    return menu
