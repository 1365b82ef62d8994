"""A server that really listens, in threads of the test's process."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, NamedTuple

from mlx_engine import Engine
from mlx_engine.server.application import BODY_S
from mlx_engine.server.desk import EngineConnection
from mlx_engine.server.run import GRACE_S, Server, ServerOptions
from mlx_engine.service.engine_thread import EngineThread


@dataclass
class LiveServer:
    """address: "http://127.0.0.1:PORT"."""

    address: str
    desk: EngineConnection

    def in_process(self, work: Callable[[Engine], Any]) -> Any:
        """What the engine itself says to the same."""
        return self.desk.thread.call(work).result(60)


@contextmanager
def live_server(
    open_engine: Callable[[], Engine],
    parallel: int = 4,
    waiting: int = 64,
    key: str | None = None,
    body_s: float = BODY_S,
    grace_s: float = GRACE_S,
) -> Iterator[LiveServer]:
    """Serves until the end of the context."""
    thread = EngineThread(open_engine, parallel, waiting)
    server = Server(thread, ServerOptions(port=0, key=key), None, grace_s, body_s)
    thread.start()
    thread.opened.result(60)
    running = threading.Thread(target=server.run)
    running.start()
    try:
        yield LiveServer(server.address, server.desk)
    finally:
        server.stop()
        running.join()
        thread.close()
        server.close()


class Reply(NamedTuple):
    """A response: its status, headers and text."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(
    server: LiveServer, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Reply:
    """GET without a body, POST of JSON or of bytes with one."""
    connection = HTTPConnection(server.address.removeprefix("http://"), timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {})}
    try:
        if body is None:
            connection.request("GET", path, headers=headers or {})
        else:
            connection.request("POST", path, data, given)
        response = connection.getresponse()
        lower = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, lower, response.read().decode())
    finally:
        connection.close()
