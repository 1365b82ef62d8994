"""A damaged database: moved aside whole, and whatever rows it still gives taken over."""

import shutil
import sqlite3
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from os import SEEK_END
from pathlib import Path
from typing import Any

from app.store.database import connect, transaction
from app.store.schema import Columns, new_in_memory, sound_columns
from app.store.words import storable
from mlx_engine.values.private_files import make_private_file

MAGIC = b"SQLite format 3\0"
PAGE_SIZE, PAGES, FREE_PAGES = slice(16, 18), slice(28, 32), slice(32, 40)
"""Bytes of the header, big endian (sqlite.org/fileformat2.html, section 1.3)."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Endings of what SQLite keeps beside a file."""
LOST = 0
"""The number of no message."""
TABLE_LEAF = 13
"""First byte of a page with rows (section 1.6)."""

_LOST_CHATS = """INSERT INTO chat (id, title, created_at, updated_at, settings)
    SELECT chat, 'Recovered chat', min(created_at), max(created_at), '{}' FROM message
    WHERE chat NOT IN (SELECT id FROM chat) GROUP BY chat"""
_LOST_DRAFTS = """DELETE FROM draft
    WHERE chat NOT IN (SELECT id FROM chat) OR message NOT IN (SELECT id FROM message)"""
_LOST_FOLDERS = """INSERT INTO folder (id, created_at, name)
    SELECT folder, 0, 'Recovered folder ' || folder FROM chat
    WHERE folder IS NOT NULL AND folder NOT IN (SELECT id FROM folder) GROUP BY folder"""
_LOST_PARENTS = """UPDATE message SET parent =
    (SELECT max(id) FROM message AS before WHERE chat = message.chat AND id < message.id)
    WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message AS above
        WHERE above.id = message.parent AND above.chat = message.chat AND above.id < message.id)"""
_LOST_LEAVES = """UPDATE chat SET leaf = (SELECT max(id) FROM message WHERE chat = chat.id)
    WHERE NOT EXISTS (SELECT 1 FROM message WHERE id = chat.leaf AND chat = chat.id)"""


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
    for side in (*SIDE_FILES, ""):
        source = path.with_name(path.name + side)
        if source.exists():
            odd = "-odd" if side and not source.is_file() else ""  # SQLite would wait for a pipe
            source.rename(aside.with_name(aside.name + side + odd))
    return aside


def salvage(aside: Path, path: Path) -> Saved:
    """Copy every sound row of `aside` to the new, empty `path`, ids and all; raises sqlite3.Error.

    A message whose parent is lost follows the one before it in its chat.
    """
    if not aside.is_file():
        return Saved(0, 0)
    with _grafted(aside) as graft, closing(connect(path, "rwc")) as target, transaction(target):
        target.execute("PRAGMA defer_foreign_keys = ON")
        for table, columns in sound_columns().items():
            for row in _sound_rows(aside, graft, table, columns):
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
    return Saved(chats, messages)


def relink(connection: sqlite3.Connection) -> None:
    """Within a transaction: give rows that belong to what is not there what they belong to."""
    for statement in (_LOST_CHATS, _LOST_FOLDERS, _LOST_PARENTS, _LOST_LEAVES, _LOST_DRAFTS):
        connection.execute(statement)


@contextmanager
def _grafted(aside: Path) -> Iterator[Path]:
    """A copy under the first page of a new database, for a file whose own is damaged, or that was
    cut off. That page says how long the file is and where its tables begin: in all of ours at the
    same pages. Where there is no room for it there is none.
    """
    graft = aside.with_name(aside.name + ".part")
    try:
        make_private_file(graft)
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


Rows = Iterator[dict[str, Any]]


def _sound_rows(aside: Path, graft: Path, table: str, columns: Columns) -> Rows:
    """From both ends of the first place, each as far as it can be read, and where damage showed
    also of the second, and of each of its pages by itself; the same row may come twice.
    """
    for place, order in product((aside, graft), ("ASC", "DESC")):
        try:
            yield from _rows(place, table, columns, order)
        except _DAMAGED:
            continue
        else:
            return
    with suppress(OSError, *_DAMAGED):
        yield from _rows_of_pages(aside, graft, table, columns)


_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)


def _rows(place: Path, table: str, columns: Columns, order: str = "ASC") -> Rows:
    """A file of an older version lacks some of the tables and columns."""
    with closing(connect(place, "ro")) as source:
        there = {row["name"] for row in source.execute(f"PRAGMA table_info({table})")}
        names = [name for name in columns if name in there]
        if not names:
            return
        sql = f"SELECT {', '.join(names)} FROM {table} NOT INDEXED ORDER BY id {order}"
        for row in source.execute(sql):
            if all(isinstance(row[name], columns[name]) for name in names):
                yield {name: storable(row[name]) for name in names}


def _rows_of_pages(aside: Path, graft: Path, table: str, columns: Columns) -> Rows:
    """What no longer hangs together: each page of rows is put where the table begins, as if it were
    all of it. Rows of another table have other types; pages that were given up are left out.
    """
    with closing(connect(graft, "ro")) as source:
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        root = source.execute(sql, [table]).fetchone()[0]
        size = source.execute("PRAGMA page_size").fetchone()[0]
    given_up = _free_pages(aside, size)
    with graft.open("r+b", buffering=0) as file:
        pages = file.seek(0, SEEK_END) // size

        def page(number: int) -> bytes:
            file.seek((number - 1) * size)
            return file.read(size)

        beginning = page(root)
        for number in range(2, pages + 1):
            found = beginning if number == root else page(number)
            if found[0] == TABLE_LEAF and number not in given_up:
                file.seek((root - 1) * size)
                file.write(found)
                with suppress(*_DAMAGED):
                    yield from _rows(graft, table, columns)
        file.seek((root - 1) * size)
        file.write(beginning)


def _free_pages(path: Path, size: int) -> set[int]:
    """Pages of `size` bytes of what was deleted, as far as the file can say (section 1.5)."""
    free = set[int]()
    with path.open("rb") as file:
        header = file.read(FREE_PAGES.stop)
        if not header.startswith(MAGIC):
            return free
        trunk = int.from_bytes(header[FREE_PAGES][:4])
        while trunk and trunk not in free:
            file.seek((trunk - 1) * size)
            numbers = array("I", file.read(size).ljust(size, b"\0"))
            if sys.byteorder == "little":
                numbers.byteswap()
            free |= {trunk, *numbers[2 : 2 + numbers[1]]}
            trunk = numbers[0]
    return free
