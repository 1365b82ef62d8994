"""Tool servers of the window: connections, tools, and calls."""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Qt, Signal

from app.library.tool_servers import Listed, ToolServers
from app.state.state import State
from app.values.errors import ToolServerFailed
from app.values.tools import OfferedTool, ToolResult, ToolServer


class ToolServerState(NamedTuple):
    """State of a tool server: its tools, a problem in words, or neither yet."""

    is_connecting: bool = False
    listed: Listed | None = None
    problem: str = ""


UNKNOWN = ToolServerState()
Gathered = Callable[[tuple[OfferedTool, ...]], object]
Returned = Callable[[ToolResult], object]


class Tools(State):
    """Runs the tool servers that `read_servers` returns; each starts when first needed.

    Signals:
        changed: the state of a server is another.
        failed: a server that a chat needs cannot be used.
        mended: it can, or is no longer needed.
    """

    _ended = Signal(object)

    def __init__(
        self,
        read_servers: Callable[[], Sequence[ToolServer]] = tuple,
        client: ToolServers | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._read, self._client = read_servers, client or ToolServers()
        self._known: dict[str, ToolServerState] = {}
        self._used: dict[str, ToolServer] = {}
        self._ended.connect(lambda use: use(), Qt.ConnectionType.QueuedConnection)

    @property
    def servers(self) -> tuple[ToolServer, ...]:
        """Tool servers of the settings that are switched on."""
        return tuple(server for server in self._read() if server.is_on)

    def state(self, name: str) -> ToolServerState:
        """Return the state of a server."""
        return self._known.get(name, UNKNOWN)

    def refresh(self) -> None:
        """End servers that were removed, switched off or changed in the settings."""
        current = {server.name: server for server in self.servers}
        for name, server in list(self._used.items()):
            if current.get(name) != server:
                del self._used[name]
                self.mended.emit(self.state(name).problem)
                self._known.pop(name, None)
                self._client.disconnect(name)
        self.changed.emit()

    def connect_to(self, server: ToolServer, then: Callable[[], object] = lambda: None) -> None:
        """Start a server and list its tools, then call `then`."""
        self._used[server.name] = server
        self._tell(server.name, self.state(server.name)._replace(is_connecting=True))
        future = self._client.list_tools(server)
        self._when_done(future, lambda: self._take_listed(server, future, then))

    def _take_listed(
        self, server: ToolServer, future: "Future[Listed]", then: Callable[[], object]
    ) -> None:
        if self._used.get(server.name) == server:
            try:
                self._tell(server.name, ToolServerState(listed=future.result()))
            except ToolServerFailed as error:
                self._tell(server.name, ToolServerState(problem=str(error)))
        then()

    def _tell(self, name: str, state: ToolServerState) -> None:
        if not state.problem:
            self.mended.emit(self.state(name).problem)
        self._known[name] = state
        self.changed.emit()

    def _when_done(self, future: "Future[Any]", use: Callable[[], object]) -> None:
        """Call a function on this thread once a future is done."""
        future.add_done_callback(lambda _: self._ended.emit(use))

    def gather(self, names: Sequence[str], then: Gathered) -> None:
        """Call `then` with the tools of these servers, at once if none has to be started.

        Servers that fail are reported and left out.
        """
        wanted = [server for server in self.servers if server.name in names]
        new = [server for server in wanted if self.state(server.name).listed is None]
        waiting = {server.name for server in new}

        def end(server: ToolServer) -> None:
            waiting.discard(server.name)
            if problem := self.state(server.name).problem:
                self.failed.emit(problem)
            if not waiting:
                then(self._offered(wanted))

        for server in new:
            self.connect_to(server, partial(end, server))
        if not new:
            then(self._offered(wanted))

    def _offered(self, servers: Sequence[ToolServer]) -> tuple[OfferedTool, ...]:
        """Return the tools of servers under unique names."""
        found = dict[str, OfferedTool]()
        for server in servers:
            listed = self.state(server.name).listed
            for offered in listed.tools if listed else ():
                name, number = offered.tool.name, 1
                while name in found:
                    number += 1
                    name = f"{offered.tool.name[:60]}_{number}"
                tool = replace(offered.tool, name=name)
                found[name] = replace(offered, tool=tool, fingerprint=server.fingerprint)
        return tuple(found.values())

    def call(self, offered: OfferedTool, arguments: str, then: Returned) -> "Future[ToolResult]":
        """Call a tool; `then` gets the result unless the returned future is cancelled."""
        server = self._used.get(offered.server, ToolServer())
        future = self._client.call(server, offered.name, arguments)
        self._when_done(future, lambda: self._take_result(offered.server, future, then))
        return future

    def _take_result(self, server: str, future: "Future[ToolResult]", then: Returned) -> None:
        try:
            result = future.result()
        except CancelledError:
            return
        except ToolServerFailed as error:
            self._tell(server, ToolServerState(problem=str(error)))
            result = ToolResult(str(error), is_failed=True)
        then(result)

    def close(self) -> None:
        """End all servers."""
        self._client.close()
