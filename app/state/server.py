"""The window's API server while it runs: address, requests, and their speed."""

from collections import deque
from time import monotonic
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.settings import KeptSettings
from app.state.state import State
from app.values.app_settings import ServerSettings
from app.worker.window_server import Ended, Listening, WindowServer
from mlx_engine.service.engine_thread import EngineThread

LOOK_MS = 500
SPEED_LOOKS = 5
"""Number of samples over which the speed is averaged."""
END_S = 1.5


class Generated(NamedTuple):
    """Total number of generated tokens, and the time in seconds."""

    tokens: int
    at: float


class ServerState(State):
    """Runs the server as the settings say, from `begin` to `close`.

    address: where it listens, "" if it does not. problem: why not, in words. requests: number of
    running and waiting requests. tokens_per_second: of all of them. model: name of the model in use
    for requests, "" for none.
    """

    _reported = Signal(object)

    def __init__(
        self, thread: EngineThread, settings: KeptSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._thread, self._settings = thread, settings
        self.address, self.problem, self.model = "", "", ""
        self.requests, self.tokens_per_second = 0, 0.0
        self._server: WindowServer | None = None
        self._failed: ServerSettings | None = None
        self._generated = deque[Generated](maxlen=SPEED_LOOKS)
        self._looks = QTimer(self, interval=LOOK_MS)
        self._looks.timeout.connect(self._look)
        self._reported.connect(self._take)
        self._is_closed = True

    @property
    def is_on(self) -> bool:
        """Whether the server is switched on."""
        return self._settings.value.server.is_on

    def begin(self) -> None:
        """Follow the settings from now on."""
        self._is_closed = False
        self._settings.changed.connect(self._follow)
        self._follow()

    def close(self) -> None:
        """End the server; waits a second or two."""
        self._is_closed = True
        self._looks.stop()
        if self._server is not None:
            self._server.stop()
            self._server.wait(END_S)

    def _follow(self) -> None:
        """Start or stop the server; settings that failed are not tried again."""
        wanted, server = self._settings.value.server, self._server
        if self._is_closed:
            return
        if not wanted.is_on:
            self._failed = None
            self._show("", "")
        if server is not None and server.settings != wanted:
            server.stop()  # its end comes back here
        elif server is None and wanted.is_on and wanted != self._failed:
            self._show("", "")
            self._server = WindowServer(self._thread, wanted, self._reported.emit)

    def _take(self, report: Listening | Ended) -> None:
        if isinstance(report, Listening):
            self._show(report.address, "")
            self._looks.start()
            self._look()
            return
        if report.problem and self._server is not None:
            self._failed = self._server.settings
        self._server = None
        self._looks.stop()
        self._generated.clear()
        self.requests, self.tokens_per_second = 0, 0.0
        self._show("", report.problem)
        self._follow()

    def _look(self) -> None:
        if self._server is None:
            return
        before = (self.requests, self.tokens_per_second, self.model)
        self.requests = self._thread.running_answers + self._thread.waiting_answers
        described = self._thread.description
        self.model = "" if described is None else described.name
        self._generated.append(Generated(self._server.tokens, monotonic()))
        first, last = self._generated[0], self._generated[-1]
        spent = last.at - first.at
        self.tokens_per_second = (last.tokens - first.tokens) / spent if spent else 0.0
        if before != (self.requests, self.tokens_per_second, self.model):
            self.changed.emit()

    def _show(self, address: str, problem: str) -> None:
        if (address, problem) != (self.address, self.problem):
            self.address, self.problem = address, problem
            self.changed.emit()
