"""Open the file of chats, whatever state it is in.

What open_database does with a file that is not as it should be:

- older: copied, then migrated;
- newer: opened read-only;
- damaged, with an impossible version, or not a database: moved aside, and replaced by a new file
  with every row that can still be read from it or from its daily copy;
- file, folder or disk not writable: opened read-only;
- of another program: refused;
- locked by another program: StoreBusy, and `open_held` reads it meanwhile.

Each adds a sentence for the user to `notices`.
"""

import glob
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from app.store.database import (
    IN_MEMORY,
    Access,
    Database,
    begin_to_read,
    begin_to_write,
    closed_on_error,
    connect,
    known_errors,
    look_closer_file,
    pragma,
    primary_code,
    transaction,
)
from app.store.salvage import SIDE_FILES, relink, salvage, set_aside
from app.store.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    TABLES,
    Migration,
    indexes_open,
    make_indexes_again,
    migrate,
    new_in_memory,
    sound_columns,
)
from app.values.errors import StoreBusy, StoreDamaged, StoreForeign, StoreReadOnly
from mlx_engine.values.private_files import make_private, make_private_file, make_private_folder
from mlx_engine.values.words import Words, join_words

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
WAL_FORMAT = 2
"""Latest version of SQLite's file format, in bytes 18 (writing) and 19 (reading)."""
MADE_ALREADY = re.compile("already exists|duplicate column")
"""Error of a migration on a file that is of a later version than its header says."""
VERSIONS_TO_COME = 100
"""A version beyond this comes from damage, not from a newer Headstart."""
OURS = {"chat", "message", "message_child"}
"""Tables and indexes that our files of every version have."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def open_database(path: Path, steps: Sequence[Migration] = MIGRATIONS) -> Database:
    """Open or create the file as the module describes; raises StoreError."""
    with known_errors(path):
        try:
            _check_kind(path)
            return _open(path, steps)
        except (StoreDamaged, UnicodeDecodeError):  # SQLite quotes the damage in its message
            return _replace(path, steps)
        except sqlite3.DatabaseError as error:
            if primary_code(error) not in _DAMAGE:
                raise
            return _replace(path, steps)
        except MemoryError:  # SQLite's, for sizes that a damaged file names
            return _replace(path, steps)


def open_held(path: Path) -> Database:
    """Open a file for reading that another program keeps from being written; raises StoreError."""
    with known_errors(path):
        connection = connect(path, "rw")
        with closed_on_error(connection):
            begin_to_read(connection)
            if _check_owner(connection, path) != len(MIGRATIONS):
                raise StoreBusy("{path} is held by another program: try again.", path=path)
            _check_shape(connection, path)
    words = Words(
        "{path} is held by another program: until it lets go, nothing can be saved.", path=path
    )
    return Database(connection, path, notices=(words,))


def open_in_memory(notice: str) -> Database:
    """Open a temporary database for a file that cannot be opened. notice: tells the user."""
    return Database(new_in_memory(), IN_MEMORY, notices=(notice,))


def _check_kind(path: Path) -> None:
    """Raise StoreDamaged if a folder, pipe or device stands in place of the file."""
    for place in (path, *(path.with_name(path.name + side) for side in SIDE_FILES)):
        if place.exists() and not place.is_file():
            raise StoreDamaged("{path} is no file.", path=place)


def _open(path: Path, steps: Sequence[Migration]) -> Database:
    _make_folder(path)
    try:
        connection = _writer(path)
    except sqlite3.OperationalError as error:
        unlike = (*_BUSY, *_DAMAGE, sqlite3.SQLITE_ERROR)
        if primary_code(error) in unlike or not path.exists():
            raise
        return _open_to_read(path, steps, error)
    with closed_on_error(connection):
        return _bring_up_to_date(connection, path, steps)


def _make_folder(path: Path) -> None:
    folder = path.parent
    try:
        make_private_folder(folder)
    except OSError as error:
        raise StoreReadOnly(
            "The folder {folder} cannot be made ({strerror}): allow writing to {parent}, "
            "then start again.",
            folder=folder,
            strerror=error.strerror,
            parent=folder.parent,
        ) from error
    make_private_file(path)
    make_private(*folder.glob(f"{glob.escape(path.stem)}*"))


def _writer(path: Path) -> sqlite3.Connection:
    with _misshapen(path):
        connection = connect(path, "rwc")
    with closed_on_error(connection):
        _check_owner(connection, path)
        begin_to_write(connection)
    return connection


def _reader(path: Path) -> sqlite3.Connection:
    """Open for reading; without SQLite's side files if they are neither possible nor needed."""
    try:
        return _checked_reader(path, "ro")
    except sqlite3.OperationalError:
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size > 0:
            raise
        return _checked_reader(path, "immutable")


def _checked_reader(path: Path, access: Access) -> sqlite3.Connection:
    connection = connect(path, access)
    with closed_on_error(connection):
        begin_to_read(connection)
    return connection


def _bring_up_to_date(
    connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]
) -> Database:
    notices = list[str]()
    version = _check_owner(connection, path)
    if version > len(steps):
        connection.close()
        return Database(_reader(path), path, read_only=_newer_words(path))
    look_closer = _was_asked_to_look_closer(path)
    tables = _names(connection).intersection(TABLES)
    _check_pages(connection, path, *(f"quick_check({table})" for table in tables))
    try:
        copy = migrate(connection, path, steps)
    except sqlite3.OperationalError as error:
        if not MADE_ALREADY.search(str(error)):
            raise
        raise StoreDamaged("{path} is damaged: {error}.", path=path, error=str(error)) from error
    _check_shape(connection, path)
    if look_closer or not indexes_open(connection):
        with _misshapen(path):
            make_indexes_again(connection)
        notices.append(
            Words("{path} was damaged in its search index, which has been made again.", path=path)
        )
    if look_closer:
        with transaction(connection):
            relink(connection)
        _check_pages(connection, path, "integrity_check(1)")
    if copy is not None:
        notices.append(
            Words("Your chats were updated for this version. A backup is at {copy}.", copy=copy)
        )
    return Database(connection, path, notices=tuple(notices))


def _names(connection: sqlite3.Connection) -> set[str]:
    """Return the names of tables and indexes; an older file lacks some of them."""
    return {row["name"] for row in connection.execute("SELECT name FROM sqlite_schema")}


def _was_asked_to_look_closer(path: Path) -> bool:
    try:
        look_closer_file(path).unlink()
    except OSError:
        return False
    return True


def _open_to_read(path: Path, steps: Sequence[Migration], why: sqlite3.Error) -> Database:
    """Open for reading after writing failed."""
    with path.open("rb") as file:
        if max(file.read(20)[18:]) > WAL_FORMAT:
            raise StoreDamaged("{path} is damaged: it is of no known format.", path=path)
    connection = _reader(path)
    with closed_on_error(connection):
        version = _check_owner(connection, path)
        if version < len(steps):
            raise StoreReadOnly(
                "{path} is of an older Headstart and must be brought up to date, but cannot be "
                "written to ({why}): allow writing to it and its folder, then start again.",
                path=path,
                why=str(why),
            )
    newer = version > len(steps)
    words = _newer_words(path) if newer else _unwritable_words(path, why)
    return Database(connection, path, read_only=words)


def _newer_words(path: Path) -> str:
    return Words(
        "{path} was written by a newer Headstart: your chats can be read here, but "
        "nothing is saved. Update Headstart to go on with them.",
        path=path,
    )


def _unwritable_words(path: Path, why: sqlite3.Error) -> str:
    return Words(
        "{path} cannot be written to ({why}): your chats can be read, but nothing is "
        "saved. Allow writing to it and its folder, make sure its disk has room, then "
        "start again.",
        path=path,
        why=str(why),
    )


def _check_owner(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version, 0 for a new file. Raises StoreForeign for one of another program,
    StoreDamaged where the header cannot be true.
    """
    with _misshapen(path):
        begin_to_read(connection)
        owner, version = (pragma(connection, name) for name in ("application_id", "user_version"))
        names = _names(connection)
    is_new = not names and (owner, version) == (0, 0)
    if owner != APPLICATION_ID and not is_new and not names >= OURS:
        raise StoreForeign(
            "{path} is a database of another program: move it elsewhere, then start again.",
            path=path,
        )
    if not is_new and (owner != APPLICATION_ID or not 0 < version < VERSIONS_TO_COME):
        raise StoreDamaged("{path} is damaged: it is of no version.", path=path)
    return version


def _check_pages(connection: sqlite3.Connection, path: Path, *checks: str) -> None:
    """Raise StoreDamaged, or sqlite3.DatabaseError, if one of SQLite's checks finds damage."""
    for check in checks:
        finding = connection.execute(f"PRAGMA {check}").fetchone()[0]
        if finding != "ok":
            raise StoreDamaged("{path} is damaged: {finding}.", path=path, finding=finding)


def _check_shape(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreDamaged if tables or triggers differ from those of the latest version."""
    with _misshapen(path):
        for table, columns in sound_columns().items():
            connection.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0")
            changes = ", ".join(f"{column} = {column}" for column in columns)
            connection.execute(f"EXPLAIN UPDATE {table} SET {changes}").fetchall()
            connection.execute(f"EXPLAIN DELETE FROM {table}").fetchall()
            connection.execute(f"EXPLAIN INSERT INTO {table} DEFAULT VALUES").fetchall()


@contextmanager
def _misshapen(path: Path) -> Iterator[None]:
    """Raise StoreDamaged where the file does not understand our SQL."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_ERROR:
            raise
        raise StoreDamaged("{path} is damaged: {error}.", path=path, error=str(error)) from error


def _replace(path: Path, steps: Sequence[Migration]) -> Database:
    """Move the damaged file aside and create a new one with the rows that can be read."""
    try:
        aside = set_aside(path, datetime.now())
    except OSError as error:
        raise StoreDamaged(
            "{path} is damaged and could not be moved aside ({strerror}): move it elsewhere "
            "yourself, then start again.",
            path=path,
            strerror=error.strerror,
        ) from error
    database = _open(path, steps)
    words = Words("{path} was damaged. It is kept as {aside}.", path=path, aside=aside)
    try:
        saved = salvage(aside, path)
        chats = Words("{n:,} chats", "1 chat", saved.chats)
        messages = Words("{n:,} messages", "1 message", saved.messages)
        more = Words(
            "What could be read of it is here: {chats} with {messages}.",
            chats=chats,
            messages=messages,
        )
        if saved.copied_at is not None:
            more = Words(
                "What could be read of it and of the copy of {day} is here: {chats} with "
                "{messages}.",
                day=f"{datetime.fromtimestamp(saved.copied_at):%Y-%m-%d}",
                chats=chats,
                messages=messages,
            )
    except sqlite3.Error as error:
        more = Words("What can be read of it could not be taken over ({error}).", error=str(error))
    database.notices = (*database.notices, join_words((words, more), " "))
    return database
