"""Every command of the window once: its words, its shortcut, its menu."""

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from app.window.language import tr
from mlx_engine.values.words import Words

VERSION = "0.1.0"

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


FILE, EDIT, CHAT, VIEW, APPEARANCE, WINDOW, HELP = (
    Words("File", "menu"),
    Words("Edit", "menu"),
    Words("Chat", "menu"),
    Words("View", "menu"),
    Words("Appearance", "menu"),
    Words("Window", "menu"),
    Words("Help", "menu"),
)

COMMANDS = (
    Command("new-chat", FILE, Words("New Chat"), "Ctrl+N"),
    Command("new-folder", FILE, Words("New Folder"), "Ctrl+Shift+N"),
    Command("open", FILE, Words("Open Model or File…"), "Ctrl+O"),
    Command("library", FILE, Words("Models"), "Ctrl+L"),
    Command("import-chat", FILE, Words("Import Chat…"), line_before=True),
    Command("export-chat", FILE, Words("Export Chat…"), "Ctrl+Shift+E"),
    Command(
        "settings", FILE, Words("Settings…"), "Ctrl+,", line_before=True, role=Role.PreferencesRole
    ),
    Command("quit", FILE, Words("Quit Headstart"), "Ctrl+Q", line_before=True, role=Role.QuitRole),
    Command("undo", EDIT, Words("Undo"), "Ctrl+Z"),
    Command("redo", EDIT, Words("Redo"), "Ctrl+Shift+Z"),
    Command("cut", EDIT, Words("Cut"), "Ctrl+X", line_before=True),
    Command("copy", EDIT, Words("Copy"), "Ctrl+C"),
    Command("paste", EDIT, Words("Paste"), "Ctrl+V"),
    Command("select-all", EDIT, Words("Select All"), "Ctrl+A"),
    Command("copy-answer", EDIT, Words("Copy Last Answer"), "Ctrl+Shift+C", line_before=True),
    Command("find", EDIT, Words("Find in Chat"), "Ctrl+F", line_before=True),
    Command("find-next", EDIT, Words("Find Next"), "Ctrl+G"),
    Command("find-previous", EDIT, Words("Find Previous"), "Ctrl+Shift+G"),
    Command("search", EDIT, Words("Search Chats"), "Ctrl+K"),
    Command("undo-delete", EDIT, Words("Undo Delete Chat"), "Ctrl+Alt+Z", line_before=True),
    Command("stop", CHAT, Words("Stop"), "Esc"),
    Command("regenerate", CHAT, Words("Regenerate"), "Ctrl+R"),
    Command("continue", CHAT, Words("Continue Answer"), "Ctrl+Shift+Return"),
    Command("compare", CHAT, Words("Compare With and Without Drafting"), "Ctrl+Shift+P"),
    Command("rename-chat", CHAT, Words("Rename Chat"), "F2", line_before=True),
    Command("pin-chat", CHAT, Words("Pin Chat"), checkable=True),
    Command("duplicate-chat", CHAT, Words("Duplicate Chat"), "Ctrl+D"),
    Command("delete-chat", CHAT, Words("Delete Chat"), "Ctrl+Backspace"),
    Command("previous-chat", CHAT, Words("Previous Chat"), "Ctrl+Alt+Up", line_before=True),
    Command("next-chat", CHAT, Words("Next Chat"), "Ctrl+Alt+Down"),
    Command("sidebar", VIEW, Words("Sidebar"), "Ctrl+B", checkable=True),
    Command("session", VIEW, Words("Chat Settings"), "Ctrl+Alt+B", checkable=True),
    Command("drafting", VIEW, Words("Drafting View"), "Ctrl+Shift+I", checkable=True),
    Command("drafted-words", VIEW, Words("Show Drafted Words"), "Ctrl+Shift+D", checkable=True),
    Command("bin", VIEW, Words("Trash"), checkable=True),
    Command("latest", VIEW, Words("Jump to Latest"), "Ctrl+End", line_before=True),
    Command("larger", VIEW, Words("Larger Text"), "Ctrl++", line_before=True),
    Command("smaller", VIEW, Words("Smaller Text"), "Ctrl+-"),
    Command("actual-size", VIEW, Words("Actual Size"), "Ctrl+0"),
    Command("system", APPEARANCE, Words("System"), checkable=True),
    Command("light", APPEARANCE, Words("Light"), checkable=True),
    Command("dark", APPEARANCE, Words("Dark"), checkable=True),
    Command("minimise", WINDOW, Words("Minimize"), "Ctrl+M"),
    Command("zoom-window", WINDOW, Words("Zoom")),
    Command("full-screen", WINDOW, Words("Enter Full Screen"), "F11"),
    Command("close-window", WINDOW, Words("Close Window"), "Ctrl+W", line_before=True),
    Command("shortcuts", HELP, Words("Keyboard Shortcuts")),
    Command("log", HELP, Words("Show Log File")),
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
        menus = dict[str, QMenu]()
        for command in COMMANDS:
            if command.menu not in menus:
                parent = menus[VIEW] if command.menu == APPEARANCE else bar
                menus[command.menu] = parent.addMenu(tr(command.menu))
            if command.line_before:
                menus[command.menu].addSeparator()
            menus[command.menu].addAction(self[command.name])


def shortcuts_in_words() -> str:
    """Every command that has a shortcut, a line each."""
    native = QKeySequence.SequenceFormat.NativeText
    lines = [
        f"{QKeySequence(command.keys).toString(native)}\t{tr(command.words)}"
        for command in COMMANDS
        if command.keys
    ]
    chats = QKeySequence("Ctrl+1").toString(native), QKeySequence("Ctrl+9").toString(native)
    return "\n".join([*lines, "{}–{}\t{}".format(*chats, tr("First to ninth chat"))])


def _action(command: Command, parent: QObject) -> QAction:
    action = QAction(tr(command.words), parent)
    action.setObjectName(command.name)
    action.setCheckable(command.checkable)
    action.setMenuRole(command.role)
    if command.keys:
        action.setShortcut(QKeySequence(command.keys))
    return action
