"""Save a conversation as JSON or Markdown, and read it back."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat, takewhile
from typing import Any, NamedTuple

from mlx_engine.values.conversation import Message, Role
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture, read_picture

FORMAT = "headstart-chat-1"
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_MODEL = re.compile(r"# Chat with ?(?P<model>.*)")
_TITLE_AND_MODEL = re.compile(r"# (?P<title>.*)\n+Chat with ?(?P<model>.*)")
_OTHER_MODEL = " (another model)"
_QUOTE = ">"


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A chat as it is written to a file and read back.

    model: name of the model that answered. title: "" for none. answered_by: for each message the
    name of a model other than `model` that wrote it, else ""; empty where there is none.
    """

    model: str
    system: str | None
    messages: tuple[Message, ...]
    title: str = ""
    answered_by: tuple[str, ...] = ()


def chat_as_content(chat: SavedChat) -> dict[str, Any]:
    """Return a chat as the dict of its JSON file; readers must ignore keys they do not know."""
    messages = [_message_content(message) for message in chat.messages]
    return {"format": FORMAT, "model": chat.model, "system": chat.system, "messages": messages}


def _message_content(message: Message) -> dict[str, Any]:
    """Return a message as in JSON; pictures are the bytes of their files in base64."""
    fields = {"role": message.role, "text": message.text, "thinking": message.thinking}
    images = [b64encode(image.data).decode() for image in message.images]
    return {**fields, "images": images} if images else fields


def chat_from_content(content: Any) -> SavedChat:
    """Make a chat from the content of its JSON file. Raises ValueError saying what is wrong."""
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
    images = content.get("images", [])
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise ValueError(f"message {number} has something else where its pictures belong")
    try:
        pictures = tuple(read_picture(b64decode(image, validate=True)) for image in images)
    except BadPicture as error:
        raise ValueError(f"message {number}: {error}") from error
    return Message(content["role"], text, thinking, images=pictures)


def size_of_picture(picture: Picture) -> str:
    """Say in Markdown that a picture stood here, and how large it was."""
    return f"({picture.width} x {picture.height} picture)"


def chat_as_markdown(
    chat: SavedChat, show_picture: Callable[[Picture], str] = size_of_picture
) -> str:
    """Format a chat as Markdown: a title and a heading for each message, thinking quoted before it.

    Text lines that look like such a heading or quotation get a backslash in front. show_picture:
    formats the pictures of messages.
    """
    model = " ".join(chat.model.split())
    names: dict[Role, str] = {"system": "System", "user": "You", "assistant": model}
    marked = _heading_pattern(model)
    turns = [(Message("system", chat.system), "")] if chat.system else []
    turns += zip(chat.messages, chain(chat.answered_by, repeat("")), strict=False)
    title = " ".join(chat.title.split())
    blocks = [f"# {title}", f"Chat with {model}"] if title else [f"# Chat with {model}"]
    for message, other in turns:
        name = " ".join(other.split())
        blocks.append(f"## {name}{_OTHER_MODEL}" if name else f"## {names[message.role]}")
        text = marked.sub(r"\\\g<0>", message.text)
        if message.thinking:
            lines = message.thinking.split("\n")
            blocks.append("\n".join(f"{_QUOTE} {line}".rstrip() for line in lines))
        elif text.lstrip("\\").startswith(_QUOTE):
            text = "\\" + text
        blocks += map(show_picture, message.images)
        blocks.append(text)
    return "\n\n".join(blocks) + "\n"


def chat_from_markdown(text: str) -> SavedChat:
    """Read a chat from Markdown of chat_as_markdown, perhaps edited. Raises ValueError."""
    whole = text.replace("\r\n", "\n").lstrip("\ufeff\n")
    found = _TITLE_AND_MODEL.match(whole) or _MODEL.match(whole)
    if found is None:
        raise ValueError('its first line is not "# Chat with" and the name of a model')
    title, model = found.groupdict("").get("title", ""), found["model"].rstrip()
    turns = list(_split_into_turns(whole[found.end() :], model))
    first_is_system = bool(turns) and turns[0].message.role == "system"
    system = turns.pop(0).message.text if first_is_system else None
    names = tuple(turn.answered_by for turn in turns)
    messages = tuple(turn.message for turn in turns)
    return SavedChat(model, system, messages, title.rstrip(), names if any(names) else ())


def _heading_pattern(model: str) -> re.Pattern[str]:
    """Return a pattern for lines that are a message heading, perhaps behind backslashes."""
    names = "|".join(re.escape(name) for name in ("System", "You", model))
    other = ".+" + re.escape(_OTHER_MODEL)
    return re.compile(rf"^\\*## (?:{names}|{other})[ \t]*$", re.MULTILINE)


class _MarkdownTurn(NamedTuple):
    message: Message
    answered_by: str


def _split_into_turns(text: str, model: str) -> Iterator[_MarkdownTurn]:
    roles: dict[str, Role] = {model: "assistant", "System": "system", "You": "user"}
    marked = _heading_pattern(model)
    headings = [match for match in marked.finditer(text) if match[0].startswith("#")]
    for number, heading in enumerate(headings, 1):
        is_last = number == len(headings)
        end = len(text) if is_last else headings[number].start() - 1
        body = text[heading.end() : end].removeprefix("\n").removeprefix("\n")
        name = heading[0][3:].rstrip()
        other = "" if name in roles else name.removesuffix(_OTHER_MODEL)
        role = roles.get(name, "assistant")
        yield _MarkdownTurn(_message(role, body.removesuffix("\n"), marked), other)


def _message(role: Role, body: str, message_mark: re.Pattern[str]) -> Message:
    lines = body.split("\n")
    quoted = list(takewhile(lambda line: line.startswith(_QUOTE), lines))
    thinking = [line[1:].removeprefix(" ") for line in quoted]
    lines = lines[len(quoted) :]
    if thinking:
        lines = lines[1:] if lines and not lines[0] else lines
    elif body.startswith("\\") and body.lstrip("\\").startswith(_QUOTE):
        lines[0] = lines[0][1:]
    text = message_mark.sub(lambda match: match[0].removeprefix("\\"), "\n".join(lines))
    return Message(role, text, "\n".join(thinking))
