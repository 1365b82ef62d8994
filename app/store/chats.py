"""The list of chats: made, named, pinned, copied, thrown away and taken back."""

import sqlite3
import time
from collections.abc import Callable

from app.store.database import Database
from app.store.rows import seconds_of, text_of
from app.values.chat_settings import ChatSettings, settings_from_json, settings_to_json
from app.values.chats import ChatSummary
from app.values.errors import NoSuchChat
from app.values.typed_json import Reading

MAX_TITLE = 200
FIRST_WORDS = 60


def clean_title(text: str) -> str:
    """One line, not endless."""
    return " ".join(text.split())[:MAX_TITLE]


def title_from(text: str) -> str:
    """The first line with words in it, cut after a word."""
    line = clean_title(next((line for line in text.splitlines() if line.strip()), ""))
    if len(line) <= FIRST_WORDS:
        return line
    head, space, _ = line[: FIRST_WORDS + 1].rpartition(" ")
    return (head if len(head) > FIRST_WORDS // 2 and space else line[:FIRST_WORDS]) + "…"


DAYS_IN_BIN = 30
SUMMARY_COLUMNS = (
    "chat.id, chat.title, chat.pinned, chat.created_at, chat.updated_at, chat.deleted_at"
)
_COPIED = (
    "role, finish_reason, model, created_at, text, thinking, spans, stats, "
    "thinking_seconds, problem"
)


def summary_from_row(row: sqlite3.Row) -> ChatSummary:
    """The row must have SUMMARY_COLUMNS."""
    deleted_at = row["deleted_at"]
    return ChatSummary(
        row["id"],
        text_of(row["title"]),
        bool(row["pinned"]),
        seconds_of(row["created_at"]),
        seconds_of(row["updated_at"]),
        None if deleted_at is None else seconds_of(deleted_at),
    )


class Chats:
    """Chats of one database. All methods raise StoreError; clock: seconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def create(self, settings: ChatSettings, title: str = "") -> int:
        """A new, empty chat; its id."""
        now = self._clock()
        return self._database.insert(
            "INSERT INTO chat (title, created_at, updated_at, settings) VALUES (?, ?, ?, ?)",
            clean_title(title),
            now,
            now,
            settings_to_json(settings),
        )

    def listed(self, limit: int = -1, offset: int = 0) -> tuple[ChatSummary, ...]:
        """All that are not in the bin: pinned ones first, then the last changed first."""
        rows = self._database.rows(
            f"""SELECT {SUMMARY_COLUMNS} FROM chat WHERE deleted_at IS NULL
                ORDER BY pinned DESC, updated_at DESC, id DESC LIMIT ? OFFSET ?""",
            limit,
            offset,
        )
        return tuple(summary_from_row(row) for row in rows)

    def in_bin(self) -> tuple[ChatSummary, ...]:
        """Those thrown away, the last one first."""
        rows = self._database.rows(
            f"""SELECT {SUMMARY_COLUMNS} FROM chat WHERE deleted_at IS NOT NULL
                ORDER BY deleted_at DESC, id DESC"""
        )
        return tuple(summary_from_row(row) for row in rows)

    def get(self, chat_id: int) -> ChatSummary:
        """One chat, in the bin or not."""
        return summary_from_row(self._row(SUMMARY_COLUMNS, chat_id))

    def settings(self, chat_id: int) -> Reading[ChatSettings]:
        """What this chat answers with; notes say what could not be read of it."""
        return settings_from_json(text_of(self._row("settings", chat_id)["settings"]))

    def set_settings(self, chat_id: int, settings: ChatSettings) -> None:
        """From now on; its place in the list stays."""
        self._set(chat_id, "settings = ?", settings_to_json(settings))

    def rename(self, chat_id: int, title: str) -> None:
        """One line; an empty title is taken from the next thing the user says."""
        self._set(chat_id, "title = ?", clean_title(title))

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep it at the top, or no longer."""
        self._set(chat_id, "pinned = ?", int(pinned))

    def delete(self, chat_id: int) -> None:
        """Into the bin, where it stays for DAYS_IN_BIN days."""
        self._set(chat_id, "deleted_at = ?", self._clock())

    def restore(self, chat_id: int) -> None:
        """Out of the bin, to the place it had."""
        self._set(chat_id, "deleted_at = ?", None)

    def delete_for_ever(self, chat_id: int) -> None:
        """With all its messages, whether it was in the bin or not."""
        if not self._database.write("DELETE FROM chat WHERE id = ?", chat_id):
            raise _gone(chat_id)

    def empty_bin(self, older_than_days: float = DAYS_IN_BIN) -> int:
        """Delete for ever what has been in the bin this long; how many."""
        before = self._clock() - older_than_days * 24 * 3600
        return self._database.write("DELETE FROM chat WHERE deleted_at <= ?", before)

    def duplicate(self, chat_id: int) -> int:
        """A second one with all branches, not pinned; its id. A partial answer is stopped there."""
        database, now = self._database, self._clock()
        with database.transaction():
            leaf = self._row("leaf", chat_id)["leaf"]
            copy = database.insert(
                """INSERT INTO chat (title, created_at, updated_at, settings)
                    SELECT title || ' (copy)', ?, ?, settings FROM chat WHERE id = ?""",
                now,
                now,
                chat_id,
            )
            new_ids: dict[int | None, int | None] = {None: None}
            sql = "SELECT id, parent FROM message WHERE chat = ? ORDER BY id"
            for row in database.rows(sql, chat_id):
                new_ids[row["id"]] = database.insert(
                    f"""INSERT INTO message (chat, parent, state, {_COPIED})
                        SELECT ?, ?, iif(state = 'partial', 'stopped', state), {_COPIED}
                        FROM message WHERE id = ?""",
                    copy,
                    new_ids[row["parent"]],
                    row["id"],
                )
            database.write("UPDATE chat SET leaf = ? WHERE id = ?", new_ids.get(leaf), copy)
            return copy

    def _row(self, columns: str, chat_id: int) -> sqlite3.Row:
        row = self._database.row(f"SELECT {columns} FROM chat WHERE id = ?", chat_id)
        if row is None:
            raise _gone(chat_id)
        return row

    def _set(self, chat_id: int, change: str, value: object) -> None:
        if not self._database.write(f"UPDATE chat SET {change} WHERE id = ?", value, chat_id):
            raise _gone(chat_id)


def _gone(chat_id: int) -> NoSuchChat:
    return NoSuchChat(f"Chat {chat_id} is not there any more: open another.")
