"""All commands of the window: words, shortcut, menu, action, and when they are enabled."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import zip_longest
from typing import NamedTuple

from PySide6.QtCore import QMetaObject, QObject, Qt
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
)

from app.control.drops import DropController
from app.control.files import FileController
from app.control.rest import RestController
from app.state.card import OfferedModel
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.compare import Comparison
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.app_settings import Theme
from app.window.controls.dialogs import inform
from app.window.language import tr
from app.window.layers import Palette
from app.window.main_window import Page, Panel
from app.window.sidebar.chat_list import COPY
from app.window.style_sheet import THEMES, LookController
from app.window.widgets import Widgets
from mlx_engine.values.words import Words

NUMBERED_CHATS = 9
LEAVE_A_CARD = {
    *("undo", "redo", "cut", "copy", "paste", "select-all", "stop", "open", "quit", "close-window"),
    *("minimise", "zoom-window", "full-screen", "larger", "smaller", "actual-size"),
    *("system", "light", "dark", "palette", "log", "about", "shortcuts"),
}
"""The other commands have to do with what a card covers, and close it."""
ROLES = {
    "settings": QAction.MenuRole.PreferencesRole,
    "quit": QAction.MenuRole.QuitRole,
    "about": QAction.MenuRole.AboutRole,
}
VIEW, APPEARANCE = Words("View", "menu"), Words("Appearance", "menu")


class Shortcut(NamedTuple):
    """Keys, and the title of the command that they run."""

    keys: str
    words: str


@dataclass(frozen=True, slots=True)
class Command:
    """words: title in the menu. keys: shortcuts, separated by spaces; Ctrl is Command on a Mac.
    when, on: whether it is enabled and checked; None for always, and for no check mark.
    """

    name: str
    words: str
    run: Callable[[], object]
    keys: str = ""
    when: Callable[[], bool] | None = None
    on: Callable[[], bool] | None = None


LINE = None
"""A separator between commands of a menu."""
Menu = tuple[Command | None, ...]


class Actions(QObject):
    """A QAction for each command, in the menus of the window and behind its buttons."""

    def __init__(
        self,
        widgets: Widgets,
        chat: ChatState,
        chats: ChatListState,
        models: ModelState,
        offered: OfferedModel,
        rest: RestController,
        compare: Comparison,
        look: LookController,
        files: FileController,
        drops: DropController,
        settings: KeptSettings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._widgets, self._window, self._sidebar = widgets, widgets.window, widgets.sidebar
        self._chat, self._chats, self._models, self._rest = chat, chats, models, rest
        self._offered, self._drops = offered, drops
        self._compare, self._look, self._files, self._settings = compare, look, files, settings
        self._menus = self._all()
        self.commands = [entry for menu in self._menus.values() for entry in menu if entry]
        self._actions = {command.name: self._action(command) for command in self.commands}
        self._fill(self._window.menuBar())
        for place in range(NUMBERED_CHATS):
            keys = QShortcut(QKeySequence(f"Ctrl+{place + 1}"), self._window)
            keys.activated.connect(partial(widgets.sidebar.list.choose_at, place))
        self._connect_buttons()
        for changed in (
            *(self._window.folded, settings.changed, models.changed, compare.changed),
            *(chat.changed, chats.changed, chats.deeds.changed),
        ):
            changed.connect(self.refresh)
        chats.deeds.changed.connect(self._forget_typed)
        self.refresh()

    def _all(self) -> dict[str, Menu]:
        chat, chats, look, files = self._chat, self._chats, self._look, self._files
        window, listed, transcript = self._window, self._sidebar.list, self._widgets.transcript
        page, in_chat, has_chat, can_ask = self._page, self._in_chat, self._has_chat, self._can_ask
        return {
            Words("File", "menu"): (
                Command("new-chat", Words("New Chat"), in_chat(chats.begin), "Ctrl+N"),
                Command("new-folder", Words("New Folder"), self._make_folder, "Ctrl+Shift+N"),
                Command("open", Words("Open Model or File…"), self._drops.choose, "Ctrl+O"),
                Command("library", Words("Models"), page("library"), "Ctrl+L"),
                Command("eject", Words("Eject Model"), self._rest.eject, "", self._has_model),
                LINE,
                Command("import-chat", Words("Import Chat…"), files.import_chat),
                Command(
                    "export-chat", Words("Export Chat…"), self._export, "Ctrl+Shift+E", has_chat
                ),
                LINE,
                Command("settings", Words("Settings…"), page("settings"), "Ctrl+,"),
                LINE,
                Command("quit", Words("Quit Headstart"), window.close, "Ctrl+Q"),
            ),
            Words("Edit", "menu"): (
                Command("undo", Words("Undo"), self._undo, "Ctrl+Z", self._can_undo),
                Command("redo", Words("Redo"), self._redo, "Ctrl+Shift+Z", self._can_redo),
                LINE,
                Command("cut", Words("Cut"), _in_focus("cut"), "Ctrl+X"),
                Command("copy", Words("Copy"), _in_focus("copy"), "Ctrl+C"),
                Command("paste", Words("Paste"), _in_focus("paste"), "Ctrl+V"),
                Command("select-all", Words("Select All"), _in_focus("selectAll"), "Ctrl+A"),
                LINE,
                Command(
                    "copy-answer",
                    Words("Copy Last Answer"),
                    transcript.copy_last_answer,
                    "Ctrl+Shift+C",
                ),
                LINE,
                Command("find", Words("Find in Chat"), in_chat(transcript.open_find), "Ctrl+F"),
                Command("find-next", Words("Find Next"), self._find(1), "Ctrl+G"),
                Command("find-previous", Words("Find Previous"), self._find(-1), "Ctrl+Shift+G"),
                Command("search", Words("Search Chats"), self._search, "Ctrl+K"),
            ),
            Words("Chat", "menu"): (
                Command("stop", Words("Stop"), self._stop, "Esc", self._has_work),
                Command(
                    "regenerate", Words("Answer Again"), in_chat(chat.regenerate), "Ctrl+R", can_ask
                ),
                Command(
                    "continue",
                    Words("Continue Answer"),
                    in_chat(chat.continue_answer),
                    "Ctrl+Shift+Return",
                    can_ask,
                ),
                Command(
                    "compare",
                    Words("Compare With and Without Drafting"),
                    self._show_compare,
                    "Ctrl+Shift+R",
                ),
                LINE,
                Command("rename-chat", Words("Rename Chat"), in_chat(self._rename), "F2", has_chat),
                Command(
                    "pin-chat", Words("Pin Chat"), self._pin, "", has_chat, lambda: chat.pinned
                ),
                Command(
                    "duplicate-chat",
                    Words("Duplicate Chat"),
                    in_chat(self._duplicate),
                    "Ctrl+D",
                    has_chat,
                ),
                Command(
                    "delete-chat",
                    Words("Delete Chat"),
                    in_chat(self._delete),
                    "Ctrl+Backspace",
                    has_chat,
                ),
                LINE,
                Command(
                    "previous-chat",
                    Words("Previous Chat"),
                    lambda: listed.choose_neighbour(-1),
                    "Ctrl+Alt+Up",
                ),
                Command(
                    "next-chat",
                    Words("Next Chat"),
                    lambda: listed.choose_neighbour(1),
                    "Ctrl+Alt+Down",
                ),
            ),
            VIEW: (
                Command("palette", Words("Command Palette…"), self._open_palette, "Ctrl+Shift+P"),
                LINE,
                Command(
                    "sidebar",
                    Words("Sidebar"),
                    lambda: window.show_sidebar(not window.has_sidebar),
                    "Ctrl+B",
                    on=lambda: window.has_sidebar,
                ),
                self._panel("session", Words("Chat Settings"), "Ctrl+Alt+B"),
                self._panel("drafting", Words("Drafting View"), "Ctrl+Shift+I"),
                Command(
                    "drafted-words",
                    Words("Show Drafted Words"),
                    self._toggle_drafted_words,
                    "Ctrl+Shift+D",
                    on=lambda: self._settings.value.show_drafted,
                ),
                Command(
                    "trash",
                    Words("Trash"),
                    lambda: chats.show_trash(not chats.shows_trash),
                    on=lambda: chats.shows_trash,
                ),
                LINE,
                Command(
                    "latest",
                    Words("Jump to Latest"),
                    in_chat(transcript.column.follow),
                    "Ctrl+End",
                ),
                LINE,
                Command("larger", Words("Larger Text"), lambda: look.zoom(1), "Ctrl++ Ctrl+="),
                Command("smaller", Words("Smaller Text"), lambda: look.zoom(-1), "Ctrl+-"),
                Command("actual-size", Words("Actual Size"), lambda: look.zoom(0), "Ctrl+0"),
            ),
            APPEARANCE: tuple(self._theme(wish, words) for wish, words in THEMES.items()),
            Words("Window", "menu"): (
                Command("minimise", Words("Minimize"), window.showMinimized, "Ctrl+M"),
                Command("zoom-window", Words("Zoom"), self._switch(Qt.WindowState.WindowMaximized)),
                Command(
                    "full-screen",
                    Words("Enter Full Screen"),
                    self._switch(Qt.WindowState.WindowFullScreen),
                    "F11 Ctrl+Meta+F",
                ),
                LINE,
                Command("close-window", Words("Close Window"), window.close, "Ctrl+W"),
            ),
            Words("Help", "menu"): (
                Command("shortcuts", Words("Keyboard Shortcuts"), self._show_shortcuts),
                Command("log", Words("Show Log File"), files.show_log),
                Command("about", Words("About Headstart"), files.show_about),
            ),
        }

    def _theme(self, wish: Theme, words: str) -> Command:
        settings = self._settings
        choose = partial(self._look.choose, wish)
        return Command(wish, words, choose, on=lambda: settings.value.theme == wish)

    def _panel(self, panel: Panel, words: str, keys: str) -> Command:
        """Show or hide a panel; closing the Drafting view restores what it replaced."""
        window = self._window

        def toggle() -> None:
            if not window.is_shown(panel):
                window.show_panel(panel)
            elif panel == "drafting":
                window.close_drafting()
            else:
                window.show_panel(None)

        return Command(panel, words, toggle, keys, on=lambda: window.is_shown(panel))

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __iter__(self) -> Iterator[QAction]:
        return iter(self._actions.values())

    def _action(self, command: Command) -> QAction:
        action = QAction(tr(command.words), self)
        action.setObjectName(command.name)
        action.setCheckable(command.on is not None)
        action.setMenuRole(ROLES.get(command.name, QAction.MenuRole.NoRole))
        action.setShortcuts([QKeySequence(keys) for keys in command.keys.split()])
        action.triggered.connect(lambda _: self._run(command))
        return action

    def _fill(self, bar: QMenuBar) -> None:
        """Put all commands into menus, in their order."""
        menus = dict[str, QMenu]()
        for name, entries in self._menus.items():
            parent = menus[VIEW] if name == APPEARANCE else bar
            menus[name] = menu = parent.addMenu(tr(name))
            menu.aboutToShow.connect(self.refresh)
            for command in entries:
                if command:
                    menu.addAction(self[command.name])
                else:
                    menu.addSeparator()

    def _connect_buttons(self) -> None:
        widgets, window = self._widgets, self._window
        for pressed, name in (
            (widgets.sidebar.new.clicked, "new-chat"),
            (widgets.sidebar.models.clicked, "library"),
            (widgets.head.sidebar.clicked, "sidebar"),
            (widgets.head.session.clicked, "session"),
            (widgets.head.compare.clicked, "compare"),
            (widgets.strip.clicked, "drafting"),
            (widgets.start.open.clicked, "open"),
            (widgets.library.open.clicked, "open"),
            (widgets.card.other.clicked, "open"),
            (widgets.session.fold.clicked, "session"),
            (widgets.drafting_panel.close_button.clicked, "drafting"),
        ):
            pressed.connect(self[name].trigger)
        for page in (widgets.library_page, widgets.settings_page, widgets.compare_page):
            page.close_button.clicked.connect(lambda: window.show_page("chat"))
        for ends_in_chat in (
            self._chat.opened,
            self._chat.added,
            self._chat.replaced,
            widgets.layer.left,
        ):
            ends_in_chat.connect(lambda *_: self._focus_message())
        window.typed.connect(self._type)

    def _run(self, command: Command) -> None:
        """Run a command; the focus moves from a button, which Space would press, to the message."""
        if command.name not in LEAVE_A_CARD and self._widgets.layer.isVisible():
            self._offered.close()
        command.run()
        self.refresh()
        if isinstance(self._window.focusWidget(), QAbstractButton):
            self._focus_message()

    def _focus_message(self) -> None:
        """Focus the message unless another page or a card has the focus."""
        if self._window.page == "chat" and self._widgets.layer.isHidden():
            self._widgets.composer.setFocus()

    def _type(self, text: str) -> None:
        """Type into the message unless a card is open."""
        if self._widgets.layer.isHidden():
            self._widgets.composer.type(text)

    def refresh(self) -> None:
        """Enable and check each command as it is now."""
        for command in self.commands:
            action = self[command.name]
            action.setEnabled(command.when is None or command.when())
            action.setChecked(command.on is not None and command.on())
        self._widgets.head.session.setVisible(not self._window.is_shown("session"))

    # when a command can be run

    def _has_chat(self) -> bool:
        return self._chat.chat_id is not None

    def _can_ask(self) -> bool:
        return self._has_chat() and self._chat.running is None

    def _has_model(self) -> bool:
        return self._models.in_use is not None

    def _has_work(self) -> bool:
        is_loading = self._models.loading is not None
        return self._chat.running is not None or self._compare.is_running or is_loading

    def _can_undo(self) -> bool:
        return self._chats.deeds.newest is not None or self._text_to_undo() is not None

    def _can_redo(self) -> bool:
        return self._chats.deeds.can_redo or self._text_to_redo() is not None

    def _text_to_undo(self) -> QPlainTextEdit | QLineEdit | None:
        """Return the focused text field, None if nothing can be undone in it."""
        text = self._window.focusWidget()
        match text:
            case QPlainTextEdit() if text.document().isUndoAvailable():
                return text
            case QLineEdit() if text.isUndoAvailable():
                return text
        return None

    def _text_to_redo(self) -> QPlainTextEdit | QLineEdit | None:
        """Return the focused text field, None if nothing can be redone in it."""
        text = self._window.focusWidget()
        match text:
            case QPlainTextEdit() if text.document().isRedoAvailable():
                return text
            case QLineEdit() if text.isRedoAvailable():
                return text
        return None

    def _forget_typed(self) -> None:
        """Let an undo in an empty message be of what changed since it was emptied."""
        typed = self._widgets.composer.box.document()
        if typed.isEmpty():
            typed.clearUndoRedoStacks()

    # what commands do

    def _page(self, page: Page) -> Callable[[], object]:
        return lambda: self._window.show_page(page)

    def _in_chat(self, command: Callable[[], object]) -> Callable[[], object]:
        """Show the chat page, on which the command acts."""

        def run() -> None:
            self._window.show_page("chat")
            command()

        return run

    def _subjects(self) -> tuple[int, ...]:
        """The chats selected in the list if they are several, else the one on show."""
        return self._sidebar.list.several or (self._shown,)

    @property
    def _shown(self) -> int:
        """The id of the chat on show, for commands that need one."""
        assert self._chat.chat_id is not None
        return self._chat.chat_id

    def _export(self) -> None:
        self._files.export(self._subjects())

    def _delete(self) -> None:
        self._chats.delete(*self._subjects())

    def _duplicate(self) -> None:
        self._chats.duplicate(self._shown, tr(COPY))

    def _pin(self) -> None:
        self._chats.pin(not self._chat.pinned, self._shown)

    def _rename(self) -> None:
        self._widgets.head.title.setFocus()

    def _find(self, step: int) -> Callable[[], object]:
        """Go to another match; the focus stays in the search field."""
        find = partial(self._widgets.transcript.find_further, step)
        show_and_find = self._in_chat(find)
        return lambda: find() if self._window.page == "chat" else show_and_find()

    def _undo(self) -> None:
        """Undo in the focused text field, else the newest change of the list of chats."""
        text = self._text_to_undo()
        if text is not None:
            text.undo()
        else:
            self._chats.deeds.undo()

    def _redo(self) -> None:
        """Redo in the focused text field, else the last undone change of the list of chats."""
        text = self._text_to_redo()
        if text is not None:
            text.redo()
        else:
            self._chats.deeds.redo()

    def _stop(self) -> None:
        """Stop a comparison, the answer on show, or a load; the answer's text is kept."""
        if self._compare.is_running:
            self._compare.stop()
        elif self._chat.running is not None:
            self._chat.stop()
        else:
            self._models.cancel()

    def _switch(self, state: Qt.WindowState) -> Callable[[], object]:
        """Return a function that toggles a state of the window."""
        return lambda: self._window.setWindowState(self._window.windowState() ^ state)

    def _toggle_drafted_words(self) -> None:
        settings = self._settings.value
        self._settings.change(replace(settings, show_drafted=not settings.show_drafted))

    def _make_folder(self) -> None:
        self._window.show_sidebar(True)
        self._sidebar.list.make_folder(self._sidebar.list.several)

    def _show_compare(self) -> None:
        self._widgets.compare.begin()
        self._window.show_page("compare")

    def _search(self) -> None:
        self._window.show_sidebar(True)
        self._sidebar.start_search()

    def _open_palette(self) -> None:
        self.refresh()
        Palette(self, self._window)

    def _show_shortcuts(self) -> None:
        rows = [
            f"<td align='right'>{escape(keys)}</td><td>&nbsp;&nbsp;{escape(words)}</td>"
            for keys, words in self.shortcuts()
        ]
        half = (len(rows) + 1) // 2
        pairs = zip_longest(rows[:half], rows[half:], fillvalue="")
        cells = "".join(f"<tr>{left}<td>&nbsp;&nbsp;</td>{right}</tr>" for left, right in pairs)
        words = tr("Keyboard Shortcuts")
        inform(self._window, words, words, f"<table>{cells}</table>")

    def shortcuts(self) -> list[Shortcut]:
        """Return the shortcuts of all commands, as the system writes them."""
        native = QKeySequence.SequenceFormat.NativeText
        actions = (action for action in self if not action.shortcut().isEmpty())
        found = [Shortcut(a.shortcut().toString(native), a.text()) for a in actions]
        first, last = (QKeySequence(keys).toString(native) for keys in ("Ctrl+1", "Ctrl+9"))
        return [*found, Shortcut(f"{first}–{last}", tr("First to ninth chat"))]


def _in_focus(slot: str) -> Callable[[], object]:
    """Return a function that calls a slot of the focused text field."""

    def do() -> None:
        text = QApplication.focusWidget()
        if text is not None and text.metaObject().indexOfMethod(f"{slot}()") >= 0:
            QMetaObject.invokeMethod(text, slot)

    return do
