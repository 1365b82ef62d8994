"""A damaged database: moved aside whole, and whatever rows it still gives taken over."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from app.store.database import connect, transaction
from app.store.schema import Columns, sound_columns
from app.store.words import storable

_LOST_CHATS = """INSERT INTO chat (id, title, created_at, updated_at, settings)
    SELECT chat, 'Recovered chat', min(created_at), max(created_at), '{}' FROM message
    WHERE chat NOT IN (SELECT id FROM chat) GROUP BY chat"""
_LOST_PARENTS = """UPDATE message SET parent =
    (SELECT max(id) FROM message AS before WHERE chat = message.chat AND id < message.id)
    WHERE parent NOT IN (SELECT id FROM message)"""
_LOST_LEAVES = """UPDATE chat SET leaf = (SELECT max(id) FROM message WHERE chat = chat.id)
    WHERE leaf IS NULL OR leaf NOT IN (SELECT id FROM message)"""


@dataclass(frozen=True, slots=True)
class Saved:
    """How much was taken over."""

    chats: int
    messages: int


def set_aside(path: Path, now: datetime) -> Path:
    """Rename the file and its side files so that they still belong together; raises OSError."""
    stamp = now.strftime("%Y%m%d-%H%M%S")
    number = 1
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.stem}-damaged-{stamp}-{number}{path.suffix}")
    for side in ("-wal", "-shm", ""):
        source = path.with_name(path.name + side)
        if source.exists():
            source.rename(aside.with_name(aside.name + side))
    return aside


def salvage(aside: Path, path: Path) -> Saved:
    """Copy every sound row of `aside` to the new, empty `path`, ids and all; raises sqlite3.Error.

    A message whose parent is lost follows the one before it in its chat.
    """
    with closing(connect(path, "rwc")) as target, transaction(target):
        target.execute("PRAGMA defer_foreign_keys = ON")
        for table, columns in sound_columns().items():
            for row in _sound_rows(aside, table, columns):
                places = ", ".join("?" * len(row))
                sql = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({places})"
                target.execute(sql, list(row.values()))
        for statement in (_LOST_CHATS, _LOST_PARENTS, _LOST_LEAVES):
            target.execute(statement)
        chats, messages = (
            target.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("chat", "message")
        )
    return Saved(chats, messages)


def _sound_rows(aside: Path, table: str, columns: Columns) -> Iterator[dict[str, Any]]:
    """From both ends, each as far as it can be read; the same row may come twice.

    A file of an older version lacks some of the columns.
    """
    for order in ("ASC", "DESC"):
        try:
            with closing(connect(aside, "ro")) as source:
                there = {row["name"] for row in source.execute(f"PRAGMA table_info({table})")}
                names = [name for name in columns if name in there]
                sql = f"SELECT {', '.join(names)} FROM {table} NOT INDEXED ORDER BY id {order}"
                for row in source.execute(sql):
                    if all(isinstance(row[name], columns[name]) for name in names):
                        yield {name: _clean(row[name]) for name in names}
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            continue
        else:
            return


def _clean(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value
