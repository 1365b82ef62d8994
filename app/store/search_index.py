"""The full-text indexes of titles and messages, kept in step by triggers, made again when damaged.

They hold no copy of the text (FTS5 "contentless" tables); an answer enters when it is complete.
"""

import sqlite3
from dataclasses import dataclass

from app.store.connection import primary_code, transaction


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A column, the columns its index depends on, and when a row belongs in it."""

    table: str
    column: str
    watched: str
    ready: str

    @property
    def index(self) -> str:
        return f"{self.column}_index"

    @property
    def triggers(self) -> tuple[str, str, str]:
        return f"{self.table}_added", f"{self.table}_removed", f"{self.table}_changed"


_INDEXES = (
    _Indexed("chat", "title", watched="title", ready="1"),
    _Indexed("message", "text", watched="text, state", ready="{row}.state <> 'partial'"),
)


def make_index(connection: sqlite3.Connection) -> None:
    """Make and fill both indexes; raises sqlite3.Error."""
    for part in _INDEXES:
        table, column, index = part.table, part.column, part.index
        added, removed, changed = part.triggers
        is_new, was_old = part.ready.format(row="new"), part.ready.format(row="old")
        add = f"""INSERT INTO {index} (rowid, {column})
            SELECT new.id, index_text(CAST(new.{column} AS BLOB)) WHERE {is_new};"""
        remove = f"""INSERT INTO {index} ({index}, rowid, {column})
            SELECT 'delete', old.id, index_text(CAST(old.{column} AS BLOB)) WHERE {was_old};"""
        for statement in (
            f"""CREATE VIRTUAL TABLE {index} USING fts5 (
                {column}, content='', prefix='1 2', tokenize='unicode61 remove_diacritics 2')""",
            f"CREATE TRIGGER {added} AFTER INSERT ON {table} BEGIN {add} END",
            f"CREATE TRIGGER {removed} AFTER DELETE ON {table} BEGIN {remove} END",
            f"""CREATE TRIGGER {changed} AFTER UPDATE OF {part.watched} ON {table}
                BEGIN {remove} {add} END""",
            f"""INSERT INTO {index} (rowid, {column})
                SELECT id, index_text(CAST({column} AS BLOB)) FROM {table}
                WHERE {part.ready.format(row=table)}""",
        ):
            connection.execute(statement)


def index_opens(connection: sqlite3.Connection) -> bool:
    """Look at the beginning of both: takes no time, and does not see all damage."""
    try:
        for part in _INDEXES:
            index = part.index
            connection.execute(
                f"SELECT rowid FROM {index} WHERE {index} MATCH 'a' LIMIT 1"
            ).fetchall()
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            raise
        return False
    return True


def make_index_again(connection: sqlite3.Connection) -> None:
    """Throw both away and fill new ones; raises sqlite3.Error."""
    with transaction(connection):
        for part in _INDEXES:
            for trigger in part.triggers:
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(f"DROP TABLE {part.index}")
        make_index(connection)
