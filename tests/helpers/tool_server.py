"""A tool server, run as a program: by stdio, or with a port as argument by streamable HTTP."""

import os
import sys
import time

from mcp.server import MCPServer

server = MCPServer("test tools", log_level="CRITICAL")


@server.tool()
def get_weather(city: str, days: int) -> str:
    """The weather of some days."""
    return f"Sun in {city} for {days} days."


@server.tool()
def lines(count: int) -> str:
    """So many lines."""
    return "line\n" * count


@server.tool()
def wait(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "waited"


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(3)


@server.tool()
def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "not set")


@server.tool()
def process() -> int:
    """The number of the server's process."""
    return os.getpid()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
