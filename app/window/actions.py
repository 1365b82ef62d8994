"""Every command of the window once: its words, its shortcut, its menu."""

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenuBar

from app.window.language import tr
from mlx_engine.values.words import Words

Role = QAction.MenuRole


@dataclass(frozen=True, slots=True)
class Command:
    """words: in the menu. keys: Ctrl is the Command key on a Mac."""

    name: str
    menu: str
    words: str
    keys: str = ""
    checkable: bool = False
    line_before: bool = False
    role: Role = Role.NoRole


FILE, EDIT, CHAT, VIEW, WINDOW, HELP = (
    Words("File", "menu"),
    Words("Edit", "menu"),
    Words("Chat", "menu"),
    Words("View", "menu"),
    Words("Window", "menu"),
    Words("Help", "menu"),
)

COMMANDS = (
    Command("new-chat", FILE, Words("New chat"), "Ctrl+N"),
    Command("new-folder", FILE, Words("New folder"), "Ctrl+Shift+N"),
    Command("open", FILE, Words("Open model or file…"), "Ctrl+O"),
    Command("library", FILE, Words("Models"), "Ctrl+L"),
    Command("import-chat", FILE, Words("Import chat…"), line_before=True),
    Command("export-chat", FILE, Words("Export chat…"), "Ctrl+Shift+E"),
    Command(
        "settings", FILE, Words("Settings…"), "Ctrl+,", line_before=True, role=Role.PreferencesRole
    ),
    Command("quit", FILE, Words("Quit Headstart"), "Ctrl+Q", line_before=True, role=Role.QuitRole),
    Command("undo", EDIT, Words("Undo"), "Ctrl+Z"),
    Command("redo", EDIT, Words("Redo"), "Ctrl+Shift+Z"),
    Command("cut", EDIT, Words("Cut"), "Ctrl+X", line_before=True),
    Command("copy", EDIT, Words("Copy"), "Ctrl+C"),
    Command("paste", EDIT, Words("Paste"), "Ctrl+V"),
    Command("select-all", EDIT, Words("Select all"), "Ctrl+A"),
    Command("copy-answer", EDIT, Words("Copy last answer"), "Ctrl+Shift+C", line_before=True),
    Command("find", EDIT, Words("Find in chat"), "Ctrl+F", line_before=True),
    Command("search", EDIT, Words("Search chats"), "Ctrl+K"),
    Command("undo-delete", EDIT, Words("Undo delete of chat"), "Ctrl+Alt+Z", line_before=True),
    Command("stop", CHAT, Words("Stop"), "Esc"),
    Command("regenerate", CHAT, Words("Answer again"), "Ctrl+R"),
    Command("continue", CHAT, Words("Continue answer"), "Ctrl+Shift+Return"),
    Command("compare", CHAT, Words("Compare with and without drafting"), "Ctrl+Shift+P"),
    Command("rename-chat", CHAT, Words("Rename chat"), "F2", line_before=True),
    Command("pin-chat", CHAT, Words("Pin chat"), checkable=True),
    Command("duplicate-chat", CHAT, Words("Duplicate chat"), "Ctrl+D"),
    Command("delete-chat", CHAT, Words("Delete chat")),
    Command("previous-chat", CHAT, Words("Previous chat"), "Ctrl+Alt+Up", line_before=True),
    Command("next-chat", CHAT, Words("Next chat"), "Ctrl+Alt+Down"),
    Command("sidebar", VIEW, Words("Sidebar"), "Ctrl+B", checkable=True),
    Command("session", VIEW, Words("Session panel"), "Ctrl+Alt+B", checkable=True),
    Command("drafting", VIEW, Words("Drafting view"), "Ctrl+Shift+G", checkable=True),
    Command("drafted-words", VIEW, Words("Show drafted words"), "Ctrl+Shift+D", checkable=True),
    Command("bin", VIEW, Words("Bin"), checkable=True),
    Command("latest", VIEW, Words("Jump to latest"), "Ctrl+End", line_before=True),
    Command("larger", VIEW, Words("Larger text"), "Ctrl++", line_before=True),
    Command("smaller", VIEW, Words("Smaller text"), "Ctrl+-"),
    Command("actual-size", VIEW, Words("Normal text size"), "Ctrl+0"),
    Command("system", VIEW, Words("Colours of the system"), checkable=True, line_before=True),
    Command("light", VIEW, Words("Light"), checkable=True),
    Command("dark", VIEW, Words("Dark"), checkable=True),
    Command("minimise", WINDOW, Words("Minimise"), "Ctrl+M"),
    Command("zoom-window", WINDOW, Words("Zoom")),
    Command("full-screen", WINDOW, Words("Full screen"), "F11"),
    Command("close-window", WINDOW, Words("Close window"), "Ctrl+W", line_before=True),
    Command("log", HELP, Words("Show log file")),
    Command("about", HELP, Words("About Headstart"), role=Role.AboutRole),
)


class Actions:
    """A QAction for each command, without any behaviour: connect to `triggered`."""

    def __init__(self, parent: QObject) -> None:
        self._actions = {command.name: _action(command, parent) for command in COMMANDS}
        for name, also in (("larger", "Ctrl+="), ("full-screen", "Ctrl+Meta+F")):
            self[name].setShortcuts([*self[name].shortcuts(), QKeySequence(also)])

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __iter__(self) -> Iterator[QAction]:
        return iter(self._actions.values())

    def enable(self, is_on: bool, *names: str) -> None:
        """Make commands available or not."""
        for name in names:
            self[name].setEnabled(is_on)

    def fill(self, bar: QMenuBar) -> None:
        """All menus, in the order of COMMANDS."""
        menus = {name: bar.addMenu(tr(name)) for name in dict.fromkeys(c.menu for c in COMMANDS)}
        for command in COMMANDS:
            if command.line_before:
                menus[command.menu].addSeparator()
            menus[command.menu].addAction(self[command.name])


def _action(command: Command, parent: QObject) -> QAction:
    action = QAction(tr(command.words), parent)
    action.setObjectName(command.name)
    action.setCheckable(command.checkable)
    action.setMenuRole(command.role)
    if command.keys:
        action.setShortcut(QKeySequence(command.keys))
    return action
