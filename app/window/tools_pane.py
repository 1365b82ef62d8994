"""The settings pane of tool servers: a list with their states, and a form."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from app.state.settings import KeptSettings
from app.state.tools import Tools, ToolServerState
from app.values.tools import ToolServer, servers_from_text, text_of_server
from app.window.controls.choices import Tick
from app.window.controls.dialogs import confirm
from app.window.controls.fields import Lines
from app.window.controls.icons import IconButton
from app.window.controls.labels import describe, label, paragraph, restyle, say
from app.window.controls.layouts import STRETCH, Wide, column, row
from app.window.language import tr
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words

ABOUT = Words(
    "A tool server is a program that gives models tools, such as searching the web or reading "
    "files (Model Context Protocol, MCP). Use servers that you trust only: they run with all your "
    "rights. Turn tools on for a chat in its settings; each call asks you first."
)
HINT = Words("npx -y some-server ~/Documents, or https://example.com/mcp, or JSON with mcpServers")


class ToolsPane(QWidget):
    """Lists the tool servers of the settings, which can be added, changed, switched and removed."""

    def __init__(self, settings: KeptSettings, tools: Tools) -> None:
        super().__init__()
        self._settings, self._tools = settings, tools
        self._shown: tuple[ToolServer, ...] = ()
        self._states: list[Shown] = []
        self._edited = ""
        self._rows, self._title = column(spacing=12), label("", "muted")
        self.name, self.start = QLineEdit(), Lines(4)
        self.name.setPlaceholderText(tr("Name"))
        self.name.setAccessibleName(tr("Name of the tool server"))
        self.start.setPlaceholderText(tr(HINT))
        describe(self.name, tr("What chats call the server. JSON has names of its own."))
        describe(self.start, tr(HINT))
        self.start.setAccessibleName(tr("Command, address or JSON of the tool server"))
        self._problem = paragraph("", "problem")
        say(self._problem, "")
        self.save, self._cancel = QPushButton(), QPushButton(tr("Cancel"))
        self.save.clicked.connect(self._save)
        self.name.returnPressed.connect(self._save)
        self._cancel.clicked.connect(lambda: self._edit(None))
        foot = row(self.save, self._cancel, STRETCH, spacing=8)
        form = (self._title, self.name, self.start, self._problem, foot)
        rows = QWidget()
        rows.setLayout(self._rows)
        column(paragraph(tr(ABOUT), "muted"), rows, 8, *form, of=self, spacing=8)
        settings.changed.connect(self._show)
        tools.changed.connect(self._show)
        self._edit(None)
        self._show()

    def _show(self) -> None:
        """Show the present servers; rows are only remade if the servers changed."""
        servers = self._settings.value.tool_servers
        if servers != self._shown or not self._states:
            self._shown = servers
            for old in self._states:
                self._rows.removeWidget(old)
                old.hide()
                old.deleteLater()
            self._states = []
            for server in servers:
                self._states.append(Shown(server, self))
                self._rows.addWidget(self._states[-1])
        for shown in self._states:
            shown.show_state(self._tools.state(shown.server.name))

    def switch(self, server: ToolServer, is_on: bool) -> None:
        """Switch a server on and connect to it, or off."""
        self._keep([replace(s, is_on=is_on) if s == server else s for s in self._shown])
        if is_on:
            self._tools.connect_to(replace(server, is_on=True))

    def remove(self, server: ToolServer) -> None:
        """Remove a server from the settings, after a question."""
        question = tr("Remove the tool server “{name}”?", name=server.name)
        details = tr("Chats no longer have its tools.")
        confirm(self, question, details, tr("Remove"), lambda: self._remove(server))

    def _remove(self, server: ToolServer) -> None:
        self._keep([other for other in self._shown if other != server])
        if server.name == self._edited:
            self._edit(None)

    def edit(self, server: ToolServer) -> None:
        """Edit a server in the form."""
        self._edit(server)
        self.start.setFocus()

    def _keep(self, servers: Sequence[ToolServer]) -> None:
        value = self._settings.value
        self._settings.change(replace(value, tool_servers=tuple(servers)))

    def _edit(self, server: ToolServer | None) -> None:
        """Fill the form for a server, None for a new one."""
        self._edited = server.name if server else ""
        self.name.setText(self._edited)
        self.start.setPlainText(text_of_server(server) if server else "")
        new = tr("Add a tool server")
        self._title.setText(tr("Change “{name}”", name=self._edited) if server else new)
        self.save.setText(tr("Save") if server else tr("Add"))
        self._cancel.setVisible(server is not None)
        self._say("")

    def _say(self, problem: str) -> None:
        say(self._problem, problem)
        restyle(self.start, "bad", bool(problem))

    def _refuse_others_names(self, added: Sequence[ToolServer]) -> None:
        """Raise BadOption if a server has the name of another one."""
        taken = {server.name for server in self._shown} - {self._edited}
        for server in added:
            if server.name in taken:
                raise BadOption(
                    "There is a server “{name}” already: choose another name, or remove that one.",
                    name=server.name,
                )

    def _save(self) -> None:
        """Store the server of the form, in place of the edited one, and connect to it."""
        try:
            added = servers_from_text(self.name.text(), self.start.toPlainText())
            self._refuse_others_names(added)
        except BadOption as problem:
            self._say(str(problem))
            return
        new = {server.name: server for server in added}
        gone = {self._edited} - set(new)
        kept = [new.pop(s.name, s) for s in self._shown if s.name not in gone]
        self._keep([*kept, *new.values()])
        self._edit(None)
        for server in added:
            if server.is_on:
                self._tools.connect_to(server)


class Shown(QWidget):
    """A row of the list: a server's switch, its state, and buttons to change or remove it."""

    def __init__(self, server: ToolServer, pane: ToolsPane) -> None:
        super().__init__()
        self.server = server
        self.tick = Tick(server.name)
        self.tick.set_value(server.is_on)
        self.tick.chosen.connect(lambda is_on: pane.switch(server, is_on))
        self.change = IconButton("edit", tr("Change {name}", name=server.name))
        self.remove = IconButton("delete", tr("Remove {name}", name=server.name))
        self.change.clicked.connect(lambda: pane.edit(server))
        self.remove.clicked.connect(lambda: pane.remove(server))
        self._state = paragraph("", "muted")
        column(
            row(Wide(self.tick), self.change, self.remove, spacing=4),
            self._state,
            of=self,
            spacing=2,
        )

    def show_state(self, state: ToolServerState) -> None:
        """Show the state of the server."""
        words = state_in_words(state) if self.server.is_on else tr("Off")
        self._state.setText(words)
        restyle(self._state, "role", "problem" if state.problem else "muted")
        describe(self.tick, words)


def state_in_words(state: ToolServerState) -> str:
    """Describe the state of a tool server."""
    if state.is_connecting:
        return tr("Starting…")
    if state.problem:
        return tr(state.problem)
    if state.listed is None:
        return tr("Starts when a chat needs it")
    words = tr("{n} tools", "1 tool", len(state.listed.tools))
    if not state.listed.broken:
        return words
    names = ", ".join(state.listed.broken)
    return words + " · " + tr("left out, with a broken schema: {names}", names=names)
