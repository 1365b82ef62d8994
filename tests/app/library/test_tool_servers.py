"""The client of tool servers against servers of the official package, and against broken ones."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from app.library.tool_servers import ToolServers
from app.values.errors import ToolServerFailed
from app.values.tools import MOST_CHARACTERS, ToolServer

PROGRAM = Path(__file__).parents[2] / "helpers" / "tool_server.py"
SERVER = ToolServer("tools", sys.executable, (str(PROGRAM),), {"SECRET": "42"})


def scripted(text: str) -> ToolServer:
    return ToolServer("odd", sys.executable, ("-c", text))


@pytest.fixture
def servers() -> Iterator[ToolServers]:
    servers = ToolServers(connect_s=60, call_s=60)
    yield servers
    servers.close()


@pytest.fixture
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, str(PROGRAM), str(port)]) as program:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        program.terminate()


def problem(future: Future[object]) -> str:
    with pytest.raises(ToolServerFailed) as error:
        future.result(90)
    return str(error.value)


def process(servers: ToolServers) -> int:
    return int(servers.call(SERVER, "process", "{}").result(90).text)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_tools_are_listed_and_called_and_the_program_ends(servers: ToolServers) -> None:
    listed = servers.list_tools(SERVER).result(90)
    names = [offered.name for offered in listed.tools]
    assert names == ["get_weather", "lines", "wait", "die", "environment", "process"]
    weather = listed.tools[0]
    assert (weather.key, weather.tool.description) == (
        "tools/get_weather",
        "The weather of some days.",
    )
    assert weather.tool.parameters["properties"]["days"]["type"] == "integer"
    program = process(servers)
    assert is_alive(program)
    result = servers.call(SERVER, "get_weather", '{"city": "Bonn", "days": 3}').result(90)
    assert result == ("Sun in Bonn for 3 days.", False)
    assert servers.call(SERVER, "environment", '{"name": "SECRET"}').result(90).text == "42"
    wrong = servers.call(SERVER, "get_weather", '{"city": "Bonn"}').result(90)
    assert wrong.is_failed and "days" in wrong.text
    cut = servers.call(SERVER, "lines", '{"count": 9000}').result(90).text
    assert cut.endswith("[Cut: the first 20,000 of 45,000 characters.]")
    assert cut[:MOST_CHARACTERS] == ("line\n" * 9000)[:MOST_CHARACTERS]
    servers.close()
    assert not is_alive(program)


def test_a_call_that_hangs_dies_or_is_cancelled_leaves_nothing_stuck(servers: ToolServers) -> None:
    program = process(servers)
    servers._call_s = 1
    hangs = servers.call(SERVER, "wait", '{"seconds": 3600}')
    assert problem(hangs) == "“tools” did not answer within 1 s."
    assert not is_alive(program)
    servers._call_s = 60
    cancelled = servers.call(SERVER, "wait", '{"seconds": 0.5}')
    cancelled.cancel()
    with pytest.raises(CancelledError):
        cancelled.result(60)
    assert "failed as a tool server" in problem(servers.call(SERVER, "die", "{}"))
    assert servers.call(SERVER, "wait", '{"seconds": 0}').result(90).text == "waited"


def test_tools_over_http(servers: ToolServers, url: str) -> None:
    server = ToolServer("web", url=url, headers={"X-Key": "1"})
    assert len(servers.list_tools(server).result(90).tools) == 6
    result = servers.call(server, "get_weather", '{"city": "Bonn", "days": 3}').result(90)
    assert result.text == "Sun in Bonn for 3 days."


def test_what_is_no_server_is_told_in_a_sentence(servers: ToolServers) -> None:
    nowhere = ToolServer("web", url="http://127.0.0.1:9/mcp")
    said = problem(servers.list_tools(nowhere))
    assert said == "“web” can't be reached at http://127.0.0.1:9/mcp. Is it running?"
    missing = ToolServer("gone", "/no/such/program")
    said = problem(servers.list_tools(missing))
    assert (
        said
        == "“gone”: there is no program /no/such/program. Check its command in Settings, Tools."
    )
    dies = scripted("import sys; sys.exit('the key is wrong')")
    assert problem(servers.list_tools(dies)) == "“odd” failed as a tool server (the key is wrong)."


def test_garbage_is_no_server() -> None:
    servers = ToolServers(connect_s=1)
    garbage = "import sys, time\nwhile True: print('garbage', flush=True); time.sleep(0.01)"
    said = problem(servers.list_tools(scripted(garbage)))
    assert said == "“odd” did not answer within 1 s."
    servers.close()


MANY = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import ListToolsResult, Tool

async def listed(*_):
    sound = [Tool(name=f"tool {n}", input_schema={"type": "object"}) for n in range(200)]
    odd = Tool(name="odd", input_schema={"type": "object", "properties": "none"})
    return ListToolsResult(tools=[*sound, odd])

async def main():
    server = Server("many", on_list_tools=listed)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


def test_many_tools_and_one_with_a_broken_schema(servers: ToolServers) -> None:
    listed = servers.list_tools(scripted(MANY)).result(90)
    assert len(listed.tools) == 200
    assert listed.tools[7].tool.name == "tool_7"
    assert listed.broken == ("odd",)
