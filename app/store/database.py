"""One SQLite database: open, read, write, and translate its errors to StoreErrors.

Texts may be any str: `storable` replaces what SQLite cannot keep.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, TypeVar

from app.store.words import index_column
from app.values.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from mlx_engine.values.words import Words

T = TypeVar("T")
Access = Literal["rwc", "rw", "ro", "immutable", "damaged"]
IN_MEMORY = Path(":memory:")
BUSY_TIMEOUT_MS = 100
PAGES_BEFORE_CHECKPOINT = 4000

_KNOWN: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (
        StoreBusy,
        Words("is held by another program: close other copies of Headstart and try again"),
    ),
    sqlite3.SQLITE_LOCKED: (StoreBusy, Words("is held by another program: try again")),
    sqlite3.SQLITE_FULL: (
        StoreFull,
        Words("cannot grow, its disk is full: free some space and try again"),
    ),
    sqlite3.SQLITE_READONLY: (
        StoreReadOnly,
        Words("cannot be written to: allow writing to it and its folder, then start again"),
    ),
    sqlite3.SQLITE_PERM: (StoreReadOnly, Words("may not be opened: allow access to it")),
    sqlite3.SQLITE_CANTOPEN: (
        StoreReadOnly,
        Words("cannot be opened: check that its folder exists, may be written to and has room"),
    ),
    sqlite3.SQLITE_CORRUPT: (
        StoreDamaged,
        Words("is damaged: start Headstart again, it keeps the file aside and saves what it can"),
    ),
    sqlite3.SQLITE_CONSTRAINT: (StoreDamaged, Words("contradicts itself: start Headstart again")),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, Words("is damaged: it is not a database")),
    sqlite3.SQLITE_IOERR: (
        StoreError,
        Words("could not be read or written: check that its disk is connected and has room"),
    ),
    sqlite3.SQLITE_TOOBIG: (StoreError, Words("cannot hold a text this long: make it shorter")),
}


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(value: T) -> T | str:
    """Replace the characters of a text that SQLite cannot keep: NUL and lone surrogates.

    One for one, by U+FFFD. Values of other types are returned unchanged.
    """
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return _UNSTORABLE.sub("\ufffd", value)


@contextmanager
def known_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors about `path` to StoreErrors; errors in our own SQL pass through."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        code = primary_code(error)
        if code in (0, sqlite3.SQLITE_ERROR):
            raise
        kind, words = _KNOWN.get(code, _KNOWN[sqlite3.SQLITE_IOERR])
        raise kind(
            Words("{path} {words} ({error}).", path=path, words=words, error=str(error))
        ) from error


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code, such as SQLITE_BUSY; 0 for an error made by Python."""
    try:
        return error.sqlite_errorcode & 0xFF
    except AttributeError:
        return 0


def connect(path: Path, access: Access) -> sqlite3.Connection:
    """Open a connection in autocommit mode; raises sqlite3.Error.

    synchronous=NORMAL: a commit does not wait for the disk. A killed process loses nothing, a power
    failure at most what came after the last checkpoint; a checkpoint follows every answer.
    "immutable" opens a file that cannot change without SQLite's side files; "damaged" reads a file
    that is shorter than its header says.
    """
    modes = {"immutable": "immutable=1", "damaged": "mode=ro"}
    uri = f"{path.absolute().as_uri()}?{modes.get(access, f'mode={access}')}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    if access == "damaged":
        connection.execute("PRAGMA writable_schema = ON")
    return _prepared(connection)


def connect_memory() -> sqlite3.Connection:
    """Open a new database in memory."""
    return _prepared(sqlite3.connect(IN_MEMORY, isolation_level=None))


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    connection.text_factory = _text
    connection.create_function("index_text", 1, index_column, deterministic=True)
    with closed_on_error(connection):
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            "foreign_keys = ON",
            "trusted_schema = ON",
            "temp_store = MEMORY",
            "synchronous = NORMAL",
            "checkpoint_fullfsync = ON",
            f"wal_autocheckpoint = {PAGES_BEFORE_CHECKPOINT}",
        ):
            connection.execute(f"PRAGMA {pragma}")
    return connection


@contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection when the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


_text = methodcaller("decode", "utf-8", "replace")
"""Decodes damaged text without raising."""


def begin_to_write(connection: sqlite3.Connection) -> None:
    """Turn on WAL and check that the file can be written; raises sqlite3.Error.

    SQLite begins a transaction on a read-only file too; only a change fails.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        write_something(connection)
        connection.execute("CREATE TABLE room (id)")  # shows a damaged list of free pages
    finally:
        connection.execute("ROLLBACK")


def write_something(connection: sqlite3.Connection) -> None:
    """Write the version that is already there; raises sqlite3.Error."""
    connection.execute(f"PRAGMA user_version = {pragma(connection, 'user_version')}")


def _flush(connection: sqlite3.Connection) -> None:
    """Flush the log to the disk, and begin the next one; raises sqlite3.Error."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    write_something(connection)


def begin_to_read(connection: sqlite3.Connection) -> None:
    """Check that the file can be read; raises sqlite3.Error."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a transaction, rolled back when it fails; raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    with committed(connection):
        yield


@contextmanager
def committed(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit a transaction that has begun, or roll it back when the block fails."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the number a pragma answers with."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def look_closer_file(path: Path) -> Path:
    """Path of a marker file; while it exists, the next start checks the whole database."""
    return path.with_name(path.name + "-check")


class Database:
    """An open database, used by the thread that opened it. read_only: why nothing can be written,
    or "".
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        read_only: str = "",
        notices: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.notices = (read_only,) if read_only else notices
        self._connection = connection
        self._saving: Thread | None = None
        self._not_saved: sqlite3.Error | None = None
        self._writing, self._has_written_elsewhere = Lock(), False

    @property
    def allows_threads(self) -> bool:
        """Return whether the database is a writable file, which more connections can open."""
        return self.path != IN_MEMORY and not self.read_only

    @property
    def is_written_elsewhere(self) -> bool:
        """Return whether another thread is writing to the database."""
        return self._writing.locked()

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query; raises StoreError."""
        with self._errors():
            return self._run(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query as they are found, so that the caller may stop early."""
        with self._errors():
            yield from self._run(sql, values)

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Return the first row of a query, None for none; raises StoreError."""
        rows = self.rows(sql, *values)
        return rows[0] if rows else None

    def write(self, sql: str, *values: Any) -> int:
        """Run one statement, in a transaction of its own outside `transaction`; return the changed
        rows.
        """
        self._must_write()
        with self._errors():
            return self._run(sql, values).rowcount

    def insert(self, sql: str, *values: Any) -> int:
        """Run one INSERT of a row and return its id."""
        self._must_write()
        with self._errors():
            row_id = self._run(sql, values).lastrowid
        assert row_id is not None
        return row_id

    def _run(self, sql: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement; if a thread of ours holds the file, wait for it and try again."""
        stored = tuple(map(storable, values))
        try:
            return self._connection.execute(sql, stored)
        except sqlite3.OperationalError as error:
            is_ours = self._saving is not None or self._has_written_elsewhere
            if not is_ours or primary_code(error) != sqlite3.SQLITE_BUSY:
                raise
        with self._writing:
            if self._saving is not None:
                self._saving.join()
            return self._connection.execute(sql, stored)

    def rows_in_any_thread(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query, read by a connection of its own. Raises StoreError."""
        with self._errors(), closing(connect(self.path, "ro")) as connection:
            return connection.execute(sql, values).fetchall()

    def write_in_any_thread(self, sql: str, *values: Any) -> None:
        """Run one statement in a transaction of its own, by a connection of its own, and flush it.

        Raises StoreError.
        """
        self._must_write()
        with self._writing, self._errors(), closing(connect(self.path, "rw")) as connection:
            self._has_written_elsewhere = True
            connection.execute(sql, values)
            _flush(connection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction, joining one that is open; raises StoreError."""
        self._must_write()
        if self._connection.in_transaction:
            yield
            return
        with self._errors():
            self._run("BEGIN IMMEDIATE")
            with committed(self._connection):
                yield

    def checkpoint(self) -> None:
        """Flush what was committed to the disk, in a background thread.

        A disk may take a quarter of a second for it. The thread also begins the next log, which
        otherwise blocks the next write. An error of the thread is raised by the next call;
        committed data stays in the log.
        """
        if self.path == IN_MEMORY:
            return
        failed, self._not_saved = self._not_saved, None
        self._saving = Thread(target=self._save, args=(self._saving,), name="checkpoint")
        self._saving.start()
        if failed is not None:
            with self._errors():
                raise failed

    def _save(self, before: Thread | None) -> None:
        """Run a checkpoint after the previous one. If another program holds the file, the next
        checkpoint does the work.
        """
        if before is not None:
            before.join()
        try:
            with closing(connect(self.path, "rw")) as connection:
                _flush(connection)
        except sqlite3.Error as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY:
                self._not_saved = error

    def close(self) -> None:
        """Wait for the checkpoint and close the connection."""
        if self._saving is not None:
            self._saving.join()
        with self._errors():
            self._connection.close()

    def _must_write(self) -> None:
        if self.read_only:
            raise StoreReadOnly(self.read_only)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with known_errors(self.path):
                yield
        except StoreDamaged:
            if self.path != IN_MEMORY:
                with suppress(OSError):
                    look_closer_file(self.path).touch()
            raise
        except sqlite3.OperationalError as error:
            if not self.read_only:
                raise
            raise StoreTooNew(
                "{read_only} It could not be read ({error}).",
                read_only=self.read_only,
                error=str(error),
            ) from error
