"""Save a conversation as JSON or Markdown, and read it back."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, get_args

from mlx_engine.values.conversation import Message, Role

FORMAT = "headstart-chat-1"
ROLES: tuple[Role, ...] = get_args(Role)
_TITLE = re.compile(r"# Chat with ?(.*)")
_QUOTE = ">"


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A saved conversation; model: name of the model that answered."""

    model: str
    system: str | None
    messages: tuple[Message, ...]


def chat_as_content(chat: SavedChat) -> dict[str, Any]:
    """Return the content of the JSON file; readers must ignore keys they do not know."""
    return {"format": FORMAT} | asdict(chat)


def chat_from_content(content: Any) -> SavedChat:
    """Read a chat from the content of a JSON file. Raises ValueError saying what is wrong."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'it has no "format": "{FORMAT}"')
    model, system, messages = (content.get(key) for key in ("model", "system", "messages"))
    if not isinstance(model, str) or not isinstance(system, str | None):
        raise ValueError("its model or system prompt is no text")
    if not isinstance(messages, list):
        raise ValueError("it has no list of messages")
    return SavedChat(
        model,
        system,
        tuple(message_from_content(item, number) for number, item in enumerate(messages, 1)),
    )


def message_from_content(content: Any, number: int) -> Message:
    """Read message `number` (from 1) of a chat's JSON content. Raises ValueError."""
    if not isinstance(content, dict) or content.get("role") not in ROLES:
        raise ValueError(f"message {number} has no role")
    text, thinking = content.get("text"), content.get("thinking", "")
    if not isinstance(text, str) or not isinstance(thinking, str):
        raise ValueError(f"message {number} has no text")
    return Message(content["role"], text, thinking)


def chat_as_markdown(chat: SavedChat) -> str:
    """Format a chat as Markdown: a heading for each message, thinking quoted before its answer.

    Text lines that look like such a heading or quotation get a backslash in front.
    """
    model = " ".join(chat.model.split())
    names = {"system": "System", "user": "You", "assistant": model}
    marked = _heading_pattern(model)
    turns = [Message("system", chat.system)] if chat.system else []
    blocks = [f"# Chat with {model}"]
    for message in (*turns, *chat.messages):
        blocks.append(f"## {names[message.role]}")
        text = marked.sub(r"\\\g<0>", message.text)
        if message.thinking:
            lines = message.thinking.split("\n")
            blocks.append("\n".join(f"{_QUOTE} {line}".rstrip() for line in lines))
        elif text.lstrip("\\").startswith(_QUOTE):
            text = "\\" + text
        blocks.append(text)
    return "\n\n".join(blocks) + "\n"


def chat_from_markdown(text: str) -> SavedChat:
    """Read a chat that chat_as_markdown wrote, perhaps edited since. Raises ValueError."""
    title, _, rest = text.replace("\r\n", "\n").lstrip("\ufeff\n").partition("\n")
    found = _TITLE.fullmatch(title.rstrip())
    if found is None:
        raise ValueError('its first line is not "# Chat with" and the name of a model')
    model = found[1]
    messages = list(_turns(rest, model))
    first_is_system = bool(messages) and messages[0].role == "system"
    system = messages.pop(0).text if first_is_system else None
    return SavedChat(model, system, tuple(messages))


def _heading_pattern(model: str) -> re.Pattern[str]:
    """Match lines that are a message heading, with any number of backslashes in front."""
    names = "|".join(re.escape(name) for name in ("System", "You", model))
    return re.compile(rf"^\\*## (?:{names})[ \t]*$", re.MULTILINE)


def _turns(text: str, model: str) -> Iterator[Message]:
    roles: dict[str, Role] = {model: "assistant", "System": "system", "You": "user"}
    marked = _heading_pattern(model)
    headings = [match for match in marked.finditer(text) if match[0].startswith("#")]
    for number, heading in enumerate(headings, 1):
        is_last = number == len(headings)
        end = len(text) if is_last else headings[number].start() - 1
        body = text[heading.end() : end].removeprefix("\n").removeprefix("\n")
        yield _turn(roles[heading[0][3:].rstrip()], body.removesuffix("\n"), marked)


def _turn(role: Role, body: str, marked: re.Pattern[str]) -> Message:
    lines = body.split("\n")
    quoted = list(takewhile(lambda line: line.startswith(_QUOTE), lines))
    thinking = [line[1:].removeprefix(" ") for line in quoted]
    lines = lines[len(quoted) :]
    if thinking:
        lines = lines[1:] if lines and not lines[0] else lines
    elif body.startswith("\\") and body.lstrip("\\").startswith(_QUOTE):
        lines[0] = lines[0][1:]
    text = marked.sub(lambda match: match[0].removeprefix("\\"), "\n".join(lines))
    return Message(role, text, "\n".join(thinking))
