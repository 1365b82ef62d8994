"""Salvage a damaged database: move it aside, copy the rows that it or its daily copy has."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import disk_usage
from typing import Any

from app.store.database import connect, storable, transaction
from app.store.schema import Columns, sound_columns
from mlx_engine.values.private_files import make_private_file

DAY_S = 24 * 3600.0
ROOM = 3
"""Free disk space needed for the daily copy, as a multiple of the file's size."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's side files."""
LOST = 0
"""A message id that does not exist."""

_LOST_CHATS = """INSERT INTO chat (id, title, created_at, updated_at, settings)
    SELECT chat, (SELECT trim(replace(substr(text, 1, 60), char(10), ' ')) FROM message AS first
        WHERE first.chat = message.chat ORDER BY id LIMIT 1),
        min(created_at), max(created_at), '{}' FROM message
    WHERE chat NOT IN (SELECT id FROM chat) GROUP BY chat"""
_LOST_DRAFTS = """DELETE FROM draft
    WHERE chat NOT IN (SELECT id FROM chat) OR message NOT IN (SELECT id FROM message)"""
_LOST_FOLDERS = """INSERT INTO folder (id, created_at, name)
    SELECT folder, 0, '# ' || folder FROM chat
    WHERE folder IS NOT NULL AND folder NOT IN (SELECT id FROM folder) GROUP BY folder"""
_LOST_PARENTS = """UPDATE message SET parent =
    (SELECT max(id) FROM message AS before WHERE chat = message.chat AND id < message.id)
    WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message AS above
        WHERE above.id = message.parent AND above.chat = message.chat AND above.id < message.id)"""
_LOST_LEAVES = """UPDATE chat SET leaf = (SELECT max(id) FROM message WHERE chat = chat.id)
    WHERE NOT EXISTS (SELECT 1 FROM message WHERE id = chat.leaf AND chat = chat.id)"""


@dataclass(frozen=True, slots=True)
class Saved:
    """Numbers of chats and messages that were copied. copied_at: seconds since 1970 at which the
    daily copy was made, None without one.
    """

    chats: int
    messages: int
    copied_at: float | None = None


def set_aside(path: Path, now: datetime) -> Path:
    """Rename the file and its side files under one new name; raises OSError."""
    stamp = now.strftime("%Y%m%d-%H%M%S")
    number = 1
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.stem}-damaged-{stamp}-{number}{path.suffix}")
    for side in (*SIDE_FILES, ""):
        source = path.with_name(path.name + side)
        if source.exists():
            odd = "-odd" if side and not source.is_file() else ""  # SQLite would wait for a pipe
            source.rename(aside.with_name(aside.name + side + odd))
    return aside


def copy_file(path: Path) -> Path:
    """Return the path of the daily copy of a file of chats."""
    return path.with_name(f"{path.stem}-copy{path.suffix}")


def copy_daily(path: Path) -> None:
    """Copy a file of chats, if it has any, unless its copy is of today; then `salvage` finds most
    rows of a file that can no longer be read. What fails is tried again at the next call.
    """
    copy = copy_file(path)
    unfinished = copy.with_suffix(".part")
    with suppress(OSError, sqlite3.Error):
        if copy.exists() and 0 <= time.time() - copy.stat().st_mtime < DAY_S:
            return
        unfinished.unlink(missing_ok=True)
        if disk_usage(path.parent).free < ROOM * path.stat().st_size:
            return
        with closing(connect(path, "ro")) as source:
            if source.execute("SELECT 1 FROM chat").fetchone() is None:
                return
            make_private_file(unfinished)
            source.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.replace(copy)


def salvage(aside: Path, path: Path) -> Saved:
    """Copy every sound row of `aside`, and of the daily copy those that `aside` has lost, to the
    new, empty `path`, with their ids; raises sqlite3.Error.

    A message whose parent is lost follows the previous message of its chat.
    """
    with closing(connect(path, "rwc")) as target, transaction(target):
        target.execute("PRAGMA defer_foreign_keys = ON")
        for source in filter(Path.is_file, (aside, copy_file(path))):
            for table, columns in sound_columns().items():
                if table == "draft" and source != aside:
                    continue  # texts that were sent since
                for row in _sound_rows(source, table, columns):
                    if (row.get("parent") or 0) >= row["id"]:  # else it is not taken
                        row["parent"] = LOST
                    places = ", ".join("?" * len(row))
                    sql = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({places})"
                    target.execute(sql, list(row.values()))
        relink(target)
        chats, messages = (
            target.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("chat", "message")
        )
    copy = copy_file(path)
    return Saved(chats, messages, copy.stat().st_mtime if copy.is_file() else None)


def relink(connection: sqlite3.Connection) -> None:
    """Repair references to rows that do not exist; call within a transaction."""
    for statement in (_LOST_CHATS, _LOST_FOLDERS, _LOST_PARENTS, _LOST_LEAVES, _LOST_DRAFTS):
        connection.execute(statement)


_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)


def _sound_rows(aside: Path, table: str, columns: Columns) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as far as they can be read from its beginning, and where damage
    showed from its end; the same row may come twice. A file of an older version lacks some of the
    tables and columns.
    """
    for order in ("ASC", "DESC"):
        try:
            with closing(connect(aside, "damaged")) as source:
                there = {row["name"] for row in source.execute(f"PRAGMA table_info({table})")}
                names = [name for name in columns if name in there]
                if not names:
                    return
                sql = f"SELECT {', '.join(names)} FROM {table} NOT INDEXED ORDER BY id {order}"
                for row in source.execute(sql):
                    if all(isinstance(row[name], columns[name]) for name in names):
                        yield {name: storable(row[name]) for name in names}
                return
        except _DAMAGED:
            continue
