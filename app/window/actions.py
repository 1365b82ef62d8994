"""Every command of the window once: its words, its shortcut, its menu."""

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenuBar

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


COMMANDS = (
    Command("new-chat", "File", "New chat", "Ctrl+N"),
    Command("new-folder", "File", "New folder", "Ctrl+Shift+N"),
    Command("open", "File", "Open model or file…", "Ctrl+O"),
    Command("library", "File", "Models", "Ctrl+L"),
    Command("import-chat", "File", "Import chat…", line_before=True),
    Command("export-chat", "File", "Export chat…", "Ctrl+Shift+E"),
    Command("settings", "File", "Settings…", "Ctrl+,", line_before=True, role=Role.PreferencesRole),
    Command("quit", "File", "Quit Headstart", "Ctrl+Q", line_before=True, role=Role.QuitRole),
    Command("undo", "Edit", "Undo", "Ctrl+Z"),
    Command("redo", "Edit", "Redo", "Ctrl+Shift+Z"),
    Command("cut", "Edit", "Cut", "Ctrl+X", line_before=True),
    Command("copy", "Edit", "Copy", "Ctrl+C"),
    Command("paste", "Edit", "Paste", "Ctrl+V"),
    Command("select-all", "Edit", "Select all", "Ctrl+A"),
    Command("copy-answer", "Edit", "Copy last answer", "Ctrl+Shift+C", line_before=True),
    Command("find", "Edit", "Find in chat", "Ctrl+F", line_before=True),
    Command("search", "Edit", "Search chats", "Ctrl+K"),
    Command("undo-delete", "Edit", "Undo delete of chat", "Ctrl+Alt+Z", line_before=True),
    Command("stop", "Chat", "Stop", "Esc"),
    Command("regenerate", "Chat", "Answer again", "Ctrl+R"),
    Command("continue", "Chat", "Continue answer", "Ctrl+Shift+Return"),
    Command("compare", "Chat", "Compare with and without drafting", "Ctrl+Shift+P"),
    Command("rename-chat", "Chat", "Rename chat", "F2", line_before=True),
    Command("pin-chat", "Chat", "Pin chat", checkable=True),
    Command("duplicate-chat", "Chat", "Duplicate chat", "Ctrl+D"),
    Command("delete-chat", "Chat", "Delete chat"),
    Command("previous-chat", "Chat", "Previous chat", "Ctrl+Alt+Up", line_before=True),
    Command("next-chat", "Chat", "Next chat", "Ctrl+Alt+Down"),
    Command("sidebar", "View", "Sidebar", "Ctrl+B", checkable=True),
    Command("session", "View", "Session panel", "Ctrl+Alt+B", checkable=True),
    Command("drafting", "View", "Drafting view", "Ctrl+Shift+G", checkable=True),
    Command("drafted-words", "View", "Show drafted words", "Ctrl+Shift+D", checkable=True),
    Command("bin", "View", "Bin", checkable=True),
    Command("latest", "View", "Jump to latest", "Ctrl+End", line_before=True),
    Command("larger", "View", "Larger text", "Ctrl++", line_before=True),
    Command("smaller", "View", "Smaller text", "Ctrl+-"),
    Command("actual-size", "View", "Normal text size", "Ctrl+0"),
    Command("system", "View", "Colours of the system", checkable=True, line_before=True),
    Command("light", "View", "Light", checkable=True),
    Command("dark", "View", "Dark", checkable=True),
    Command("minimise", "Window", "Minimise", "Ctrl+M"),
    Command("zoom-window", "Window", "Zoom"),
    Command("close-window", "Window", "Close window", "Ctrl+W", line_before=True),
    Command("log", "Help", "Show log file"),
    Command("about", "Help", "About Headstart", role=Role.AboutRole),
)


class Actions:
    """A QAction for each command, without any behaviour: connect to `triggered`."""

    def __init__(self, parent: QObject) -> None:
        self._actions = {command.name: _action(command, parent) for command in COMMANDS}
        self["larger"].setShortcuts([QKeySequence("Ctrl++"), QKeySequence("Ctrl+=")])

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __iter__(self) -> Iterator[QAction]:
        return iter(self._actions.values())

    def enable(self, is_on: bool, *names: str) -> None:
        """Make commands available or not."""
        for name in names:
            self[name].setEnabled(is_on)

    def check(self, name: str, is_on: bool) -> None:
        """Show a checkable command's state; `triggered` is not emitted by this."""
        self[name].setChecked(is_on)

    def fill(self, bar: QMenuBar) -> None:
        """All menus, in the order of COMMANDS."""
        menus = {name: bar.addMenu(name) for name in dict.fromkeys(c.menu for c in COMMANDS)}
        for command in COMMANDS:
            if command.line_before:
                menus[command.menu].addSeparator()
            menus[command.menu].addAction(self[command.name])


def _action(command: Command, parent: QObject) -> QAction:
    action = QAction(command.words, parent)
    action.setObjectName(command.name)
    action.setCheckable(command.checkable)
    action.setMenuRole(command.role)
    if command.keys:
        action.setShortcut(QKeySequence(command.keys))
    return action
