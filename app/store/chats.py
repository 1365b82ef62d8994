"""The table of chats: create, rename, pin, copy, trash, restore, and full-text search."""

import json
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count, islice
from typing import TypeVar, cast

from app.store.database import Database, storable
from app.store.pictures import Pictures
from app.store.rows import seconds_of, text_of
from app.store.salvage import copy_file
from app.store.words import WordFinder, like_patterns, match_expression, query_words
from app.values.app_settings import BUILT_IN, ModelSettings, load_options_in
from app.values.attached_text import said_with
from app.values.chat_settings import ChatSettings, settings_from_json, settings_to_json
from app.values.chats import ChatSummary, ListedChat, TextRange
from app.values.errors import NoSuchChat
from app.values.typed_json import Reading

T = TypeVar("T")
MAX_TITLE = 200
FIRST_WORDS = 60
MOST_LOOKED_AT = 10_000
"""Characters of a text that are read to make a title."""
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and characters that change the direction of the text."""


def clean_title(text: str) -> str:
    """Reduce a text to one line of MAX_TITLE visible characters."""
    line = " ".join(text.lstrip()[:MOST_LOOKED_AT].split())[:MAX_TITLE]
    return _CONTROLS.sub("\ufffd", line)


def title_from(text: str) -> str:
    """Make a title of a question's first line, or of its attachments' names, cut after a word."""
    said = said_with(text)
    text = said.text or ", ".join(one.name for one in said.attachments)
    line = clean_title(next((line for line in text.splitlines() if line.strip()), ""))
    if len(line) <= FIRST_WORDS:
        return line
    head, space, _ = line[: FIRST_WORDS + 1].rpartition(" ")
    return (head if len(head) > FIRST_WORDS // 2 and space else line[:FIRST_WORDS]) + "…"


DAYS_IN_BIN = 30
AT_ONCE = 200
"""Messages that are copied or imported in one step, about 10 ms."""
UNFINISHED = 0.0
"""Deletion time of a chat that is being copied or imported; the next start deletes it."""
SUMMARY_COLUMNS = (
    "chat.id, chat.title, chat.pinned, chat.created_at, chat.updated_at, chat.deleted_at, "
    "chat.folder"
)
_COPIED = (
    "role, finish_reason, model, created_at, text, thinking, spans, stats, "
    "thinking_seconds, problem, edited, calls, pictures"
)
_UP_TO = """WITH RECURSIVE up (id, parent, chat) AS (
        SELECT id, parent, chat FROM message WHERE id = ?
        UNION ALL
        SELECT message.id, message.parent, up.chat FROM up JOIN message ON message.id = up.parent
        WHERE message.id < up.id AND message.chat = up.chat
    )
    SELECT id, parent FROM up ORDER BY id"""


def summary_from_row(row: sqlite3.Row) -> ChatSummary:
    """Convert a row with SUMMARY_COLUMNS to a ChatSummary."""
    deleted_at = row["deleted_at"]
    return ChatSummary(
        row["id"],
        text_of(row["title"]),
        bool(row["pinned"]),
        seconds_of(row["created_at"]),
        seconds_of(row["updated_at"]),
        None if deleted_at is None else seconds_of(deleted_at),
        row["folder"] if isinstance(row["folder"], int) else None,
    )


def end_step(database: Database, chat_id: int, leaf: int | None, is_whole: bool) -> None:
    """Select the leaf of a chat that is whole, and list it; hide one that is not yet."""
    database.write(
        "UPDATE chat SET leaf = ?, deleted_at = ? WHERE id = ?",
        leaf if is_whole else None,
        None if is_whole else UNFINISHED,
        chat_id,
    )


def result_of(steps: Generator[None, None, T]) -> T:
    """Run all steps of a generator and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


def copy_message(database: Database, message_id: int, chat_id: int, parent: int | None) -> int:
    """Copy a message into a chat after `parent` and return the new id; an unfinished answer becomes
    a stopped one. Raises StoreError.
    """
    return database.insert(
        f"""INSERT INTO message (chat, parent, state, {_COPIED})
            SELECT ?, ?, iif(state = 'partial', 'stopped', state), {_COPIED}
            FROM message WHERE id = ?""",
        chat_id,
        parent,
        message_id,
    )


class Chats:
    """The table of chats. All methods raise StoreError; clock: seconds since 1970."""

    def __init__(
        self, database: Database, pictures: Pictures, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._pictures = database, pictures
        self._clock = clock

    def take_load_options(self) -> dict[str, ModelSettings]:
        """Remove the load options that an older version kept with chats, and return those that are
        not the default, the newest for each model by its path.
        """
        has_some = "iif(json_valid(settings), json_type(settings, '$.load'), NULL) IS NOT NULL"
        found = {}
        for row in self._database.rows(
            f"SELECT settings FROM chat WHERE {has_some} ORDER BY updated_at"
        ):
            chat = json.loads(row["settings"])
            path = chat.get("model_path")
            found[path if isinstance(path, str) else BUILT_IN] = load_options_in(chat)
        if found:
            remove = "json_remove(settings, '$.load', '$.cache')"
            self._database.write(f"UPDATE chat SET settings = {remove} WHERE {has_some}")
        return {path: own for path, own in found.items() if own != ModelSettings()}

    def create(self, settings: ChatSettings, title: str = "") -> int:
        """Add an empty chat and return its id."""
        now = self._clock()
        return self._database.insert(
            "INSERT INTO chat (title, created_at, updated_at, settings) VALUES (?, ?, ?, ?)",
            clean_title(title),
            now,
            now,
            settings_to_json(settings),
        )

    def listed(self) -> tuple[ChatSummary, ...]:
        """Return the chats that are not in the trash: pinned first, then by their last change."""
        rows = self._database.rows(
            f"""SELECT {SUMMARY_COLUMNS} FROM chat WHERE deleted_at IS NULL
                ORDER BY pinned DESC, updated_at DESC, id DESC"""
        )
        return tuple(summary_from_row(row) for row in rows)

    def in_bin(self) -> tuple[ChatSummary, ...]:
        """Return the chats in the trash, the last deleted first."""
        rows = self._database.rows(
            f"""SELECT {SUMMARY_COLUMNS} FROM chat WHERE deleted_at > ?
                ORDER BY deleted_at DESC, id DESC""",
            UNFINISHED,
        )
        return tuple(summary_from_row(row) for row in rows)

    def get(self, chat_id: int) -> ChatSummary:
        """Return one chat, in the trash or not."""
        return summary_from_row(self._row(SUMMARY_COLUMNS, chat_id))

    def settings(self, chat_id: int) -> Reading[ChatSettings]:
        """Return a chat's settings, with notes on what could not be read of them."""
        return settings_from_json(text_of(self._row("settings", chat_id)["settings"]))

    def set_settings(self, chat_id: int, settings: ChatSettings) -> None:
        """Replace a chat's settings; its place in the list stays."""
        self._set(chat_id, "settings = ?", settings_to_json(settings))

    def rename_preset(self, name: str, new: str) -> None:
        """Rename a preset in the settings of all chats that began with it."""
        self._database.write(
            """UPDATE chat SET settings = json_set(settings, '$.preset', ?)
                WHERE iif(json_valid(settings), json_extract(settings, '$.preset'), NULL) = ?""",
            new,
            name,
        )

    def rename(self, chat_id: int, title: str) -> None:
        """Set the title to one line of text; an empty title is made from the next question."""
        self._set(chat_id, "title = ?", clean_title(title))

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Pin a chat to the top of the list, or unpin it."""
        self._set(chat_id, "pinned = ?", int(pinned))

    def delete(self, chat_id: int) -> None:
        """Move a chat to the trash, where it stays for DAYS_IN_BIN days."""
        self._set(chat_id, "deleted_at = ?", self._clock())

    def restore(self, chat_id: int) -> None:
        """Move a chat out of the trash, to its former place in the list."""
        self._set(chat_id, "deleted_at = ?", None)

    def delete_for_ever(self, chat_id: int) -> None:
        """Delete a chat with all its messages permanently, whether it is in the trash or not."""
        with self._database.transaction():
            pictures = self._pictures.of_chat(chat_id)
            if not self._database.write("DELETE FROM chat WHERE id = ?", chat_id):
                raise chat_gone(chat_id)
            self._pictures.clean(pictures)
        with suppress(OSError):
            copy_file(self._database.path).unlink(missing_ok=True)  # has it still

    def empty_bin(self) -> int:
        """Delete chats permanently that have been in the trash for DAYS_IN_BIN days; return how
        many.
        """
        before = self._clock() - DAYS_IN_BIN * 24 * 3600
        return self._database.write("DELETE FROM chat WHERE deleted_at <= ?", before)

    def duplicate(self, chat_id: int, how: str = "copy") -> int:
        """Copy a chat with all its branches and return the new id. how: word added to the title."""
        return result_of(self.copy_in_steps(chat_id, how))

    def branch(self, chat_id: int, message_id: int, how: str = "branch") -> int:
        """Copy a chat up to a message and return the new id. how: word added to the title."""
        return result_of(self.copy_in_steps(chat_id, how, message_id))

    def copy_in_steps(
        self, chat_id: int, how: str, up_to: int | None = None
    ) -> Generator[None, None, int]:
        """Copy AT_ONCE messages a step into a new chat in the same folder; return its id at the
        end.

        up_to: last message to copy, None for all branches. how: word added to the title. The copy
        is listed when it is whole.
        """
        if up_to is None:
            sql = "SELECT id, parent FROM message WHERE chat = ? ORDER BY id"
            messages, leaf = self._database.rows(sql, chat_id), self._row("leaf", chat_id)["leaf"]
        else:
            messages, leaf = self._database.rows(_UP_TO, up_to), up_to
        new_ids, copy = dict[int | None, int](), 0
        while not copy or len(new_ids) < len(messages):
            if copy:
                yield
            with self._database.transaction():
                settings = self.settings(chat_id).value  # the chat is still there
                copy = copy or self._begin_copy(chat_id, how)
                for row in messages[len(new_ids) : len(new_ids) + AT_ONCE]:
                    parent = new_ids.get(row["parent"])  # None also where a damaged file has none
                    new_ids[row["id"]] = copy_message(self._database, row["id"], copy, parent)
                is_whole = len(new_ids) == len(messages)
                if is_whole and settings.read_from is not None:
                    first = new_ids.get(settings.read_from)
                    self.set_settings(copy, replace(settings, read_from=first))
                end_step(self._database, copy, new_ids.get(leaf), is_whole)
        return copy

    def _begin_copy(self, chat_id: int, how: str) -> int:
        now = self._clock()
        return self._database.insert(
            """INSERT INTO chat (title, created_at, updated_at, settings, folder)
                SELECT ?, ?, ?, settings, folder FROM chat WHERE id = ?""",
            self._title_of_copy(clean_title(self.get(chat_id).title), how),
            now,
            now,
            chat_id,
        )

    def _title_of_copy(self, title: str, how: str) -> str:
        """Return the first title with `how` and a number that no chat has; a copy of a copy gets
        the next number.
        """
        first = re.sub(rf" \({re.escape(how)}( \d+)?\)$", "", title)
        numbered = chain([how], (f"{how} {n}" for n in count(2)))
        titles = (f"{first[: MAX_TITLE - len(words) - 3]} ({words})" for words in numbered)
        sql = "SELECT 1 FROM chat WHERE title = ?"
        return next(title for title in titles if self._database.row(sql, title) is None)

    def _row(self, columns: str, chat_id: int) -> sqlite3.Row:
        row = self._database.row(f"SELECT {columns} FROM chat WHERE id = ?", chat_id)
        if row is None:
            raise chat_gone(chat_id)
        return row

    def _set(self, chat_id: int, change: str, value: object) -> None:
        if not self._database.write(f"UPDATE chat SET {change} WHERE id = ?", value, chat_id):
            raise chat_gone(chat_id)


def chat_gone(chat_id: int) -> NoSuchChat:
    """Make the error for a chat that was deleted permanently."""
    return NoSuchChat("Chat {chat_id} is not there any more: open another.", chat_id=chat_id)


HITS = 50
BEFORE, SNIPPET = 20, 140
_IN_TITLES = f"""SELECT {SUMMARY_COLUMNS} FROM chat JOIN title_index ON title_index.rowid = id
    WHERE title_index MATCH ? AND deleted_at IS NULL ORDER BY updated_at DESC"""
_WITHOUT_TITLE_INDEX = f"""SELECT {SUMMARY_COLUMNS} FROM chat
    WHERE {{found}} AND deleted_at IS NULL ORDER BY updated_at DESC"""
_IN_TEXTS = f"""SELECT {SUMMARY_COLUMNS}, message.id AS message
    FROM text_index JOIN message ON message.id = text_index.rowid JOIN chat ON chat.id = chat
    WHERE text_index MATCH ? AND deleted_at IS NULL ORDER BY text_index.rowid DESC"""
_WITHOUT_TEXT_INDEX = f"""SELECT {SUMMARY_COLUMNS}, message.id AS message
    FROM message JOIN chat ON chat.id = chat
    WHERE {{found}} AND state <> 'partial' AND deleted_at IS NULL ORDER BY message.id DESC"""


class Search:
    """Full-text search over titles and messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, query: str, limit: int = HITS) -> tuple[ListedChat, ...]:
        """Return chats with all words of `query`: matches in titles first, then the newest
        messages.

        Words match inside other words, in any case and without accents; a query has no operators.
        Each hit names the newest matching message. Raises StoreError.
        """
        words = query_words(storable(query))
        if not words:
            return ()
        finder = WordFinder(words)
        titled = self._rows("title", words, _IN_TITLES, _WITHOUT_TITLE_INDEX)
        chats = (summary_from_row(row) for row in titled if finder.has_all(text_of(row["title"])))
        hits = {
            chat.id: ListedChat(chat, tuple(finder.ranges(chat.title)))
            for chat in islice(chats, limit)
        }
        seen = set[int]()
        for row in self._rows("text", words, _IN_TEXTS, _WITHOUT_TEXT_INDEX):
            chat_id = row["id"]
            if chat_id not in seen and (chat_id in hits or len(hits) < limit):
                hit = hits.get(chat_id) or ListedChat(summary_from_row(row))
                hit = self._with_message(hit, row["message"], finder)
                if hit.message_id is not None:
                    hits[chat_id] = hit
                    seen.add(chat_id)
            if len(seen) == limit:  # a common word costs no more
                break
        return tuple(hits.values())

    def _rows(
        self, column: str, words: list[str], indexed: str, unindexed: str
    ) -> Iterator[sqlite3.Row]:
        """Yield candidate rows, by trigrams where a word is long enough, else by LIKE for the
        longest word.
        """
        matching = match_expression(words)
        if matching:
            return self._database.each(indexed, matching)
        patterns = like_patterns(max(words, key=len))
        found = " OR ".join([f"{column} LIKE ? ESCAPE '\\'"] * len(patterns))
        return self._database.each(unindexed.format(found=f"({found})"), *patterns)

    def _with_message(self, hit: ListedChat, message_id: int, finder: WordFinder) -> ListedChat:
        """Add a message to a hit if it has all words."""
        row = self._database.row("SELECT text FROM message WHERE id = ?", message_id)
        text = "" if row is None else text_of(row["text"])
        if not finder.has_all(text):
            return hit
        snippet = cut_snippet(text, finder)
        return replace(
            hit,
            message_id=message_id,
            snippet=snippet,
            snippet_ranges=tuple(finder.ranges(snippet)),
            found=finder.longest(text),
        )


MARKS = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]|>|[-+*][ \t]|\|[-:| \t]+$|```+[^\s`]*)|```+|\$\$|\|(?=\s|$)",
    re.MULTILINE,
)
EMPHASIS = re.compile(
    r"`|~~|(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])|\[(?=[^\[\]]*\]\()|\]\([^()\s]*\)?"
)
"""Markdown marks that touch words; those of MARKS stand apart from words."""


def cut_snippet(text: str, finder: WordFinder) -> str:
    """Cut about a line of text around the first match, without line ends and markdown."""
    first = next(finder.ranges(text), TextRange(0, 0))
    start = max(0, first.start - BEFORE)
    if start:
        space = re.search(r"\s", text[start : first.start])
        start += space.end() if space else 0
    piece = re.sub(r"\s+", " ", MARKS.sub(" ", text[start : start + SNIPPET]))
    piece = EMPHASIS.sub("", piece).strip()
    return ("…" if start else "") + piece + ("…" if start + SNIPPET < len(text) else "")
