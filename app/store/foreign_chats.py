"""Chats exported by other programs: ChatGPT, LM Studio, Jan.

- ChatGPT: `conversations.json`, a list of trees. A node of "mapping" holds a message or none.
  Messages of tools and of the system are left out, and parts of one answer are joined.
- LM Studio: one `*.conversation.json` a chat. Each entry of "messages" holds the versions of one
  message.
- Jan: one `messages.jsonl` a thread, a message a line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from app.store.rows import seconds_of, sound_message, text_of
from app.values.chats import StoredMessage
from mlx_engine.values.words import Words

THOUGHT_OPENS, THOUGHT_ENDS = "<think>", "</think>"


class ForeignChat(NamedTuple):
    """A chat of another program; ids and parents of messages are places in `messages`.

    leaf: place of the selected message, -1 if there is no message.
    """

    title: str
    system: str
    messages: list[StoredMessage]
    leaf: int


def foreign_chats(content: object) -> list[ForeignChat] | None:
    """Read parsed JSON of ChatGPT or LM Studio; None if it is of neither program. Items of a list
    that are no chats are left out.
    """
    if _is_list(content) and any(_is_tree(item) for item in content):
        return [_from_tree(item) for item in content if _is_tree(item)]
    if isinstance(content, dict) and _has_versions(content.get("messages")):
        return [_from_versions(content)]
    return None


def chat_from_lines(text: str) -> ForeignChat:
    """Read a thread of Jan. Raises ValueError for lines that are no messages."""
    rows = _Rows()
    for line in text.splitlines():
        if line.strip():
            item = json.loads(line)
            if not isinstance(item, dict) or "role" not in item or "content" not in item:
                raise ValueError(Words("a line is no message"))
            seconds = _seconds(item.get("created_at"))
            rows.add(len(rows) - 1, item["role"], _texts(item["content"]), seconds)
    if not len(rows):
        raise ValueError(Words("it has no messages"))
    return ForeignChat("", "", rows.messages(), len(rows) - 1)


@dataclass(slots=True)
class _Row:
    """A message whose parts are still being read."""

    parent: int
    role: str
    seconds: float
    model: str
    texts: list[str]
    thoughts: list[str]


class _Rows:
    """Messages of one chat, in an order in which parents come first."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        parent: int,
        role: object,
        text: str,
        seconds: float = 0.0,
        thinking: str = "",
        model: str = "",
    ) -> int:
        """Add a message after place `parent` (-1 for none); return its place.

        Other roles than those of the user and the assistant, and empty messages, are left out.
        """
        if role not in ("user", "assistant") or not (text.strip() or thinking.strip()):
            return parent
        self._rows.append(_Row(parent, str(role), seconds, model, [text], [thinking]))
        return len(self._rows) - 1

    def extend(self, place: int, text: str, thinking: str) -> bool:
        """Add to the newest message, if it is at `place` and an answer; whether it was."""
        row = self._rows[-1] if self._rows and place == len(self._rows) - 1 else None
        if row is None or row.role != "assistant":
            return False
        row.texts.append(text)
        row.thoughts.append(thinking)
        return True

    def messages(self) -> list[StoredMessage]:
        """The messages, with a thought in the text of an answer told apart."""
        return [self._message(place, row) for place, row in enumerate(self._rows)]

    def _message(self, place: int, row: _Row) -> StoredMessage:
        text, thoughts = joined(row.texts), row.thoughts
        if text.startswith(THOUGHT_OPENS) and THOUGHT_ENDS in text:
            thought, _, text = text.partition(THOUGHT_ENDS)
            thoughts = [*thoughts, thought.removeprefix(THOUGHT_OPENS)]
        content = {
            "role": row.role,
            "text": text.strip(),
            "thinking": joined(thoughts),
            "model": row.model if row.role == "assistant" else "",
            "state": "done",
            "stats": None,
            "spans": (),
            "uses": (),
            "created_at": row.seconds,
            "problem": "",
        }
        return sound_message(content, place, 0, row.parent if row.parent >= 0 else None)


def joined(texts: Iterable[str]) -> str:
    """Texts that are not empty, as paragraphs."""
    return "\n\n".join(filter(None, (text.strip() for text in texts)))


def _texts(content: object) -> str:
    """The text of a message: a string, or a list of strings and of objects with a text."""
    if not _is_list(content):
        return text_of(content)
    found = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else part
        text = text.get("value") if isinstance(text, dict) else text
        found.append(text_of(text))
    return joined(found)


def _seconds(value: object) -> float:
    """Seconds since 1970 of a time in seconds or milliseconds; 0 if there is none."""
    milliseconds = isinstance(value, int | float) and value > 1e11
    return seconds_of(value / 1000 if milliseconds else value)  # type: ignore[operator]


# ChatGPT


class _Node(NamedTuple):
    """A node of a tree that is still to be read, after the message at place `parent`."""

    key: str
    parent: int
    thinking: str


def _is_tree(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("mapping"), dict)


def _from_tree(item: Mapping[str, Any]) -> ForeignChat:
    """Read one conversation of ChatGPT; a node that is reached twice counts once."""
    nodes: dict[str, Mapping[str, Any]] = {
        key: node for key, node in item["mapping"].items() if isinstance(node, dict)
    }
    rows, places = _Rows(), dict[str, int]()
    roots = [key for key, node in nodes.items() if text_of(node.get("parent")) not in nodes]
    waiting = [_Node(key, -1, "") for key in reversed(roots)]
    while waiting:
        key, parent, thinking = waiting.pop()
        if key in places or key not in nodes:
            continue
        places[key], thinking = _read_node(rows, nodes[key], parent, thinking)
        children = nodes[key].get("children")
        below = (
            [child for child in children if isinstance(child, str)] if _is_list(children) else []
        )
        waiting += [_Node(child, places[key], thinking) for child in reversed(below)]
    current = item.get("current_node")
    leaf = places.get(current, -1) if isinstance(current, str) else -1
    leaf = leaf if leaf >= 0 else len(rows) - 1
    return ForeignChat(text_of(item.get("title")), "", rows.messages(), leaf)


class _Read(NamedTuple):
    """The place of the message that a node belongs to, and thoughts for the message below."""

    place: int
    thinking: str


def _read_node(rows: _Rows, node: Mapping[str, Any], parent: int, thinking: str) -> _Read:
    message = node.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(content, dict):
        return _Read(parent, thinking)
    thoughts = content.get("thoughts")
    if _is_list(thoughts):
        said = [text_of(each.get("content")) for each in thoughts if isinstance(each, dict)]
        return _Read(parent, joined([thinking, *said]))
    author, metadata = message.get("author"), message.get("metadata")
    role = author.get("role") if isinstance(author, dict) else None
    if content.get("content_type") not in ("text", "multimodal_text"):
        return _Read(parent, thinking)
    text = _texts(content.get("parts"))
    if role == "assistant" and rows.extend(parent, text, thinking):
        return _Read(parent, "")
    model = text_of(metadata.get("model_slug")) if isinstance(metadata, dict) else ""
    place = rows.add(parent, role, text, _seconds(message.get("create_time")), thinking, model)
    return _Read(place, thinking if place == parent else "")


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


# LM Studio


def _has_versions(messages: object) -> bool:
    """Whether these are LM Studio's messages; a chat without messages counts as one of ours."""
    return (
        _is_list(messages)
        and bool(messages)
        and all(isinstance(item, dict) and _is_list(item.get("versions")) for item in messages)
    )


def _from_versions(content: Mapping[str, Any]) -> ForeignChat:
    """Read a conversation of LM Studio; versions of a message stand beside each other."""
    rows, parent, seconds = _Rows(), -1, _seconds(content.get("createdAt"))
    for item in content["messages"]:
        selected, after = item.get("currentlySelected"), parent
        for number, version in enumerate(item["versions"]):
            if isinstance(version, dict):
                place = _add_version(rows, parent, version, seconds)
                after = place if number == selected or after == parent else after
        parent = after
    system = text_of(content.get("systemPrompt"))
    return ForeignChat(text_of(content.get("name")), system, rows.messages(), parent)


def _add_version(rows: _Rows, parent: int, version: Mapping[str, Any], seconds: float) -> int:
    texts, thoughts = list[str](), list[str]()
    for block in _blocks(version):
        style = block.get("style")
        is_thought = isinstance(style, dict) and style.get("type") == "thinking"
        (thoughts if is_thought else texts).append(_texts(block.get("content")))
    sender = version.get("senderInfo")
    model = text_of(sender.get("senderName")) if isinstance(sender, dict) else ""
    thinking = joined(thoughts)
    return rows.add(parent, version.get("role"), joined(texts), seconds, thinking, model)


def _blocks(version: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Blocks with "content": the version itself, or its steps."""
    steps: Sequence[object] = version["steps"] if _is_list(version.get("steps")) else [version]
    for step in steps:
        if isinstance(step, dict) and step.get("type", "contentBlock") in (
            "contentBlock",
            "singleStep",
        ):
            yield step
