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
    """Full-text index of a column. watched: columns that it depends on. ready: condition for a row
    to be indexed.
    """

    table: str
    column: str
    watched: str
    ready: str
    options: str

    @property
    def name(self) -> str:
        return f"{self.column}_index"

    def make(self, connection: sqlite3.Connection) -> None:
        """Create the index with its triggers, and fill it; raises sqlite3.Error."""
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
        """Drop the index with its triggers; raises sqlite3.Error."""
        for change in ("added", "removed", "changed"):
            connection.execute(f"DROP TRIGGER {self.table}_{change}")
        connection.execute(f"DROP TABLE {self.name}")


def _indexes(options: str) -> tuple[_Index, _Index]:
    """Indexes of titles, and of the texts of complete messages."""
    ready = "{row}.state <> 'partial'"
    return (
        _Index("chat", "title", watched="title", ready="1", options=options),
        _Index("message", "text", watched="text, state", ready=ready, options=options),
    )


_OF_WORDS = _indexes("prefix='1 2', tokenize='unicode61 remove_diacritics 2'")
_OF_TRIGRAMS = _indexes("detail='none', tokenize='trigram'")


def indexes_open(connection: sqlite3.Connection) -> bool:
    """Whether the first pages of both indexes can be read; quick, and does not find all damage."""
    try:
        for index in _OF_TRIGRAMS:
            connection.execute(f"SELECT rowid FROM {index.name} ('aaa') LIMIT 1").fetchall()
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            raise
        return False
    return True


def make_indexes_again(connection: sqlite3.Connection) -> None:
    """Drop and rebuild both indexes; raises sqlite3.Error."""
    with transaction(connection):
        for index in _OF_TRIGRAMS:
            index.drop(connection)
            index.make(connection)


Migration = Callable[[sqlite3.Connection], None]
APPLICATION_ID = 0x48656164


def _chats_and_messages(connection: sqlite3.Connection) -> None:
    """Tables of chats and messages. Ids grow along every branch, so there are no loops."""
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
    """Add columns for an answer's thinking time and for the error that ended it."""
    connection.execute("ALTER TABLE message ADD COLUMN thinking_seconds REAL")
    connection.execute("ALTER TABLE message ADD COLUMN problem TEXT NOT NULL DEFAULT ''")


def _folders_and_edits(connection: sqlite3.Connection) -> None:
    """Table of folders, and a mark for answers that the user changed."""
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
    """Table of unsent texts: of a chat, of a new chat (both ids NULL), or of an edited message;
    attachments in a separate row.
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
    """Full-text indexes of titles and texts by prefixes of words."""
    for index in _OF_WORDS:
        index.make(connection)


def _parts_of_words(connection: sqlite3.Connection) -> None:
    """Full-text indexes by trigrams in place of those by prefixes."""
    for index in _OF_WORDS:
        index.drop(connection)
    for index in _OF_TRIGRAMS:
        index.make(connection)


def _tool_calls(connection: sqlite3.Connection) -> None:
    """Column for the tool calls of an answer, with their results."""
    connection.execute("ALTER TABLE message ADD COLUMN calls TEXT NOT NULL DEFAULT '[]'")


def _pictures(connection: sqlite3.Connection) -> None:
    """Table of pictures by digest, and a column for those of a message. Those of an unsent text
    have a row of their own among the unsent texts (attached = 2).
    """
    for statement in (
        """CREATE TABLE picture (
            id INTEGER PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE,
            width INTEGER NOT NULL,
            height INTEGER NOT NULL,
            data BLOB NOT NULL
        )""",
        "ALTER TABLE message ADD COLUMN pictures TEXT NOT NULL DEFAULT '[]'",
        """CREATE INDEX message_with_pictures ON message (pictures, chat)
            WHERE pictures <> '[]'""",
    ):
        connection.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (
    _chats_and_messages,
    _beginnings_of_words,
    _how_answers_went,
    _folders_and_edits,
    _unsent_texts,
    _parts_of_words,
    _tool_calls,
    _pictures,
)


Columns = Mapping[str, tuple[type, ...]]
TABLES = ("folder", "chat", "message", "draft", "picture")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (int, float),
    "TEXT": (str,),
    "BLOB": (bytes,),
}


def new_in_memory() -> sqlite3.Connection:
    """Create a database of the latest version in memory."""
    connection = connect_memory()
    migrate(connection, IN_MEMORY, MIGRATIONS)
    return connection


@cache
def sound_columns() -> Mapping[str, Columns]:
    """Columns of each table of this version, with the types of a sound row."""
    with closing(new_in_memory()) as empty:
        return {table: _columns(empty, table) for table in TABLES}


def _columns(connection: sqlite3.Connection, table: str) -> Columns:
    return {
        name: _TYPES[kind] if must_be or is_key else (*_TYPES[kind], type(None))
        for _, name, kind, must_be, _, is_key in connection.execute(f"PRAGMA table_info({table})")
    }


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> Path | None:
    """Apply missing steps; return the path of the copy made before, None if none was needed.

    Raises sqlite3.Error; steps before the failed one stay applied.
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
    """Copy the whole file beside it; the copy gets its final name when it is complete."""
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
