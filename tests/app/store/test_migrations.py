"""Older files are copied, then brought up to date; each step is applied once."""

import sqlite3
from contextlib import closing

import pytest
from chat_stores import file_of_version, talk, texts

from app.store.database import pragma
from app.store.open_database import open_database
from app.store.schema import APPLICATION_ID, MIGRATIONS, Migration
from app.store.session_store import open_store

LATEST = len(MIGRATIONS)


@pytest.mark.parametrize("version", range(1, LATEST + 1))
def test_every_version_opens(tmp_path, version):
    path = tmp_path / "chats.db"
    file_of_version(path, version)
    store = open_store(path)
    assert texts(store, 1) == ["hello lion", "world"]
    assert [hit.chat.id for hit in store.search.find("zeb")] == [1]
    assert store.search.find("lion")[0].message_id == 1
    talk(store, "new one")
    copies = list(tmp_path.glob("*-before-update-*"))
    assert len(copies) == (version < LATEST) == len(store.notices)
    store.close()
    for copy in copies:
        assert str(copy) in store.notices[0]
        with closing(sqlite3.connect(copy)) as old:
            assert pragma(old, "user_version") == version
            assert old.execute("SELECT count(*) FROM message").fetchone()[0] == 2
    again = open_store(path)
    assert again.notices == () and len(again.chats.listed()) == 2
    again.close()


@pytest.mark.parametrize("version", range(1, LATEST))
def test_what_a_damaged_older_file_still_gives_is_taken_over(tmp_path, version):
    path = tmp_path / "chats.db"
    file_of_version(path, version)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'message_of_chat'"
        ).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    store = open_store(path)
    assert "What could be read of it is here: 1 chat with 2 messages." in store.notices[0]
    assert texts(store, 1) == ["hello lion", "world"]
    assert store.messages.get(2).thinking_seconds is None
    store.close()


def test_a_new_file_needs_no_copy(tmp_path):
    database = open_database(tmp_path / "chats.db")
    assert database.notices == ()
    assert [row[0] for row in database.rows("PRAGMA user_version")] == [LATEST]
    assert [row[0] for row in database.rows("PRAGMA application_id")] == [APPLICATION_ID]
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["chats.db"]


def test_a_step_that_fails_changes_nothing(tmp_path):
    path = tmp_path / "chats.db"
    file_of_version(path, LATEST)

    def add_a_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE chat ADD COLUMN colour TEXT")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE message")
        connection.execute("SELECT nonsense")

    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        open_database(path, (*MIGRATIONS, add_a_column, fail))
    with closing(sqlite3.connect(path)) as connection:
        assert pragma(connection, "user_version") == LATEST + 1
        assert connection.execute("SELECT count(*) FROM message").fetchone()[0] == 2
    good: tuple[Migration, ...] = (*MIGRATIONS, add_a_column, lambda connection: None)
    database = open_database(path, good)
    assert len(database.rows("SELECT colour FROM chat")) == 1
    database.close()


def test_a_copy_that_was_cut_off_is_made_again(tmp_path):
    path = tmp_path / "chats.db"
    file_of_version(path, 1)
    (tmp_path / "chats-before-update-1.db.part").write_bytes(b"half")
    database = open_database(path)
    assert "chats-before-update-1.db" in database.notices[0]
    database.close()
    assert not (tmp_path / "chats-before-update-1.db.part").exists()
