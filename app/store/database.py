"""One SQLite database: how it is opened, read and written; its errors come out as ours.

Texts may be any str: what SQLite cannot keep is replaced (app.store.words.storable).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from app.store.words import index_column, storable
from app.values.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from mlx_engine.values.words import Words

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


@contextmanager
def known_errors(path: Path) -> Iterator[None]:
    """What SQLite reports about `path`, as errors of ours; a mistake in our SQL stays as it is."""
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
    """SQLite's own code without the details, such as SQLITE_BUSY; 0 if Python made the error."""
    try:
        return error.sqlite_errorcode & 0xFF
    except AttributeError:
        return 0


def connect(path: Path, access: Access) -> sqlite3.Connection:
    """A connection in autocommit mode; raises sqlite3.Error.

    NORMAL does not wait for the disk at a commit: a killed process loses nothing, a power cut at
    most what came after the last checkpoint. Checkpoints do wait, and one follows every answer.
    "immutable" is for a file that cannot change under us, which spares SQLite its side files;
    "damaged" reads one that is shorter than it says.
    """
    modes = {"immutable": "immutable=1", "damaged": "mode=ro"}
    uri = f"{path.absolute().as_uri()}?{modes.get(access, f'mode={access}')}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    if access == "damaged":
        connection.execute("PRAGMA writable_schema = ON")
    return _prepared(connection)


def connect_memory() -> sqlite3.Connection:
    """A connection to a new database that is gone with it."""
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
    """A connection that the block cannot use is not left open."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


_text = methodcaller("decode", "utf-8", "replace")
"""Flipped bytes of a damaged file must not be more than wrong letters."""


def begin_to_write(connection: sqlite3.Connection) -> None:
    """Turn on WAL and make sure of the right to write; raises sqlite3.Error.

    Only a change shows it: SQLite begins any transaction on a file it may not write.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        write_something(connection)
        connection.execute("CREATE TABLE room (id)")  # shows a damaged list of free pages
    finally:
        connection.execute("ROLLBACK")


def write_something(connection: sqlite3.Connection) -> None:
    """What is there already; raises sqlite3.Error."""
    connection.execute(f"PRAGMA user_version = {pragma(connection, 'user_version')}")


def begin_to_read(connection: sqlite3.Connection) -> None:
    """Make sure that it can be read; raises sqlite3.Error."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block or nothing; raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    with committed(connection):
        yield


@contextmanager
def committed(connection: sqlite3.Connection) -> Iterator[None]:
    """The same of one that was begun."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The number a pragma answers with."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def look_closer_file(path: Path) -> Path:
    """Its being there asks the next start to look through the whole file, which takes long."""
    return path.with_name(path.name + "-check")


class Database:
    """An open file, for the thread that opened it. read_only: why nothing can be written, or ""."""

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

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a question; raises StoreError."""
        with self._errors():
            return self._run(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Its rows as they are found, for a question that may be left early."""
        with self._errors():
            yield from self._run(sql, values)

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Its first row; raises StoreError."""
        rows = self.rows(sql, *values)
        return rows[0] if rows else None

    def write(self, sql: str, *values: Any) -> int:
        """Run one change, a transaction of its own outside of `transaction`; rows it changed."""
        self._must_write()
        with self._errors():
            return self._run(sql, values).rowcount

    def insert(self, sql: str, *values: Any) -> int:
        """Run one INSERT of a row; its id."""
        self._must_write()
        with self._errors():
            row_id = self._run(sql, values).lastrowid
        assert row_id is not None
        return row_id

    def _run(self, sql: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Where our own thread holds the file for longer than SQLite waits, behind that."""
        stored = tuple(map(storable, values))
        try:
            return self._connection.execute(sql, stored)
        except sqlite3.OperationalError as error:
            if self._saving is None or primary_code(error) != sqlite3.SQLITE_BUSY:
                raise
            self._saving.join()
        return self._connection.execute(sql, stored)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written in the block, or nothing; raises StoreError. One inside of another is
        part of it.
        """
        self._must_write()
        if self._connection.in_transaction:
            yield
            return
        with self._errors():
            self._run("BEGIN IMMEDIATE")
            with committed(self._connection):
                yield

    def checkpoint(self) -> None:
        """Have what was committed brought safely onto the disk, as far as no reader is in the way.

        A disk may take a quarter of a second, for which a thread waits, also at the beginning of
        the next log: SQLite has whoever writes first wait for that. What the thread has met is
        raised the next time; what was committed stays in the log beside the file.
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
        """On a thread of its own, after the one before. Where another program holds the file, the
        next one brings onto the disk what this one could not.
        """
        if before is not None:
            before.join()
        try:
            with closing(connect(self.path, "rw")) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                write_something(connection)
        except sqlite3.Error as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY:
                self._not_saved = error

    def close(self) -> None:
        """No use after this."""
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
