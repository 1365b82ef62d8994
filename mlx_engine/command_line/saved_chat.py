"""A conversation as a file: Markdown to read, JSON to read back."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadOption

FORMAT = "headstart-chat-1"
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class SavedChat:
    """model: the name of the one that answered."""

    model: str
    system: str | None
    messages: tuple[Message, ...]


def write_chat(path: Path, chat: SavedChat) -> None:
    """Write a new file; raises BadOption for other endings, and when there is one already."""
    as_text = _FORMATS.get(path.suffix.lower())
    if as_text is None:
        raise BadOption(f"{path.name!r} is not possible: use a name ending in .md or .json.")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(as_text(chat))
    except FileExistsError:
        raise BadOption(f"{path} is there already: choose another name.") from None
    except ValueError as error:
        raise BadOption(f"{path.name!r} could not be written: {error}.") from None


def read_chat(path: Path) -> SavedChat:
    """Read a .json of write_chat; raises BadOption when it is something else."""
    try:
        text = path.read_text(encoding="utf-8")
        return _chat_of(json.loads(text))
    except FileNotFoundError:
        raise BadOption(f"{path} is not there: check the name.") from None
    except (ValueError, RecursionError):
        raise BadOption(f"{path} is not a chat that /save wrote as .json.") from None


def _chat_of(content: Any) -> SavedChat:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("another format")
    model, system, messages = (content.get(key) for key in ("model", "system", "messages"))
    if not isinstance(model, str) or not isinstance(system, str | None):
        raise ValueError("model or system prompt missing")
    if not isinstance(messages, list):
        raise ValueError("messages missing")
    return SavedChat(model, system, tuple(_message_of(message) for message in messages))


def _message_of(content: Any) -> Message:
    if not isinstance(content, dict) or content.get("role") not in ROLES:
        raise ValueError("a message without a role")
    text, thinking = content.get("text"), content.get("thinking", "")
    if not isinstance(text, str) or not isinstance(thinking, str):
        raise ValueError("a message without text")
    return Message(content["role"], text, thinking)


def _as_json(chat: SavedChat) -> str:
    return json.dumps({"format": FORMAT} | asdict(chat), ensure_ascii=False, indent=2) + "\n"


def _as_markdown(chat: SavedChat) -> str:
    names = {"system": "System", "user": "You", "assistant": chat.model}
    turns = [Message("system", chat.system)] if chat.system else []
    blocks = [f"# Chat with {chat.model}"]
    for message in (*turns, *chat.messages):
        blocks.append(f"## {names[message.role]}")
        if message.thinking:
            blocks.append("\n".join(f"> {line}".rstrip() for line in message.thinking.splitlines()))
        blocks.append(message.text)
    return "\n\n".join(blocks) + "\n"


_FORMATS: dict[str, Callable[[SavedChat], str]] = {".md": _as_markdown, ".json": _as_json}
