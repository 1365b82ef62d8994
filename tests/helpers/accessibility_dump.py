"""What a screen reader is told of every page: role, name, description and value of each object.

Run with PYTHONPATH=.:tests:tests/helpers from the root of the repository.
"""

from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QWidget

ROLE, TEXT = QAccessible.Role, QAccessible.Text
CONTROLS = {
    ROLE.Button,
    ROLE.ButtonMenu,
    ROLE.CheckBox,
    ROLE.ComboBox,
    ROLE.EditableText,
    ROLE.List,
    ROLE.MenuItem,
    ROLE.PageTab,
    ROLE.ProgressBar,
    ROLE.RadioButton,
    ROLE.Slider,
    ROLE.SpinBox,
    ROLE.Tree,
}
"""Roles of what can be used, or tells how far something is."""
PARTS_OF_QT = ("qt_", "QComboBoxPrivate")
"""Names of objects that Qt makes for itself inside a control."""
PANES = ("general", "appearance", "models", "drafting", "advanced")


class Told(NamedTuple):
    """What is told of an object, with its depth in the tree."""

    depth: int
    role: QAccessible.Role
    name: str
    description: str
    value: str
    kind: str

    def __str__(self) -> str:
        parts = (self.role.name, self.name, self.description, self.value)
        return "  " * self.depth + " | ".join(part.replace("\n", " / ") for part in parts if part)


def told_of(root: QWidget) -> Iterator[Told]:
    """What is told of a widget and all that is on show in it, from the top."""
    interface = QAccessible.queryAccessibleInterface(root)
    if interface is not None:
        yield from _below(interface, 0)


def _below(interface: QAccessibleInterface, depth: int) -> Iterator[Told]:
    state = interface.state()
    if state.invisible:
        return
    made_by = interface.object()
    kind = "" if made_by is None else type(made_by).__name__
    inner = "" if made_by is None else made_by.objectName()
    if not inner.startswith(PARTS_OF_QT):
        texts = (interface.text(text) for text in (TEXT.Name, TEXT.Description, TEXT.Value))
        yield Told(depth, interface.role(), *texts, kind)
    for number in range(interface.childCount()):
        child = interface.child(number)
        if child is not None and child.isValid():
            yield from _below(child, depth + 1)


def main() -> None:
    """Print all pages and panels of a filled window."""
    from filled_window import filled_window
    from PySide6.QtWidgets import QApplication
    from pytestqt.qt_compat import qt_api
    from pytestqt.qtbot import QtBot

    class Item:
        """Stands in for a test of pytest-qt."""

    class Request:
        """The same."""

        node = Item()

    qt_api.set_qt_api("pyside6")
    application = QApplication([])
    made = filled_window(QtBot(Request()))  # type: ignore[arg-type]
    for name, widget in pages(made, application.processEvents):
        print(f"== {name}", *told_of(widget), sep="\n")


def pages(made: object, settle: object) -> Iterator[tuple[str, QWidget]]:
    """Every page, panel and pane of the window's widgets, on show one after the other."""
    from app.window.controls.layouts import Group
    from app.window.widgets import Widgets

    assert isinstance(made, Widgets) and callable(settle)
    for group in made.window.findChildren(Group):
        group.open(True)

    def shown(name: str, widget: QWidget) -> tuple[str, QWidget]:
        settle()
        return name, widget

    made.window.show_page("chat")
    made.chat_page.show_start(False)
    yield shown("sidebar", made.sidebar)
    yield shown("chat", made.chat_page)
    made.window.show_panel("session")
    yield shown("chat settings", made.session)
    made.window.show_panel("drafting")
    yield shown("drafting", made.drafting_panel)
    made.window.show_panel(None)
    yield shown("strip", made.strip)
    made.chat_page.show_start(True)
    yield shown("start", made.chat_page)
    made.window.show_page("library")
    for place in ("here", "hub"):
        made.library.show_place(place)
        yield shown(f"models, {place}", made.library_page)
    made.window.show_page("compare")
    yield shown("compare", made.compare_page)
    made.window.show_page("settings")
    for pane in PANES:
        made.settings.show_pane(pane)
        yield shown(f"settings, {pane}", made.settings_page)
    made.layer.open()
    yield shown("card", made.card)


if __name__ == "__main__":
    main()
