"""The window's API server: other programs use the model over HTTP, in a thread of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from errno import EADDRINUSE
from threading import Thread
from typing import TYPE_CHECKING

from app.values.app_settings import ServerSettings
from app.worker.replies import problem_of
from mlx_engine.service.engine_thread import EngineThread
from mlx_engine.values.errors import EngineMisuse
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from mlx_engine.server.run import Server

GRACE_S = 1


@dataclass(frozen=True, slots=True)
class Listening:
    """The server answers at this address."""

    address: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The server has ended. problem: why it could not begin, in words."""

    problem: str = ""


class WindowServer:
    """Serves guests of the engine's thread from its making to `stop`.

    report: called with Listening and Ended, on the server's thread.
    """

    def __init__(
        self,
        thread: EngineThread,
        settings: ServerSettings,
        report: Callable[[Listening | Ended], None],
    ) -> None:
        self.settings = settings
        self._engine_thread, self._report = thread, report
        self._server: Server | None = None
        self._is_stopped = False
        self._thread = Thread(target=self._run, name="server", daemon=True)
        self._thread.start()

    @property
    def tokens(self) -> int:
        """Number of tokens generated so far."""
        return 0 if self._server is None else self._server.desk.tokens

    def stop(self) -> None:
        """End all requests with an error, and the server soon; returns at once."""
        self._is_stopped = True
        error = EngineMisuse("The server was switched off: ask again when it runs.")
        thread = self._engine_thread
        thread.run_soon(lambda: thread.end_client_answers(error, includes_waiting=True))
        if self._server is not None:
            self._server.stop()

    def wait(self, timeout_s: float) -> None:
        """Wait until the server has ended."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        from mlx_engine.server.run import Server, ServerOptions  # not before the window is shown

        port, key = self.settings.port, self.settings.key
        try:
            options = ServerOptions(port=port, key=key or None)
            server = Server(self._engine_thread, options, shutdown_grace_s=GRACE_S)
        except Exception as error:
            self._report(Ended(_problem(port, error)))
            return
        self._server = server
        if not self._is_stopped:
            self._report(Listening(server.address))
            server.run()
        server.close()
        self._report(Ended())


def _problem(port: int, error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == EADDRINUSE:
        return Words("Another program uses port {port}: choose another one.", port=port)
    return problem_of(error).words
