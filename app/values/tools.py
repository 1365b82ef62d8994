"""Tool servers of the settings, and tool calls of answers with their results."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from mlx_engine.values.conversation import Message, Tool, ToolCall
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words

UseState = Literal["new", "asked", "running", "done", "failed", "denied"]
Decision = Literal["once", "chat", "deny"]
"""A user's decision on a tool call: run once, run always in this chat, or refuse."""
OVER: tuple[UseState, ...] = ("done", "failed", "denied")
"""States of a tool call that has a result."""
MOST_CALLS = 20
"""Tool calls of one answer before its user must agree to more."""
MOST_CHARACTERS = 20_000
"""Characters of a tool result that a model reads."""
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
"""An environment variable before a command, as in a shell."""
NOT_CALLED = "The call gave no result."


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A program that offers tools by the Model Context Protocol: started by a command, or at a URL.

    environment: variables of the program. headers: sent with every request to the URL.
    """

    name: str = ""
    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_on: bool = True

    @property
    def fingerprint(self) -> str:
        """Hash of how the server is started or reached."""
        tables = sorted(self.environment.items()), sorted(self.headers.items())
        way = repr((self.command, self.arguments, self.url, tables))
        return sha256(way.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server.

    name: at the server. tool: as described to the model. fingerprint: of the server.
    """

    server: str
    name: str
    tool: Tool
    fingerprint: str = ""

    @property
    def key(self) -> str:
        """Names of server and tool, as one key."""
        return f"{self.server}/{self.name}"

    @property
    def permission(self) -> str:
        """Entry of ChatSettings.allowed_tools that lets this tool of this very server run."""
        return f"{self.key} {self.fingerprint}"


class ToolResult(NamedTuple):
    """What a call returned, or why it failed."""

    text: str
    is_failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call in an answer.

    key: of the tool, "" if there is no such tool. arguments: a JSON object. step: number of the
    generation that asked for it, shared by parallel calls. text_end, thinking_end: characters of
    the answer's text and thinking before the call.
    """

    name: str
    arguments: str = "{}"
    id: str = ""
    key: str = ""
    result: str = ""
    state: UseState = "new"
    step: int = 0
    text_end: int = 0
    thinking_end: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the call has a result."""
        return self.state in OVER


def gap_after(text: str) -> str:
    """Return the characters between the text before a call and that after it."""
    return "" if not text or text.endswith("\n\n") else "\n\n"


class AnswerStep(NamedTuple):
    """A part of an answer, and the tool calls after it; starts are offsets in text and thinking."""

    text_start: int
    text: str
    thinking_start: int
    thinking: str
    uses: tuple[ToolUse, ...] = ()


def steps_of(text: str, thinking: str, uses: Sequence[ToolUse]) -> Iterator[AnswerStep]:
    """Split an answer at its tool calls; the last step has none."""
    start, thinking_start = 0, 0
    for _, group in groupby(uses, lambda use: use.step):
        calls = tuple(group)
        end = max(start, calls[0].text_end)
        thinking_end = max(thinking_start, calls[0].thinking_end)
        said, thought = text[start:end], thinking[thinking_start:thinking_end]
        yield AnswerStep(start, said, thinking_start, thought, calls)
        start = end + len(gap_after(text[:end]))
        thinking_start = thinking_end + len(gap_after(thinking[:thinking_end]))
    yield AnswerStep(start, text[start:], thinking_start, thinking[thinking_start:])


def answer_messages(text: str, thinking: str, uses: Sequence[ToolUse]) -> Iterator[Message]:
    """Yield an answer as the engine reads it: calls and results are messages of their own."""
    for step in steps_of(text, thinking, uses):
        calls = tuple(ToolCall(use.name, use.arguments, use.id) for use in step.uses)
        if calls or step.text or step.thinking or not uses:
            yield Message("assistant", step.text, step.thinking, calls)
        for use in step.uses:
            yield Message("tool", use.result if use.is_over else NOT_CALLED, call_id=use.id)


def answer_as_markdown(text: str, uses: Sequence[ToolUse]) -> str:
    """Format an answer with its calls and results, to be read."""
    blocks = list[str]()
    for step in steps_of(text, "", uses):
        blocks.append(step.text.strip("\n") if uses else step.text)
        for use in step.uses:
            blocks.append(f"**Tool {use.name}**\n\n{fenced(use.arguments, 'json')}")
            blocks.append(fenced(use.result if use.is_over else NOT_CALLED))
    return "\n\n".join(filter(None, blocks))


def fenced(text: str, language: str = "") -> str:
    """Put a text into a block of code."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def uses_from(content: object) -> tuple[ToolUse, ...]:
    """Convert parsed JSON to tool calls, without invalid ones; a call that was running gets no
    result.
    """
    items = content if isinstance(content, list) else []
    uses = [use for item in items if isinstance(item, dict) for use in _sound_use(item)]
    return tuple(sorted(uses, key=lambda use: use.step))


def _sound_use(item: Mapping[str, Any]) -> Iterator[ToolUse]:
    words = {
        name: item[name]
        for name in ("name", "arguments", "id", "key", "result")
        if isinstance(item.get(name), str)
    }
    counts = {
        name: item[name]
        for name in ("step", "text_end", "thinking_end")
        if type(item.get(name)) is int and 0 <= item[name] < 2**31
    }
    if words.get("name") and _is_object(words.get("arguments", "{}")):
        state = item.get("state")
        yield ToolUse(**words, **counts, state=state if state in OVER else "new")


def _is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def cut_result(text: str) -> str:
    """Shorten a long tool result for the model, and say how much is left out.

    Lone surrogates become question marks.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= MOST_CHARACTERS:
        return text
    return (
        f"{text[:MOST_CHARACTERS]}\n\n"
        f"[Cut: the first {MOST_CHARACTERS:,} of {len(text):,} characters.]"
    )


def servers_from_text(name: str, text: str) -> tuple[ToolServer, ...]:
    """Parse a server's command line (`KEY=value program argument ...`), address, or JSON.

    JSON may describe several servers, with names of their own. Raises BadOption.
    """
    text = text.strip()
    if text.startswith("{"):
        return servers_from_json(text)
    if "://" in text.split(maxsplit=1)[0] if text else False:
        return (checked_server(ToolServer(name, url=text)),)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadOption("A quotation mark is not closed: close it.") from error
    environment = dict[str, str]()
    while words and (assigned := ASSIGNMENT.fullmatch(words[0])):
        environment[assigned[1]] = assigned[2]
        words.pop(0)
    command, arguments = "".join(words[:1]), tuple(words[1:])
    return (checked_server(ToolServer(name, command, arguments, environment)),)


def text_of_server(server: ToolServer) -> str:
    """Return the text that servers_from_text reads as this server."""
    if server.headers:
        own = {"url": server.url, "headers": dict(server.headers)}
        return json.dumps({"mcpServers": {server.name: own}}, ensure_ascii=False, indent=2)
    variables = [f"{name}={shlex.quote(value)}" for name, value in server.environment.items()]
    command = [server.command, *server.arguments] if server.command else []
    return server.url or " ".join([*variables, shlex.join(command)])


def servers_from_json(text: str) -> tuple[ToolServer, ...]:
    """Read servers from {"mcpServers": {name: {"command", "args", "env"} or {"url", "headers"}}}.

    The inner object alone is read too. Raises BadOption.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOption("This is not JSON: {error}.", error=str(error)) from error
    if isinstance(content, dict):
        content = content.get("mcpServers", content.get("servers", content))
    if not isinstance(content, dict) or not content:
        raise BadOption('No servers are in it: paste JSON like {"mcpServers": {…}}.')
    return tuple(_server_from(name, own) for name, own in content.items())


def _server_from(name: str, own: object) -> ToolServer:
    if not isinstance(own, dict):
        raise BadOption("“{name}” is not described by an object.", name=name)
    arguments = own.get("args", [])
    tables = {key: own.get(key) or {} for key in ("env", "headers")}
    if not isinstance(arguments, list) or not all(isinstance(a, str) for a in arguments):
        raise BadOption("“{name}”: “args” is not a list of texts.", name=name)
    for key, table in tables.items():
        if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
            raise BadOption("“{name}”: “{key}” is not an object of texts.", name=name, key=key)
    command, url = (own.get(key, "") for key in ("command", "url"))
    server = ToolServer(
        name,
        command if isinstance(command, str) else "",
        tuple(arguments),
        tables["env"],
        url if isinstance(url, str) else "",
        tables["headers"],
        is_on=own.get("disabled") is not True,
    )
    return checked_server(server)


def checked_server(server: ToolServer) -> ToolServer:
    """Return the server if it is complete; raises BadOption that says what is missing."""
    name = server.name.strip()
    if not name or "/" in name:
        raise BadOption("A server needs a name without “/”.")
    if bool(server.command.strip()) == bool(server.url.strip()):
        raise BadOption("“{name}” needs a command or an address, not both.", name=name)
    if server.url and urlsplit(server.url).scheme not in ("http", "https"):
        raise BadOption("“{name}”: the address has to begin with http:// or https://.", name=name)
    return replace(server, name=name, command=server.command.strip(), url=server.url.strip())


TOO_MANY = Words(
    "The model asked for more than {most} tool calls, so it was stopped. Continue allows as many "
    "again.",
    most=MOST_CALLS,
)
