"""A conversation as text in a file: JSON content to read back, Markdown to read."""

from dataclasses import asdict, dataclass
from typing import Any, get_args

from mlx_engine.values.conversation import Message, Role

FORMAT = "headstart-chat-1"
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class SavedChat:
    """model: the name of the one that answered."""

    model: str
    system: str | None
    messages: tuple[Message, ...]


def chat_as_content(chat: SavedChat) -> dict[str, Any]:
    """What goes into the JSON file; a reader must ignore keys it does not know."""
    return {"format": FORMAT} | asdict(chat)


def chat_from_content(content: Any) -> SavedChat:
    """The chat in the content of a JSON file; ValueError says what is wrong with it."""
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
    """One message of the list; ValueError names it by its number."""
    if not isinstance(content, dict) or content.get("role") not in ROLES:
        raise ValueError(f"message {number} has no role")
    text, thinking = content.get("text"), content.get("thinking", "")
    if not isinstance(text, str) or not isinstance(thinking, str):
        raise ValueError(f"message {number} has no text")
    return Message(content["role"], text, thinking)


def chat_as_markdown(chat: SavedChat) -> str:
    """A heading for each turn, thinking as a quotation before its answer."""
    names = {"system": "System", "user": "You", "assistant": " ".join(chat.model.split())}
    turns = [Message("system", chat.system)] if chat.system else []
    blocks = [f"# Chat with {names['assistant']}"]
    for message in (*turns, *chat.messages):
        blocks.append(f"## {names[message.role]}")
        if message.thinking:
            lines = message.thinking.split("\n")
            blocks.append("\n".join(f"> {line}".rstrip() for line in lines))
        blocks.append(message.text)
    return "\n\n".join(blocks) + "\n"
