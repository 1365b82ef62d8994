"""A client of tool servers (Model Context Protocol) that runs in a thread of its own."""

import asyncio
import json
import logging
import re
import tempfile
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from app.values.errors import ToolServerFailed
from app.values.tools import MOST_CHARACTERS, OfferedTool, ToolResult, ToolServer, cut_result
from mlx_engine.values.conversation import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

T = TypeVar("T")
CONNECT_S = 20.0
CALL_S = 120.0
CLOSE_S = 6.0
"""Seconds to connect and list tools, for a tool call to return, and for all servers to end."""
MOST_PAGES = 50
NAME = re.compile(r"[^\w.-]", re.ASCII)
"""Matches characters that are not allowed in tool names."""


class Listed(NamedTuple):
    """The usable tools of a server, and names of tools with an invalid schema."""

    tools: tuple[OfferedTool, ...]
    broken: tuple[str, ...] = ()


class _Connection(NamedTuple):
    """A connected server. ended: set it to disconnect. task: the task that holds the connection."""

    server: ToolServer
    client: "Client"
    listed: Listed
    ended: asyncio.Event
    task: asyncio.Task[None]


class ToolServers:
    """Starts servers when first used, lists their tools, and calls them; thread-safe.

    Futures fail with ToolServerFailed; a cancelled future cancels its request.
    """

    def __init__(self, connect_s: float = CONNECT_S, call_s: float = CALL_S) -> None:
        self._connect_s, self._call_s = connect_s, call_s
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._connections: dict[str, _Connection] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def list_tools(self, server: ToolServer) -> Future[Listed]:
        """Start a server unless it runs, and list its tools."""
        return self._run(self._list(server))

    def call(self, server: ToolServer, name: str, arguments: str) -> Future[ToolResult]:
        """Call a tool with arguments as JSON; a long result is cut."""
        return self._run(self._call(server, name, arguments))

    def disconnect(self, name: str) -> Future[None]:
        """Disconnect from a server."""
        return self._run(self._disconnect(name))

    def close(self) -> None:
        """End all servers, by force if necessary, and the thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end_all(), loop)
        thread.join(CLOSE_S)

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._loop is None:
                logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs what servers print
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._serve, args=(self._loop,), name="tools")
                self._thread.daemon = True
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    async def _end_all(self) -> None:
        """Close all connections, and cancel pending requests."""
        own = asyncio.current_task()
        for connection in self._connections.values():
            connection.ended.set()
        held = [connection.task for connection in self._connections.values()]
        waiting = [task for task in asyncio.all_tasks() if task not in (own, *held)]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*held, *waiting, return_exceptions=True)
        asyncio.get_running_loop().stop()

    # on the loop

    async def _list(self, server: ToolServer) -> Listed:
        return (await self._connected(server)).listed

    async def _connected(self, server: ToolServer) -> _Connection:
        """Return the connection to a server, a new one if the server's settings changed."""
        async with self._locks.setdefault(server.name, asyncio.Lock()):
            current = self._connections.get(server.name)
            if current is not None and current.server == server and not current.task.done():
                return current
            await self._disconnect(server.name)
            connection = await self._connect(server)
            self._connections[server.name] = connection
            return connection

    async def _connect(self, server: ToolServer) -> _Connection:
        ready = asyncio.get_running_loop().create_future()
        ended = asyncio.Event()
        task = asyncio.ensure_future(self._hold(server, ready, ended))
        try:
            async with asyncio.timeout(self._connect_s):
                client, listed = await asyncio.shield(ready)
        except TimeoutError as error:
            await _ended(task)
            raise _failure(server, error, self._connect_s) from error
        except BaseException:
            await _ended(task)
            raise
        return _Connection(server, client, listed, ended, task)

    async def _hold(
        self,
        server: ToolServer,
        ready: "asyncio.Future[tuple[Client, Listed]]",
        ended: asyncio.Event,
    ) -> None:
        """Keep a connection open in one task, as the library demands, until it is ended."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                from mcp import Client

                async with AsyncExitStack() as stack:
                    transport = await _transport(server, errors, stack)
                    client = await stack.enter_async_context(Client(transport))
                    ready.set_result((client, await _listed(client, server.name)))
                    await ended.wait()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if not ready.done():
                    ready.set_exception(
                        _failure(server, error, self._connect_s, _last_line(errors))
                    )

    async def _disconnect(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.ended.set()
            await asyncio.gather(connection.task, return_exceptions=True)

    async def _call(self, server: ToolServer, name: str, arguments: str) -> ToolResult:
        connection = await self._connected(server)
        try:
            async with asyncio.timeout(self._call_s):
                result = await connection.client.call_tool(name, json.loads(arguments))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reported = _reported(error)
            if reported is not None:
                return ToolResult(cut_result(reported), is_failed=True)
            await self._disconnect(server.name)
            raise _failure(server, error, self._call_s) from error
        return ToolResult(cut_result(result_text(result)), is_failed=bool(result.is_error))


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _transport(server: ToolServer, errors: TextIO, stack: AsyncExitStack) -> Any:
    """Open the streams to and from a server."""
    if server.command:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        program = StdioServerParameters(
            command=_expanded(server.command),
            args=[_expanded(argument) for argument in server.arguments],
            env=dict(server.environment),
        )
        return stdio_client(program, errors)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    http = httpx2.AsyncClient(headers=dict(server.headers), timeout=CALL_S)
    return streamable_http_client(server.url, http_client=await stack.enter_async_context(http))


def _expanded(word: str) -> str:
    """Replace "~" by the home folder, as a shell does."""
    return str(Path(word).expanduser()) if word.startswith("~/") else word


async def _listed(client: "Client", server: str) -> Listed:
    """List all tools of a server."""
    found: list[ListedTool] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    tools = [_offered(server, tool) for tool in found if _is_sound(tool.input_schema)]
    broken = tuple(tool.name for tool in found if not _is_sound(tool.input_schema))
    return Listed(tuple(tools), broken)


def _offered(server: str, tool: "ListedTool") -> OfferedTool:
    name = NAME.sub("_", tool.name)[:64] or "tool"
    return OfferedTool(
        server, tool.name, Tool(name, tool.description or "", dict(tool.input_schema))
    )


def _is_sound(schema: Any) -> bool:
    """Whether a value is a JSON schema of an object, as tool arguments are."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return False
    try:
        validator_for(schema).check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def result_text(result: "CallToolResult") -> str:
    """Return the text of a tool result; other content is named."""
    parts = list[str]()
    for part in result.content:
        if part.type == "text":
            parts.append(part.text)
        elif part.type == "resource":
            text = part.resource.model_dump().get("text")
            parts.append(text if isinstance(text, str) else f"[file: {part.resource.uri}]")
        elif part.type == "resource_link":
            parts.append(f"[link: {part.uri}]")
        else:
            parts.append(f"[{part.type}, {part.mime_type}: not shown]")
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n\n".join(parts)


def _reported(error: BaseException) -> str | None:
    """Return the server's own error message for a call, None for any other error."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    error = _first(error)
    if isinstance(error, MCPError) and error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        return error.message
    return None


def _first(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _last_line(errors: TextIO) -> str:
    """Return the last line of a server's error output."""
    errors.seek(0)
    lines = [line.strip() for line in errors.read(MOST_CHARACTERS).splitlines()]
    return next(filter(None, reversed(lines)), "")[:200]


def _failure(
    server: ToolServer, error: BaseException, seconds: float, printed: str = ""
) -> ToolServerFailed:
    """Describe a failure of a server in a sentence."""
    cause, name = _first(error), server.name
    if isinstance(cause, ImportError):
        return ToolServerFailed(
            "Tools need a package that is not installed: pip install 'headstart[tools]'."
        )
    import httpx2

    if isinstance(cause, TimeoutError):
        return ToolServerFailed(
            "“{name}” did not answer within {seconds:.0f} s.", name=name, seconds=seconds
        )
    if isinstance(cause, FileNotFoundError):
        return ToolServerFailed(
            "“{name}”: there is no program {command}. Check its command in Settings, Tools.",
            name=name,
            command=server.command,
        )
    if isinstance(cause, httpx2.ConnectError):
        return ToolServerFailed(
            "“{name}” can't be reached at {url}. Is it running?", name=name, url=server.url
        )
    why = " ".join((printed or str(cause)).split())[:300]
    if not why:
        return ToolServerFailed("“{name}” failed as a tool server, without a reason.", name=name)
    return ToolServerFailed("“{name}” failed as a tool server ({why}).", name=name, why=why)
