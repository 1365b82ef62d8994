"""A chat as a file of its own: Markdown to read, JSON with everything, both read back.

Files of other programs (foreign_chats.py) are read, too.

The JSON is the format of the command line (mlx_engine.values.saved_chat), which reads the selected
branch and ignores the rest: "title", "folder" (its name), "settings" without the place of the
model, what a message has besides its text, and "others", the messages of other branches. A
message's number is its place in the messages followed by the others, from 0; one of the messages
follows the one before it, one of the others the number in "parent". "order" are all numbers from
the oldest message to the newest, the order in which versions of a message are counted.
"""

import json
import os
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any

from app.store.chats import AT_ONCE, clean_title, end_step, result_of, title_from
from app.store.database import storable
from app.store.foreign_chats import ForeignChat, chat_from_lines, foreign_chats
from app.store.rows import (
    sound_message,
    spans_from,
    spans_to_json,
    stats_from,
    stats_to_json,
    text_of,
    uses_to_json,
)
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.values.chats import Chat, StoredMessage
from app.values.errors import BadChatFile
from app.values.tools import answer_as_markdown, uses_from
from app.values.typed_json import KEPT_WORDS, encode, read_fields
from mlx_engine.values.conversation import Message
from mlx_engine.values.picture import Picture
from mlx_engine.values.saved_chat import (
    SavedChat,
    chat_as_content,
    chat_as_markdown,
    chat_from_content,
    chat_from_markdown,
    message_from_content,
    size_of_picture,
)
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class NewChat:
    """A chat that is in no store yet.

    An id in the messages is their place in the sequence, a parent that of an earlier one, and time
    0 is now. title: "" for the first thing said. leaf: the selected message, -1 for none.
    folder: its name, "" for none. notes: what of its file could not be taken over. updated_at:
    seconds since 1970 of its last message, 0 for now.
    """

    title: str
    settings: ChatSettings
    messages: Sequence[StoredMessage]
    leaf: int
    folder: str = ""
    notes: tuple[str, ...] = ()
    updated_at: float = 0.0


SAME = "role, state, finish_reason, model, text, thinking, thinking_seconds, problem, edited"
AS_IT_IS = attrgetter(*SAME.split(", "))
INSERT = f"""INSERT INTO message (chat, parent, created_at, spans, stats, calls, pictures, {SAME})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def insert_chat(store: SessionStore, chat: NewChat) -> int:
    """Add a chat and return its id. Raises StoreError; then the chat is not listed."""
    return result_of(insert_in_steps(store, chat))


def insert_in_steps(store: SessionStore, chat: NewChat) -> Generator[None, None, int]:
    """Add AT_ONCE messages a step; return the chat's id at the end, when the chat is listed."""
    database = store.database
    said = next((message.text for message in chat.messages if message.role == "user"), "")
    ids = list[int]()
    chat_id, now = 0, 0.0
    while not chat_id or len(ids) < len(chat.messages):
        if chat_id:
            yield
        batch = chat.messages[len(ids) : len(ids) + AT_ONCE]
        with database.transaction():
            if not chat_id:
                chat_id = store.chats.create(chat.settings, chat.title or title_from(said))
                now = store.chats.get(chat_id).created_at
            for message in batch:
                parent = None if message.parent is None else ids[message.parent]
                spans, calls = spans_to_json(message.spans), uses_to_json(message.uses)
                pictures = store.pictures.keep(message.pictures)
                figures = spans, stats_to_json(message.stats), calls, pictures
                made = chat_id, parent, message.created_at or now, *figures
                ids.append(database.insert(INSERT, *made, *AS_IT_IS(message)))
            is_whole = len(ids) == len(chat.messages)
            leaf = ids[chat.leaf] if is_whole and chat.leaf >= 0 else None
            end_step(database, chat_id, leaf, is_whole)
            if is_whole and chat.updated_at:
                sql = "UPDATE chat SET updated_at = ? WHERE id = ?"
                database.write(sql, min(chat.updated_at, now), chat_id)
            if is_whole and chat.folder:
                store.folders.put_into(chat.folder, chat_id)
    database.checkpoint()
    return chat_id


LARGEST_FILE = 256 * 2**20
MOST_MESSAGES = 100_000
"""Larger files are refused: parsing many small JSON values blocks the GIL."""


def export_chat(store: SessionStore, chat_id: int, path: Path) -> None:
    """Write a chat to a .md (the selected branch) or .json file, replacing what is there.

    Raises BadChatFile when it cannot be written, and StoreError.
    """
    kind = path.suffix.lower()
    if kind not in (".md", ".json"):
        raise BadChatFile(
            "{name!r} is not possible: use a name ending in .md, .json or .pdf.", name=path.name
        )
    text = chat_text(store, chat_id, kind)
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(text.encode("utf-8", "replace"))
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise not_written(path, error) from error


def chat_text(
    store: SessionStore,
    chat_id: int,
    kind: str,
    show_picture: Callable[[Picture], str] = size_of_picture,
) -> str:
    """Return a chat as the text of a ".md" (the selected branch) or ".json". Raises StoreError.

    show_picture: as of `chat_as_markdown`.
    """
    chat = store.open_chat(chat_id)
    messages = {message.id: message for message in store.messages.all_of(chat_id)}
    branch = [messages.pop(each) for each in chat.turns.ids if each in messages]
    if kind == ".md":
        return chat_as_markdown(_selected_branch(chat, branch), show_picture)
    return _as_json(store, chat, branch, list(messages.values()))


def not_written(path: Path, error: OSError) -> BadChatFile:
    """Make the error for a chat that could not be written to a file."""
    return BadChatFile(
        "{path} could not be written ({strerror}): choose another place, or free space.",
        path=path,
        strerror=error.strerror,
    )


def read_chat(path: Path, defaults: ChatSettings) -> NewChat:
    """Return the first chat in a file; see `read_chats`."""
    return read_chats(path, defaults)[0]


def read_chats(path: Path, defaults: ChatSettings) -> list[NewChat]:
    """Read the chats in a .md, .json or .jsonl file, ours or of a program in foreign_chats.py.

    defaults: settings that the file does not contain. Raises BadChatFile naming what is wrong.
    """
    try:
        text = _text(path)
        if path.suffix.lower() not in (".json", ".jsonl"):
            saved = chat_from_markdown(text)
            _check_count(len(saved.messages))
            return [_from_saved(saved, defaults)]
        _check_count(text.count('"role"'))
        if path.suffix.lower() == ".jsonl":
            return [_from_foreign(chat_from_lines(text), defaults)]
        content = json.loads(text)
        foreign = foreign_chats(content)
        if foreign is None:
            return [_from_json(content, defaults)]
        found = [_from_foreign(chat, defaults) for chat in foreign if chat.messages]
        if not found:
            raise ValueError(Words("it has no messages"))
        left_out = len(content) - len(foreign) if isinstance(content, list) else 0
        if left_out:
            words = Words(
                "{n:,} entries of {name} are no chats and were left out.",
                "1 entry of {name} is no chat and was left out.",
                left_out,
                name=path.name,
            )
            found[-1] = replace(found[-1], notes=(words,))
        return found
    except OSError as error:
        raise BadChatFile(
            "{path} could not be read ({strerror}).", path=path, strerror=error.strerror
        ) from error
    except RecursionError:
        raise BadChatFile(
            "{path} is not a chat that Headstart can read: it is nested too deep.", path=path
        ) from None
    except ValueError as error:
        raise BadChatFile(
            "{path} is not a chat that Headstart can read, or is damaged: {error}.",
            path=path,
            error=str(error),
        ) from error


def _text(path: Path) -> str:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_FILE:
            raise ValueError(Words("it is larger than {size} MB", size=LARGEST_FILE // 2**20))
        content = file.read(LARGEST_FILE)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(Words("it is not text in UTF-8")) from None


def _check_count(messages: int) -> None:
    if messages > MOST_MESSAGES:
        raise ValueError(Words("it has more than {most:,} messages", most=MOST_MESSAGES))


def _as_json(
    store: SessionStore, chat: Chat, branch: list[StoredMessage], others: list[StoredMessage]
) -> str:
    number: dict[int | None, int] = {
        message.id: place for place, message in enumerate((*branch, *others))
    }
    settings = _safe_settings(encode(chat.settings))
    content = chat_as_content(replace(_selected_branch(chat, branch), messages=()))
    folders = {folder.id: folder.name for folder in store.folders.listed()}
    content |= {
        "title": chat.summary.title,
        "folder": folders.get(chat.summary.folder or 0, ""),
        "settings": settings,
        "messages": [_content(message) for message in branch],
        "others": [
            _content(message) | {"parent": place if place < number[message.id] else None}
            for message in others
            for place in [number.get(message.parent, len(number))]
        ],
        "order": [number[message_id] for message_id in sorted(filter(None, number))],
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _selected_branch(chat: Chat, messages: list[StoredMessage]) -> SavedChat:
    names = [message.model for message in messages if message.model]
    model = names[-1] if names else "Assistant"
    return SavedChat(
        model,
        chat.settings.system or None,
        tuple(
            Message(
                message.role,
                answer_as_markdown(message.text, message.uses),
                message.thinking,
                images=tuple(message.pictures),
            )
            for message in messages
        ),
        chat.summary.title,
        tuple("" if message.model == model else message.model for message in messages),
    )


def _content(message: StoredMessage) -> dict[str, Any]:
    content = dict(encode(replace(message, pictures=())))
    for key in ("id", "chat_id", "parent", "pictures"):
        del content[key]
    images = [b64encode(picture.data).decode() for picture in message.pictures]
    return {**content, "images": images} if images else content


def _from_foreign(chat: ForeignChat, defaults: ChatSettings) -> NewChat:
    settings = replace(defaults, system=storable(chat.system)) if chat.system else defaults
    title, last = clean_title(chat.title), max(message.created_at for message in chat.messages)
    return NewChat(title, settings, chat.messages, chat.leaf, updated_at=last)


def _from_saved(chat: SavedChat, defaults: ChatSettings) -> NewChat:
    rows = [
        StoredMessage(
            place,
            0,
            place - 1 if place else None,
            message.role,
            message.text,
            message.thinking,
            model=(other or chat.model) if message.role == "assistant" else "",
        )
        for place, (message, other) in enumerate(
            zip(chat.messages, chain(chat.answered_by, repeat("")), strict=False)
        )
    ]
    settings = replace(defaults, system=storable(chat.system or ""))
    return NewChat(clean_title(chat.title), settings, rows, len(rows) - 1)


def _from_json(content: Any, defaults: ChatSettings) -> NewChat:
    chat = chat_from_content(content)
    reading = read_fields(defaults, _safe_settings(content.get("settings", {})), "settings")
    settings = replace(reading.value, system=storable(chat.system or ""))
    others = content.get("others", [])
    if not isinstance(others, list):
        raise ValueError(Words('"others" is no list'))
    count = len(chat.messages)
    rows = [
        _new_message(item, place, is_other=place >= count, model=chat.model)
        for place, item in enumerate([*content["messages"], *others])
    ]
    leaf = (count or len(rows)) - 1
    place_of = _places(content.get("order"), rows)
    moved = (replace(row, id=place_of[row.id], parent=place_of.get(row.parent)) for row in rows)
    rows, leaf = sorted(moved, key=attrgetter("id")), place_of.get(leaf, -1)
    folder = clean_title(text_of(content.get("folder")))
    return NewChat(text_of(content.get("title")), settings, rows, leaf, folder, reading.notes)


def _places(order: Any, rows: Sequence[StoredMessage]) -> dict[int | None, int]:
    """Return the place of each message in "order", in the file where that is none, or has a message
    before the one it follows.
    """
    numbers = range(len(rows))
    is_whole = isinstance(order, list) and all(type(number) is int for number in order)
    if is_whole and sorted(order) == list(numbers):
        place_of: dict[int | None, int] = {number: place for place, number in enumerate(order)}
        if all(place_of.get(row.parent, -1) < place_of[row.id] for row in rows):
            return place_of
    return dict(zip(numbers, numbers, strict=True))


def _safe_settings(content: Any) -> Any:
    """Drop settings that must not come from a file: model path, first message read, tools."""
    if not isinstance(content, dict):
        return content
    own = ("model_path", "read_from", "tool_servers", "allowed_tools")
    return {key: value for key, value in content.items() if key not in own}


def _new_message(content: Any, place: int, *, is_other: bool, model: str) -> StoredMessage:
    told = message_from_content(content, place + 1)
    parent = content.get("parent") if is_other else place - 1 if place else None
    if parent is not None and (type(parent) is not int or not 0 <= parent < place):
        raise ValueError(
            Words(
                "message {place} follows {parent}, which is no message before it",
                place=place + 1,
                parent=repr(parent),
            )
        )
    if not isinstance(content.get("model"), str):
        content = {**content, "model": model if told.role == "assistant" else ""}
    said = content.get
    sound = {
        **content,
        "state": "stopped" if said("state") in ("stopped", "partial") else "done",
        "stats": stats_from(said("stats")),
        "spans": spans_from(said("spans"), len(text_of(said("text")))),
        "uses": uses_from(said("uses")),
        "problem": text_of(said("problem")).lstrip(KEPT_WORDS),
    }
    return replace(sound_message(sound, place, 0, parent), pictures=told.images)
