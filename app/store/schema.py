"""The tables and their full-text indexes, brought up to date in numbered steps, each applied once.

The number of a step is its place in MIGRATIONS, kept in the file as user_version. A step that has
shipped is never changed; a new one is added below it. The indexes of titles and messages are kept
in step by triggers and made again when damaged. They hold no copy of the text (FTS5 "contentless"
tables); an answer enters when it is complete.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.store.database import IN_MEMORY, connect_memory, pragma, primary_code, transaction
from mlx_engine.values.private_files import make_private_file


@dataclass(frozen=True, slots=True)
class _Index:
    """A full-text index of a column. watched: columns it depends on. ready: when a row is in it."""

    table: str
    column: str
    watched: str
    ready: str
    options: str

    @property
    def name(self) -> str:
        return f"{self.column}_index"

    def make(self, connection: sqlite3.Connection) -> None:
        """Make it with its triggers, and fill it; raises sqlite3.Error."""
        table, column, index = self.table, self.column, self.name
        is_new, was_old = self.ready.format(row="new"), self.ready.format(row="old")
        add = f"""INSERT INTO {index} (rowid, {column})
            SELECT new.id, index_text(CAST(new.{column} AS BLOB)) WHERE {is_new};"""
        remove = f"""INSERT INTO {index} ({index}, rowid, {column})
            SELECT 'delete', old.id, index_text(CAST(old.{column} AS BLOB)) WHERE {was_old};"""
        for statement in (
            f"""CREATE VIRTUAL TABLE {index} USING fts5 (
                {column}, content='', {self.options})""",
            f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {add} END",
            f"CREATE TRIGGER {table}_removed AFTER DELETE ON {table} BEGIN {remove} END",
            f"""CREATE TRIGGER {table}_changed AFTER UPDATE OF {self.watched} ON {table}
                BEGIN {remove} {add} END""",
            f"""INSERT INTO {index} (rowid, {column})
                SELECT id, index_text(CAST({column} AS BLOB)) FROM {table}
                WHERE {self.ready.format(row=table)}""",
        ):
            connection.execute(statement)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Throw it away, with its triggers; raises sqlite3.Error."""
        for change in ("added", "removed", "changed"):
            connection.execute(f"DROP TRIGGER {self.table}_{change}")
        connection.execute(f"DROP TABLE {self.name}")


def _indexes(options: str) -> tuple[_Index, _Index]:
    """Of titles, and of texts that are complete."""
    ready = "{row}.state <> 'partial'"
    return (
        _Index("chat", "title", watched="title", ready="1", options=options),
        _Index("message", "text", watched="text, state", ready=ready, options=options),
    )


_OF_WORDS = _indexes("prefix='1 2', tokenize='unicode61 remove_diacritics 2'")
_OF_TRIGRAMS = _indexes("detail='none', tokenize='trigram'")


def indexes_open(connection: sqlite3.Connection) -> bool:
    """Look at the beginning of both: takes no time, and does not see all damage."""
    try:
        for index in _OF_TRIGRAMS:
            connection.execute(f"SELECT rowid FROM {index.name} ('aaa') LIMIT 1").fetchall()
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            raise
        return False
    return True


def make_indexes_again(connection: sqlite3.Connection) -> None:
    """Throw both away and fill new ones; raises sqlite3.Error."""
    with transaction(connection):
        for index in _OF_TRIGRAMS:
            index.drop(connection)
            index.make(connection)


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


def _folders_and_edits(connection: sqlite3.Connection) -> None:
    """Folders of chats, and answers their user has changed."""
    for statement in (
        """CREATE TABLE folder (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            created_at REAL NOT NULL,
            name TEXT NOT NULL,
            is_open INTEGER NOT NULL DEFAULT 1
        )""",
        "ALTER TABLE chat ADD COLUMN folder INTEGER REFERENCES folder ON DELETE SET NULL",
        "ALTER TABLE message ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",
        "DROP INDEX chat_list",
        """CREATE INDEX chat_list ON chat
            (deleted_at, pinned DESC, updated_at DESC, id DESC, title, created_at, folder)""",
    ):
        connection.execute(statement)


def _unsent_texts(connection: sqlite3.Connection) -> None:
    """What is typed and not sent in a chat, both columns NULL for one that is not stored yet, or as
    another wording of a message; attachments in a row of their own.
    """
    connection.execute(
        """CREATE TABLE draft (
            id INTEGER PRIMARY KEY,
            chat INTEGER REFERENCES chat ON DELETE CASCADE,
            message INTEGER REFERENCES message ON DELETE CASCADE,
            attached INTEGER NOT NULL,
            text TEXT NOT NULL
        )"""
    )


def _beginnings_of_words(connection: sqlite3.Connection) -> None:
    """Full-text indexes of titles and texts that find words by how they begin."""
    for index in _OF_WORDS:
        index.make(connection)


def _parts_of_words(connection: sqlite3.Connection) -> None:
    """Indexes in their place that find any three letters."""
    for index in _OF_WORDS:
        index.drop(connection)
    for index in _OF_TRIGRAMS:
        index.make(connection)


MIGRATIONS: tuple[Migration, ...] = (
    _chats_and_messages,
    _beginnings_of_words,
    _how_answers_went,
    _folders_and_edits,
    _unsent_texts,
    _parts_of_words,
)


Columns = Mapping[str, tuple[type, ...]]
TABLES = ("folder", "chat", "message", "draft")
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}


def new_in_memory() -> sqlite3.Connection:
    """A new database that is gone with its connection."""
    connection = connect_memory()
    migrate(connection, IN_MEMORY, MIGRATIONS)
    return connection


@cache
def sound_columns() -> Mapping[str, Columns]:
    """Of each of TABLES, the columns that this version reads and writes, and what a sound row has
    in them.
    """
    with closing(new_in_memory()) as empty:
        return {table: _columns(empty, table) for table in TABLES}


def _columns(connection: sqlite3.Connection, table: str) -> Columns:
    return {
        name: _TYPES[kind] if must_be or is_key else (*_TYPES[kind], type(None))
        for _, name, kind, must_be, _, is_key in connection.execute(f"PRAGMA table_info({table})")
    }


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
    make_private_file(unfinished)
    target = sqlite3.connect(unfinished)
    try:
        connection.backup(target)
    except sqlite3.Error:
        target.close()
        unfinished.unlink(missing_ok=True)
        raise
    target.close()
    return unfinished.replace(copy)
