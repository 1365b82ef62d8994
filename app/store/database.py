"""Reading and writing one open database; what SQLite reports comes out as errors of ours.

Texts may be any str: what SQLite cannot keep is replaced (app.store.words.storable).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.store.connection import known_errors, transaction
from app.store.words import storable
from app.values.errors import StoreDamaged, StoreReadOnly, StoreTooNew


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

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a question; raises StoreError."""
        with self._errors():
            return self._connection.execute(sql, _storable(values)).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Its rows as they are found, for a question that may be left early."""
        with self._errors():
            yield from self._connection.execute(sql, _storable(values))

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Its first row; raises StoreError."""
        rows = self.rows(sql, *values)
        return rows[0] if rows else None

    def write(self, sql: str, *values: Any) -> int:
        """Run one change, a transaction of its own outside of `transaction`; rows it changed."""
        self._must_write()
        with self._errors():
            return self._connection.execute(sql, _storable(values)).rowcount

    def insert(self, sql: str, *values: Any) -> int:
        """Run one INSERT of a row; its id."""
        self._must_write()
        with self._errors():
            row_id = self._connection.execute(sql, _storable(values)).lastrowid
        assert row_id is not None
        return row_id

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written in the block, or nothing; raises StoreError."""
        self._must_write()
        with self._errors(), transaction(self._connection):
            yield

    def checkpoint(self) -> None:
        """Bring what was committed safely onto the disk, as far as no reader is in the way."""
        with self._errors():
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """No use after this."""
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
            with suppress(OSError):
                look_closer_file(self.path).touch()
            raise
        except sqlite3.OperationalError as error:
            if not self.read_only:
                raise
            raise StoreTooNew(f"{self.read_only} It could not be read ({error}).") from error


def _storable(values: tuple[Any, ...]) -> list[Any]:
    return [storable(value) if isinstance(value, str) else value for value in values]
