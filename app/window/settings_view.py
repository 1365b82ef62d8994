"""The settings page: panes of the app's settings, and of the defaults for new chats."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QStackedWidget, QTabBar, QWidget
from typing_extensions import override

from app.state.server import ServerState
from app.state.settings import KeptSettings
from app.state.tools import Tools
from app.values.app_settings import zoomed
from app.values.chat_settings import ChatSettings, as_preset
from app.window.controls.bound import Bound
from app.window.controls.choices import DropDown, Option, Segments, Tick
from app.window.controls.fields import LineField, TextField
from app.window.controls.labels import (
    ShortButton,
    ShortLabel,
    label,
    paragraph,
    say,
    tabular,
    unmarked,
)
from app.window.controls.layouts import STRETCH, Wide, centred, column, named, row, scrolled
from app.window.controls.numbers import NumberField, NumberKind
from app.window.language import percent, tr
from app.window.look import look
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SUCH_AS, SamplingGroup, TemplateFields
from app.window.style_sheet import THEMES
from app.window.tools_pane import ToolsPane
from mlx_engine.values.words import Words, size_words

LANGUAGES = (
    Option("system", Words("System")),
    Option("en", "English"),
    Option("de", "Deutsch"),
)
WIDTHS = (
    Option("narrow", Words("Narrow")),
    Option("usual", Words("Default")),
    Option("wide", Words("Wide")),
    Option("full", Words("Full width")),
)
ZOOMS = (
    (Words("Smaller"), Words("Smaller text"), -1),
    (Words("Larger"), Words("Larger text"), 1),
    (Words("Default"), Words("Default text size"), 0),
)
IDLE_MINUTES = (0, 5, 15, 30, 60, 240)
PROMPT_FILES_GB = (0, 2, 4, 8, 16, 32)
ABOUT_FILES = Words(
    "Stores what a model has read, so that chats continue at once after a restart. Only you can "
    "read these files. Takes effect the next time a model loads."
)
ABOUT_NEW_CHATS = Words("New chats start with these settings. Existing chats keep their own.")
ABOUT_SERVER = Words(
    "Programs made for OpenAI's or Anthropic's interface can ask the model that is loaded here; "
    "those for OpenAI's want /v1 after the address. They can't read the chats of this window."
)
PORT = Words("Number that programs need to find the server; can be changed while it is off")
KEY = Words("Programs must show this key; can be changed while the server is off")
WIDEST, SIDE = 620, 24
"""Pixels of a pane at a zoom of 1, and of the margin beside it."""


class SettingsView(QWidget):
    """Panes of settings; each is made when first shown."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Settings"))
        self._settings: KeptSettings | None = None
        self._server: ServerState | None = None
        self._stored_nbytes: Callable[[], int] = lambda: 0
        self._delete_stored: Callable[[], object] = lambda: None
        self._bound, self._new_chat = Bound(), Bound("new_chat.")
        self._panes: dict[str, Callable[[], Sequence[QWidget]]] = {
            "general": self._general,
            "appearance": self._appearance,
            "models": self._models,
            "drafting": self._drafting,
            "tools": self._tools_pane,
            "server": self._server_pane,
            "advanced": self._advanced,
        }
        self._tabs, self._made = QTabBar(), dict[str, QWidget]()
        self._tabs.setAccessibleName(tr("Settings"))
        self._tabs.setDrawBase(False)
        self._tabs.setExpanding(False)
        self._tabs.setUsesScrollButtons(False)
        self._tabs.setMinimumWidth(1)
        first = (tr("General"), tr("Appearance"), tr("Models"), tr("Drafting"))
        names = (*first, tr("Tools"), tr("Server"), tr("Advanced"))
        for name in names:
            self._tabs.addTab(unmarked(name))
        self._list = DropDown(tr("Settings"))
        self._list.show_options([Option(*each) for each in zip(self._panes, names, strict=True)])
        self._list.chosen.connect(self.show_pane)
        self._stack = QStackedWidget()
        self._tabs.currentChanged.connect(lambda place: self.show_pane(list(self._panes)[place]))
        tabs = row(STRETCH, self._tabs, STRETCH)
        column(tabs, self._list, Wide(self._stack), of=self, margins=(SIDE, 0, SIDE, 0), spacing=8)
        self._fit_names()

    def watch(
        self,
        settings: KeptSettings,
        server: ServerState,
        stored_nbytes: Callable[[], int],
        delete_stored: Callable[[], object],
        tools: Tools,
    ) -> None:
        """Show and change these settings.

        stored_nbytes, delete_stored: size of the saved prompt caches, and a function that deletes
        them.
        """
        self._settings, self._server, self._stored_nbytes = settings, server, stored_nbytes
        self._delete_stored, self._tools = delete_stored, tools
        for bound in (self._bound, self._new_chat):
            bound.watch(lambda: settings.value, settings.change, settings.changed)

    def show_pane(self, name: str) -> None:
        """Show a pane by its name."""
        if name not in self._made:
            lines = QWidget()
            lines.setObjectName("lines")
            lines.setMaximumWidth(round(WIDEST * look().zoom))
            parts = self._panes[name]()
            column(*parts, STRETCH, of=lines, margins=(0, 16, 8, 24), spacing=16)
            body = QWidget()
            body.setLayout(centred(lines))
            self._made[name] = scrolled(body)
            self._stack.addWidget(self._made[name])
            self._come_after_the_names(lines)
        self._tabs.setCurrentIndex(list(self._panes).index(name))
        self._list.set_value(name)
        self._stack.setCurrentWidget(self._made[name])

    def _fit_names(self) -> None:
        """Show the names of the panes as a row, or as a list if a row has no room."""
        has_room = self._tabs.sizeHint().width() <= self.width() - 2 * SIDE
        shown, hidden = (self._tabs, self._list) if has_room else (self._list, self._tabs)
        had_focus = hidden.hasFocus()
        shown.show()
        hidden.hide()
        self.setFocusProxy(shown)
        if had_focus:
            shown.setFocus()

    def _come_after_the_names(self, pane: QWidget) -> None:
        """Put the widgets of a new pane next in the tab order."""
        before: QWidget = self._list
        for widget in pane.findChildren(QWidget):
            takes_focus = widget.focusPolicy() != Qt.FocusPolicy.NoFocus
            if takes_focus and widget.window() is self.window():
                self.setTabOrder(before, widget)
                before = widget

    def _general(self) -> Sequence[QWidget]:
        language, bind = DropDown(tr("Language")), self._bound.bind
        language.show_options(LANGUAGES)
        what = tr(
            "Instructions the model follows in every answer of new chats, such as a role or tone."
        )
        hint = tr(SUCH_AS)
        name = tr("System prompt of new chats")
        system = TextField(name, 4, hint, shows_name=False, what=what)
        return (
            bind("load_at_start", Tick(tr("Load the last model when Headstart starts"))),
            bind("write_titles", Tick(tr("Let the model name new chats"))),
            bind("notify", Tick(tr("Notify me when a long answer finishes in the background"))),
            named(
                tr("Language"),
                bind("language", language),
                paragraph(tr("Takes effect after a restart."), "muted"),
            ),
            named(name, self._new_chat.bind("system", system)),
        )

    def _appearance(self) -> Sequence[QWidget]:
        bind, size, sizes = self._bound.bind, label(), QWidget()
        tabular(size)

        def show_size() -> None:
            zoom = self._bound["text_zoom"]
            size.setText(percent(zoom))
            size.setAccessibleName(tr("Text size {percent}", percent=percent(zoom)))

        self._bound.listen(show_size)
        themes = Segments(tr("Theme"), [Option(*theme) for theme in THEMES.items()])
        row(size, 8, *(self._zoom_button(*zoom) for zoom in ZOOMS), STRETCH, of=sizes, spacing=8)
        return (
            named(tr("Theme"), bind("theme", themes)),
            named(tr("Text size"), sizes),
            named(tr("Text width"), bind("text_width", Segments(tr("Text width"), WIDTHS))),
        )

    def _zoom_button(self, words: str, name: str, step: int) -> ShortButton:
        def zoom() -> None:
            if self._settings is not None:
                self._settings.change(zoomed(self._settings.value, step))

        button = ShortButton()
        button.show_text(words)
        button.setAccessibleName(tr(name))
        button.clicked.connect(zoom)
        return button

    def _models(self) -> Sequence[QWidget]:
        idle, files = DropDown(tr("Unload an idle model")), DropDown(tr("Keep chats ready on disk"))
        self._held, self._forget = paragraph(), ShortButton()
        tabular(self._held)
        self._forget.show_text(tr("Delete All"))
        self._forget.setAccessibleName(tr("Delete everything stored of chats"))
        self._forget.clicked.connect(self._delete_all)
        held = QWidget()
        row(Wide(self._held), self._forget, of=held, spacing=8)

        def show_options() -> None:
            minutes, gb = self._bound["idle_minutes"], self._bound["prompt_files_gb"]
            times = [Option(n, idle_words(n)) for n in sorted({*IDLE_MINUTES, minutes})]
            idle.show_options(times, minutes)
            sizes = sorted({*PROMPT_FILES_GB, gb})
            off = tr("Off")
            files.show_options([Option(n, size_words(n * 1e9) if n else off) for n in sizes], gb)

        self._bound.listen(show_options)
        self._show_held()
        about = paragraph(tr("Your next message loads it again."), "muted")
        files_about = paragraph(ABOUT_FILES, "muted")
        return (
            named(idle.accessibleName(), self._bound.bind("idle_minutes", idle), about),
            named(
                files.accessibleName(),
                self._bound.bind("prompt_files_gb", files),
                files_about,
                held,
            ),
        )

    def _show_held(self) -> None:
        nbytes = self._stored_nbytes()
        words = tr("Using {size} now.", size=size_words(nbytes))
        self._held.setText(words if nbytes else tr("Nothing is stored now."))
        self._forget.setEnabled(nbytes > 0)

    def _delete_all(self) -> None:
        self._delete_stored()
        self._show_held()

    def _drafting(self) -> Sequence[QWidget]:
        drafted = Tick(tr("Highlight drafted words"))
        return (
            self._bound.bind("show_drafted", drafted),
            paragraph(ABOUT_NEW_CHATS, "muted"),
            DraftGroup(self._new_chat, of_chat=False),
        )

    def _tools_pane(self) -> Sequence[QWidget]:
        assert self._settings is not None
        return (ToolsPane(self._settings, self._tools),)

    def _server_pane(self) -> Sequence[QWidget]:
        bind, server = self._bound.bind, self._server
        switch = Tick(tr("Let other programs on this computer use the model"))
        port = NumberField(tr("Port"), NumberKind(1, 65535), PORT)
        key = LineField(tr("Key"), KEY, tr("not needed"))
        address, problem, status = ShortLabel(), paragraph("", "problem"), paragraph("", "muted")
        copy = ShortButton()
        copy.show_text(tr("Copy"))
        copy.setAccessibleName(tr("Copy the address"))
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(address.accessibleName()))
        line = QWidget()
        row(Wide(address), copy, of=line, spacing=8)

        def show() -> None:
            if server is None:
                return
            address.show_text(server.address)
            line.setVisible(bool(server.address))
            say(problem, server.problem if server.is_on else "")
            say(status, served_words(server) if server.address else "")
            for field in (port, key):
                field.setEnabled(not server.address)

        if server is not None:
            server.changed.connect(show)
        show()
        return (
            bind("server.is_on", switch),
            paragraph(ABOUT_SERVER, "muted"),
            problem,
            line,
            status,
            bind("server.port", port),
            bind("server.key", key),
        )

    def _advanced(self) -> Sequence[QWidget]:
        reset = ShortButton()
        reset.show_text(tr("Restore Defaults"))
        reset.clicked.connect(self._restore_defaults)

        def allow_reset() -> None:
            new_chat = self._bound["new_chat"]
            reset.setEnabled(as_preset(new_chat) != ChatSettings(system=new_chat.system))

        self._bound.listen(allow_reset)
        foot = QWidget()
        row(reset, STRETCH, of=foot)
        return (
            paragraph(ABOUT_NEW_CHATS, "muted"),
            TemplateFields(self._new_chat),
            SamplingGroup(self._new_chat),
            foot,
        )

    def _restore_defaults(self) -> None:
        """Reset all settings of new chats but the system prompt."""
        self._bound["new_chat"] = ChatSettings(system=self._bound["new_chat"].system)

    # Qt

    @override
    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show:
            self.show_pane(list(self._panes)[self._tabs.currentIndex()])
            if "models" in self._made:
                self._show_held()
        elif event.type() == QEvent.Type.StyleChange:
            for lines in self.findChildren(QWidget, "lines"):
                lines.setMaximumWidth(round(WIDEST * look().zoom))
            self._fit_names()
        elif event.type() == QEvent.Type.Resize:
            self._fit_names()
        return bool(super().event(event))


def served_words(server: ServerState) -> str:
    """Say the model's name at the server, and how many requests it answers."""
    if not server.model:
        return tr("No model is loaded: requests are refused.")
    if not server.requests:
        return tr("Model: {name}", name=server.model)
    return tr(
        "Model: {name} · {n} requests · {speed:.0f} tok/s",
        "Model: {name} · 1 request · {speed:.0f} tok/s",
        server.requests,
        name=server.model,
        speed=server.tokens_per_second,
    )


def idle_words(minutes: int) -> str:
    """Format a time: "After 30 minutes", "After 1 hour", "Never" for 0."""
    if not minutes:
        return tr("Never")
    if minutes % 60:
        return tr("After {n} minutes", "After 1 minute", minutes)
    return tr("After {n} hours", "After 1 hour", minutes // 60)
