"""What an answer has written comes onto the disk by itself, and what goes wrong there is told."""

import sqlite3
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from chat_stores import finish_answer, finished, talk, texts

from app.store import database
from app.store.open_database import open_in_memory
from app.store.session_store import SessionStore
from app.values.errors import StoreReadOnly


def answer(store: SessionStore, chat: int, text: str) -> None:
    question = store.messages.path(chat)[0].message
    begun = store.messages.begin_answer(chat, question.id, "Tiny")
    finish_answer(store.messages, begun, finished(text))


def test_nobody_waits_for_a_slow_disk(store, monkeypatch):
    chat, disk, connect, opened = talk(store, "hello"), Event(), sqlite3.connect, []

    def slow(*args: Any, **options: Any) -> sqlite3.Connection:
        assert disk.wait(60)
        opened.append(args)
        return connect(*args, **options)

    monkeypatch.setattr(database.sqlite3, "connect", slow)
    for text in ("one", "two", "three"):
        answer(store, chat, text)
    assert texts(store, chat) == ["hello", "three"] and not opened
    disk.set()
    store.close()
    assert len(opened) == 3, "each of them, before the file is closed"


def test_what_was_written_is_in_the_file_itself(store):
    chat, file = talk(store, "hello"), store.database.path
    text = "words that are on the disk"
    assert text.encode() not in file.read_bytes()
    answer(store, chat, text)
    saving = store.database._saving
    assert saving is not None
    saving.join()
    assert text.encode() in file.read_bytes()


def test_no_question_waits_for_the_disk_to_begin_a_log(store):
    chat = talk(store, "hello")
    log = store.database.path.with_name(store.database.path.name + "-wal")
    answer(store, chat, "one")
    assert store.database._saving is not None
    store.database._saving.join()
    beginning = log.read_bytes()[:32]
    question = store.messages.path(chat)[-1].message.id
    store.messages.add(chat, question, "user", "and now?")
    assert log.read_bytes()[:32] == beginning, "the header, which SQLite brings onto the disk"


@pytest.mark.parametrize("is_one_change", [True, False])
def test_who_writes_waits_for_a_disk_that_is_slower_than_sqlite_waits(
    store, monkeypatch, is_one_change
):
    """No other program holds the file, and nothing is lost."""
    chat, begun, disk = talk(store, "hello"), Event(), Event()

    def slow(connection: sqlite3.Connection) -> None:
        with database.transaction(connection):
            begun.set()
            assert disk.wait(60)

    store.database._connection.execute("PRAGMA busy_timeout = 1")
    monkeypatch.setattr(database, "write_something", slow)
    answer(store, chat, "one")
    assert begun.wait(60)
    Timer(0.1, disk.set).start()
    if is_one_change:
        store.chats.rename(chat, "another title")
        assert store.chats.get(chat).title == "another title"
    else:
        question = store.messages.path(chat)[-1].message.id
        store.messages.add(chat, question, "user", "and now?")
        assert texts(store, chat)[-1] == "and now?"


def test_a_file_that_is_gone_is_told_at_the_next_answer(store):
    chat, file = talk(store, "hello"), store.database.path
    file.rename(file.with_name("elsewhere.db"))
    answer(store, chat, "one")
    assert store.database._saving is not None
    store.database._saving.join()
    with pytest.raises(StoreReadOnly, match=r"chats\.db cannot be opened"):
        answer(store, chat, "two")
    assert texts(store, chat) == ["hello", "two"]
    assert not file.exists(), "and no empty one takes its place"


def test_a_database_in_memory_has_no_disk():
    kept = open_in_memory("gone with it")
    kept.checkpoint()
    assert kept._saving is None
    kept.close()
    assert not Path(":memory:").exists()


def test_another_program_that_held_the_file_meanwhile_is_no_trouble_of_the_next_answer(store):
    """What was committed is safe, and comes onto the disk with the next."""
    chat = talk(store, "hello")
    other = sqlite3.connect(store.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.database.checkpoint()
    assert store.database._saving is not None
    store.database._saving.join()
    other.close()
    answer(store, chat, "one")
    assert texts(store, chat)[-1] == "one"
