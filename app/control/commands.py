"""Connects every command with what carries it out, keeps them true, and says where keys go then."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QMetaObject, QObject, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QPlainTextEdit

from app.control.chat_list import ChatListController
from app.control.compare import CompareController
from app.control.files import FileController
from app.control.settings import LookController
from app.state.chat import ChatState
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.window.main_window import Panel
from app.window.widgets import Widgets

EDITING = {"select-all": "selectAll"} | {
    name: name for name in ("undo", "redo", "cut", "copy", "paste")
}
"""Commands for the text that has the keys -> slots that all of Qt's text widgets have."""
NUMBERED_CHATS = 9
LEAVE_A_CARD = {
    *EDITING,
    *("stop", "open", "quit", "close-window", "minimise", "zoom-window", "full-screen"),
    *("larger", "smaller", "actual-size", "system", "light", "dark", "log", "about", "shortcuts"),
}
"""The other commands have to do with what a card covers, and close it."""


class CommandController(QObject):
    """Menus, shortcuts and the buttons that mean the same."""

    def __init__(
        self,
        widgets: Widgets,
        chat: ChatState,
        compare: CompareController,
        models: ModelState,
        listed: ChatListController,
        look: LookController,
        files: FileController,
        settings: KeptSettings,
        new_chat: Callable[[], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._widgets, self._chat, self._listed = widgets, chat, listed
        self._look, self._files, self._settings = look, files, settings
        self._compare, self._models = compare, models
        self._new_chat = new_chat
        self._connect()
        self._connect_buttons()
        self._connect_focus()
        widgets.window.folded.connect(self.refresh)
        settings.changed.connect(self.refresh)
        models.changed.connect(self.refresh)
        compare.changed.connect(self.refresh)
        chat.changed.connect(self.refresh)
        self.refresh()

    def _connect(self) -> None:
        widgets, chat, look = self._widgets, self._chat, self._look
        window, transcript = widgets.window, widgets.transcript
        commands: dict[str, Callable[[], object]] = {
            "new-chat": self._begin_chat,
            "open": self._files.choose,
            "library": lambda: window.show_page("library"),
            "import-chat": self._files.import_chat,
            "new-folder": self._make_folder,
            "export-chat": lambda: self._with_chats(lambda *chats: self._files.export(chats)),
            "settings": lambda: window.show_page("settings"),
            "quit": window.close,
            **{name: _in_focus(slot) for name, slot in EDITING.items()},
            "undo": self._undo,
            "copy-answer": transcript.copy_last_answer,
            "find": self._in_chat(transcript.open_find),
            "find-next": self._in_chat(lambda: transcript.find_further(1)),
            "find-previous": self._in_chat(lambda: transcript.find_further(-1)),
            "search": self._search,
            "undo-delete": widgets.sidebar.undo.undo,
            "stop": self._stop,
            "regenerate": self._in_chat(chat.regenerate),
            "continue": self._in_chat(chat.continue_answer),
            "compare": self._show_compare,
            "rename-chat": self._rename,
            "pin-chat": self._pin,
            "duplicate-chat": lambda: self._with_chat(self._listed.duplicate),
            "delete-chat": lambda: self._with_chats(self._listed.delete),
            "previous-chat": lambda: widgets.sidebar.list.choose_neighbour(-1),
            "next-chat": lambda: widgets.sidebar.list.choose_neighbour(1),
            "sidebar": lambda: window.show_sidebar(not window.has_sidebar),
            "session": lambda: self._toggle("session"),
            "drafting": lambda: self._toggle("drafting"),
            "drafted-words": self._toggle_drafted_words,
            "bin": lambda: self._listed.show_bin(widgets.actions["bin"].isChecked()),
            "latest": self._in_chat(transcript.column.follow),
            "larger": lambda: look.zoom(1),
            "smaller": lambda: look.zoom(-1),
            "actual-size": lambda: look.zoom(0),
            "system": lambda: look.choose("system"),
            "light": lambda: look.choose("light"),
            "dark": lambda: look.choose("dark"),
            "minimise": window.showMinimized,
            "zoom-window": lambda: self._switch(Qt.WindowState.WindowMaximized),
            "full-screen": lambda: self._switch(Qt.WindowState.WindowFullScreen),
            "close-window": window.close,
            "shortcuts": self._files.show_shortcuts,
            "log": self._files.show_log,
            "about": self._files.show_about,
        }
        for name, command in commands.items():
            widgets.actions[name].triggered.connect(self._carried_out(name, command))
        for place in range(NUMBERED_CHATS):
            keys = QShortcut(QKeySequence(f"Ctrl+{place + 1}"), window)
            keys.activated.connect(partial(widgets.sidebar.list.choose_at, place))

    def _connect_buttons(self) -> None:
        widgets, actions = self._widgets, self._widgets.actions
        window = widgets.window
        widgets.sidebar.new_wanted.connect(actions["new-chat"].trigger)
        widgets.sidebar.library_wanted.connect(actions["library"].trigger)
        widgets.head.model_wanted.connect(actions["library"].trigger)
        widgets.head.sidebar.clicked.connect(actions["sidebar"].trigger)
        widgets.head.session.clicked.connect(actions["session"].trigger)
        widgets.head.compare.clicked.connect(actions["compare"].trigger)
        widgets.session.fold_wanted.connect(lambda: window.show_panel(None))
        widgets.strip.clicked.connect(actions["drafting"].trigger)
        widgets.drafting_panel.closed.connect(window.close_drafting)
        for page in (widgets.library_page, widgets.settings_page, widgets.compare_page):
            page.closed.connect(lambda: window.show_page("chat"))
        for wanted in (
            widgets.start.open_wanted,
            widgets.library.open_wanted,
            widgets.card.other_wanted,
        ):
            wanted.connect(actions["open"].trigger)

    def _carried_out(self, name: str, command: Callable[[], object]) -> Callable[[], None]:
        """Whether the action is checked, which `triggered` brings, no command here wants. A button
        keeps no keys: Space would press it.
        """

        def run() -> None:
            if name not in LEAVE_A_CARD and self._widgets.layer.isVisible():
                self._widgets.card.closed.emit()
            command()
            if isinstance(self._widgets.window.focusWidget(), QAbstractButton):
                self._focus_message()

        return run

    def _connect_focus(self) -> None:
        """Whatever ends in the chat leaves the keys with its message."""
        widgets = self._widgets
        for ends_in_chat in (
            self._chat.opened,
            self._chat.added,
            self._chat.replaced,
            widgets.layer.left,
            widgets.sidebar.search_left,
            widgets.sidebar.list.named,
            widgets.transcript.find_bar.closed,
            widgets.transcript.reader.edit_given_up,
            widgets.session.fold_wanted,
            widgets.drafting_panel.closed,
            widgets.start.built_in_wanted,
            widgets.head.cancel_wanted,
            widgets.head.recent_chosen,
            widgets.head.eject_wanted,
        ):
            ends_in_chat.connect(lambda *_: self._focus_message())
        widgets.window.typed.connect(self._type)

    def _focus_message(self) -> None:
        """Unless another page or a card has the keys."""
        if self._widgets.window.page == "chat" and self._widgets.layer.isHidden():
            self._widgets.composer.setFocus()

    def _type(self, text: str) -> None:
        """Unless a card is to be answered first."""
        if self._widgets.layer.isHidden():
            self._widgets.composer.type(text)

    def refresh(self) -> None:
        """Make checks and availability true."""
        actions, window = self._widgets.actions, self._widgets.window
        is_answering = self._chat.running is not None
        has_work = is_answering or self._compare.is_running or self._models.loading is not None
        has_chat = self._chat.chat_id is not None
        actions.enable(has_work, "stop")
        actions.enable(has_chat and not is_answering, "regenerate", "continue")
        actions.enable(
            has_chat, "rename-chat", "pin-chat", "duplicate-chat", "delete-chat", "export-chat"
        )
        checked = {
            "pin-chat": self._chat.pinned,
            "bin": self._listed.shows_bin,
            "sidebar": window.has_sidebar,
            "session": window.is_shown("session"),
            "drafting": window.is_shown("drafting"),
            "drafted-words": self._settings.value.show_drafted,
            **{
                scheme: self._settings.value.theme == scheme
                for scheme in ("system", "light", "dark")
            },
        }
        for name, is_on in checked.items():
            actions[name].setChecked(is_on)
        self._widgets.head.session.setVisible(not window.is_shown("session"))

    def _in_chat(self, command: Callable[[], object]) -> Callable[[], object]:
        """Where its outcome is seen."""

        def run() -> None:
            self._widgets.window.show_page("chat")
            command()

        return run

    def _undo(self) -> None:
        """In the text that has the focus where it can undo something, else of a deleted chat."""
        text = self._widgets.window.focusWidget()
        match text:
            case QPlainTextEdit() if text.document().isUndoAvailable():
                text.undo()
            case QLineEdit() if text.isUndoAvailable():
                text.undo()
            case _:
                self._widgets.sidebar.undo.undo()

    def _stop(self) -> None:
        """End one thing, what the user looks at first; what there is of an answer stays."""
        if self._compare.is_running:
            self._compare.stop()
        elif self._chat.running is not None:
            self._chat.stop()
        else:
            self._models.cancel()

    def _with_chat(self, action: Callable[[int], object]) -> None:
        if self._chat.chat_id is not None:
            action(self._chat.chat_id)

    def _with_chats(self, action: Callable[..., object]) -> None:
        """Those marked in the list where several are, else the one on show."""
        marked = self._widgets.sidebar.list.selected()
        if len(marked) > 1:
            action(*marked)
        else:
            self._with_chat(action)

    def _toggle(self, panel: Panel) -> None:
        """Away if it is there; the Drafting view gives way to what it came over."""
        window = self._widgets.window
        if not window.is_shown(panel):
            window.show_panel(panel)
        elif panel == "drafting":
            window.close_drafting()
        else:
            window.show_panel(None)

    def _switch(self, state: Qt.WindowState) -> None:
        """Take the whole screen, or give it back."""
        window = self._widgets.window
        window.setWindowState(window.windowState() ^ state)

    def _toggle_drafted_words(self) -> None:
        settings = self._settings.value
        self._settings.change(replace(settings, show_drafted=not settings.show_drafted))

    def _pin(self) -> None:
        pinned = self._widgets.actions["pin-chat"].isChecked()
        self._with_chat(lambda chat_id: self._listed.pin(pinned, chat_id))

    def _rename(self) -> None:
        self._widgets.window.show_sidebar(True)
        self._with_chat(self._listed.rename)

    def _begin_chat(self) -> None:
        """In the bin it would not be listed."""
        if self._listed.shows_bin:
            self._listed.show_bin(False)
        self._new_chat()

    def _make_folder(self) -> None:
        """With the chats that are marked, where several are."""
        self._widgets.window.show_sidebar(True)
        marked = self._widgets.sidebar.list.selected()
        self._listed.new_folder(marked if len(marked) > 1 else ())

    def _show_compare(self) -> None:
        self._compare.begin()
        self._widgets.window.show_page("compare")

    def _search(self) -> None:
        self._widgets.window.show_sidebar(True)
        self._widgets.sidebar.start_search()


def _in_focus(slot: str) -> Callable[[], object]:
    """Have the text that has the keys do this; nothing where no text has."""

    def do() -> None:
        text = QApplication.focusWidget()
        if text is not None and text.metaObject().indexOfMethod(f"{slot}()") >= 0:
            QMetaObject.invokeMethod(text, slot)

    return do
