"""Run the server: open the model, listen, and end politely."""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EADDRINUSE
from math import ceil

import uvicorn

from mlx_engine import Engine
from mlx_engine.server.application import BODY_S, application
from mlx_engine.server.desk import CLOSING, EngineConnection
from mlx_engine.service.engine_thread import EngineThread
from mlx_engine.values.errors import BadOption, EngineMisuse
from mlx_engine.values.options import DraftOptions, require

LOOPBACK = ("127.0.0.1", "localhost", "::1")
GRACE_S = 5
"""Seconds that answers get to end by themselves after a request to stop."""
LAST_S = 2
"""Seconds after which the connections of answers that were ended with an error are cut."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the server listens and whom it answers.

    key: what requests must show; an address that other machines reach needs one. parallel: answers
    that run at once. origins: web pages that may ask. names: names of this machine, beside `host`,
    by which it is asked.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    key: str | None = None
    parallel: int = 4
    origins: Sequence[str] = ()
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        require("port", self.port, "0 to 65535", lambda port: 0 <= port <= 65535)
        require("parallel", self.parallel, "1 or more", lambda count: count >= 1)
        if self.host not in LOOPBACK and not self.key:
            raise BadOption(
                "The address {host} can be reached from other machines: give a key with --api-key "
                "or HEADSTART_API_KEY, or use 127.0.0.1.",
                host=self.host,
            )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in a request's Host header that are answered."""
        if self.host in ("0.0.0.0", "::") and not self.names:
            return ("*",)  # the key keeps strangers out
        return (*LOOPBACK, "[::1]", self.host, *self.names)


class Server:
    """A server that listens from its making on; `run` answers what is asked of an engine's thread.

    desk: of its endpoints. shutdown_grace_s: seconds that answers get to end after a request to
    stop; then they end with an error. body_timeout_s: seconds to wait for more of a body. Raises
    BadOption where it cannot listen.
    """

    def __init__(
        self,
        thread: EngineThread,
        options: ServerOptions,
        draft: DraftOptions | None = None,
        shutdown_grace_s: float = GRACE_S,
        body_timeout_s: float = BODY_S,
    ) -> None:
        """draft: draft options of requests that set none."""
        self._socket = listening_socket(options.host, options.port)
        self.desk = EngineConnection(thread, draft or DraftOptions())
        app = application(self.desk, options.hosts, options.key, options.origins, body_timeout_s)
        most = ceil(shutdown_grace_s + LAST_S)
        config = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=most, lifespan="off"
        )
        self._server = _WebServer(config, thread, shutdown_grace_s)

    @property
    def address(self) -> str:
        """Address as "http://127.0.0.1:8642"."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Answer until `stop`, or a signal if this is the main thread."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Take no more requests, and end soon; from any thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Free the address."""
        self._socket.close()


class _WebServer(uvicorn.Server):
    """Web server that ends the answers of guests with an error grace_s seconds after `shutdown`."""

    def __init__(
        self, config: uvicorn.Config, thread: EngineThread, shutdown_grace_s: float
    ) -> None:
        super().__init__(config)
        self._engine_thread, self._grace_s = thread, shutdown_grace_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        thread, error = self._engine_thread, EngineMisuse(CLOSING)
        timer = asyncio.get_running_loop().call_later(
            self._grace_s,
            thread.run_soon,
            lambda: thread.end_client_answers(error, includes_waiting=True),
        )
        await super().shutdown(sockets)
        timer.cancel()


def serve(
    open_engine: Callable[[], Engine],
    options: ServerOptions,
    draft: DraftOptions,
    announce_address: Callable[[str, str], None],
) -> None:
    """Serve until a signal ends it. Raises EngineError.

    draft: draft options of requests that set none. announce_address: called with the model's name
    and the address once the server listens.
    """
    thread = EngineThread(open_engine, options.parallel)
    server = Server(thread, options, draft)
    try:
        thread.start()
        thread.opened.result()
        announce_address(server.desk.description.name, server.address)
        before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it at its end
        server.run()
        signal.signal(signal.SIGTERM, before)
    finally:
        thread.close()
        server.close()


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen at an address. Raises BadOption."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = "it is in use" if error.errno == EADDRINUSE else str(error.strerror or error)
        raise BadOption(
            "The server cannot listen at {host}, port {port}: {why}. Choose another port or "
            "address.",
            host=host,
            port=port,
            why=why,
        ) from error
