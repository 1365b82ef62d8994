"""A damaged database: moved aside whole, and whatever rows it still gives taken over."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

from app.store.database import connect, transaction
from app.store.schema import Columns, new_in_memory, sound_columns
from app.store.words import storable

PAGE_SIZE, PAGES, FREE_PAGES = slice(16, 18), slice(28, 32), slice(32, 40)
"""Bytes of the header, big endian (sqlite.org/fileformat2.html, section 1.3)."""

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
    with (
        _grafted(aside) as graft,
        closing(connect(path, "rwc")) as target,
        transaction(target),
    ):
        target.execute("PRAGMA defer_foreign_keys = ON")
        for table, columns in sound_columns().items():
            for row in _sound_rows((aside, graft), table, columns):
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


@contextmanager
def _grafted(aside: Path) -> Iterator[Path]:
    """A copy under the first page of a new database, for a file whose own is damaged, or that was
    cut off. That page says how long the file is and where its tables begin: in all of ours at the
    same pages. Where there is no room for it there is none.
    """
    graft = aside.with_name(aside.name + ".part")
    try:
        with suppress(OSError):
            shutil.copyfile(aside, graft)
            with closing(new_in_memory()) as new, graft.open("r+b") as file:
                image = bytearray(new.serialize())
                size = int.from_bytes(image[PAGE_SIZE])
                image[PAGES] = (aside.stat().st_size // size).to_bytes(4)
                image[FREE_PAGES] = bytes(8)
                file.write(image[:size])
        yield graft
    finally:
        graft.unlink(missing_ok=True)


def _sound_rows(
    places: tuple[Path, Path], table: str, columns: Columns
) -> Iterator[dict[str, Any]]:
    """From both ends of the first place, each as far as it can be read, and where damage showed
    also of the second; the same row may come twice.

    A file of an older version lacks some of the columns.
    """
    for place, order in product(places, ("ASC", "DESC")):
        try:
            with closing(connect(place, "ro")) as source:
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
