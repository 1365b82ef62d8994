"""Numbered steps that bring an older database up to date, each applied once.

The number of a step is its place in MIGRATIONS, kept in the file as user_version. A step that has
shipped is never changed; a new one is added below it.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from app.store.connection import pragma, transaction
from app.store.search_index import make_index

Migration = Callable[[sqlite3.Connection], None]
APPLICATION_ID = 0x48656164


def _chats_and_messages(connection: sqlite3.Connection) -> None:
    """A message comes after its parent, so ids grow along every branch and there are no loops."""
    for statement in (
        f"PRAGMA application_id = {APPLICATION_ID}",
        """CREATE TABLE chat (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL,
            pinned INTEGER NOT NULL DEFAULT 0,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            deleted_at REAL,
            leaf INTEGER,
            settings TEXT NOT NULL
        )""",
        """CREATE INDEX chat_list
            ON chat (deleted_at, pinned DESC, updated_at DESC, id DESC, title, created_at)""",
        """CREATE TABLE message (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            chat INTEGER NOT NULL REFERENCES chat ON DELETE CASCADE,
            parent INTEGER REFERENCES message DEFERRABLE INITIALLY DEFERRED CHECK (parent < id),
            role TEXT NOT NULL,
            state TEXT NOT NULL,
            finish_reason TEXT,
            model TEXT NOT NULL,
            created_at REAL NOT NULL,
            text TEXT NOT NULL,
            thinking TEXT NOT NULL,
            spans TEXT NOT NULL,
            stats TEXT
        )""",
        "CREATE INDEX message_of_chat ON message (chat, parent)",
        "CREATE INDEX message_child ON message (parent)",
        "CREATE INDEX message_partial ON message (id) WHERE state = 'partial'",
    ):
        connection.execute(statement)


def _how_answers_went(connection: sqlite3.Connection) -> None:
    """How long an answer's thinking took, and what ended one that failed, in words."""
    connection.execute("ALTER TABLE message ADD COLUMN thinking_seconds REAL")
    connection.execute("ALTER TABLE message ADD COLUMN problem TEXT NOT NULL DEFAULT ''")


MIGRATIONS: tuple[Migration, ...] = (_chats_and_messages, make_index, _how_answers_went)


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> Path | None:
    """Apply what is missing; returns the copy made before, None when none was needed.

    Raises sqlite3.Error; the steps before the one that failed stay applied.
    """
    version = pragma(connection, "user_version")
    if version >= len(steps):
        return None
    copy = _copy_before(connection, path, version) if version else None
    for number, step in enumerate(steps[version:], start=version + 1):
        with transaction(connection):
            if pragma(connection, "user_version") < number:
                step(connection)
                connection.execute(f"PRAGMA user_version = {number}")
    return copy


def _copy_before(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """A whole copy beside the file, under its own name only once it is complete."""
    copy = path.with_name(f"{path.stem}-before-update-{version}{path.suffix}")
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    target = sqlite3.connect(unfinished)
    try:
        connection.backup(target)
    except sqlite3.Error:
        target.close()
        unfinished.unlink(missing_ok=True)
        raise
    target.close()
    return unfinished.replace(copy)
