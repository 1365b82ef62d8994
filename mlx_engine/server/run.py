"""Run the server: open the model, listen, and end politely."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EADDRINUSE

import uvicorn

from mlx_engine import Engine
from mlx_engine.server.application import application
from mlx_engine.server.desk import Desk
from mlx_engine.service.engine_thread import EngineThread
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DraftOptions, require

LOOPBACK = ("127.0.0.1", "localhost", "::1")
GRACE_S = 5
"""Seconds that running answers get to end after a request to stop."""


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


def serve(
    open_engine: Callable[[], Engine],
    options: ServerOptions,
    draft: DraftOptions,
    announce: Callable[[str, str], None],
) -> None:
    """Serve until a signal ends it. Raises EngineError.

    draft: draft options of requests that set none. announce: called with the model's name and the
    address once the server listens.
    """
    listening = listener(options.host, options.port)
    thread = EngineThread(open_engine, options.parallel)
    thread.start()
    try:
        thread.opened.result()
        description = thread.call(lambda engine: engine.description).result()
        desk = Desk(thread, description, draft)
        app = application(desk, options.hosts, options.key, options.origins)
        host, port = listening.getsockname()[:2]
        announce(description.name, f"http://{f'[{host}]' if ':' in host else host}:{port}")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_S)
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        thread.close()
        listening.close()


def listener(host: str, port: int) -> socket.socket:
    """Listen at an address. Raises BadOption."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = "it is in use" if error.errno == EADDRINUSE else str(error.strerror or error)
        raise BadOption(
            "The server cannot listen at {host}, port {port}: {why}. Choose another with --port or "
            "--host.",
            host=host,
            port=port,
            why=why,
        ) from error
