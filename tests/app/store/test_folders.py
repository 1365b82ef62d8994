"""Folders hold chats and never take any with them; a branch is a chat of its own."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from chat_stores import talk, texts

from app.store.session_store import SessionStore, open_store
from app.values.chats import Folder
from app.values.errors import NoSuchChat


def inside(store: SessionStore, folder: int | None) -> list[int]:
    return sorted(chat.id for chat in store.chats.listed() if chat.folder == folder)


def test_chats_go_in_and_out(store):
    first, second, third = (talk(store, text) for text in ("one", "two", "three"))
    work = store.folders.create("Work", [first])
    assert work == Folder(work.id, "Work") and inside(store, work.id) == [first]
    store.folders.move([second, third], work.id)
    store.folders.move([second], work.id)
    assert inside(store, work.id) == [first, second, third]
    store.folders.move([first, third], None)
    assert inside(store, work.id) == [second] and inside(store, None) == [first, third]
    store.folders.open(work.id, False)
    assert store.folders.listed() == (Folder(work.id, "Work", is_open=False),)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("", "New folder"),
        (" \n\t ", "New folder"),
        ("work", "work 2"),
        ("a\nb", "a b"),
        ("\0../..", "\ufffd../.."),
        ("<b>研究</b> 🙂", "<b>研究</b> 🙂"),
        ("x" * 10_000, "x" * 200),
    ],
)
def test_any_name_becomes_one_of_its_own(store, typed, kept):
    store.folders.create("Work")
    made = store.folders.create(typed)
    assert [folder.name for folder in store.folders.listed() if folder.id == made.id] == [kept]


def test_renaming(store):
    work, play = store.folders.create("Work"), store.folders.create("Play")
    store.folders.rename(work.id, "  ")
    store.folders.rename(work.id, "WORK")
    store.folders.rename(play.id, "work")
    assert [folder.name for folder in store.folders.listed()] == ["WORK", "work 2"]


def test_a_folder_taken_away_leaves_its_chats_and_comes_back(store):
    first, second = talk(store, "one"), talk(store, "two")
    work = store.folders.create("Work", [first, second])
    removed = store.folders.remove(work.id)
    assert store.folders.listed() == () and inside(store, None) == [first, second]
    store.chats.delete_for_ever(second)
    store.folders.give_back(removed)
    (again,) = store.folders.listed()
    assert again.name == "Work" and inside(store, again.id) == [first]


def test_what_is_gone_is_said_and_nothing_else_moves(store):
    chat, work = talk(store, "one"), store.folders.create("Work")
    with pytest.raises(NoSuchChat, match="Chat 99"):
        store.folders.move([chat, 99], work.id)
    assert inside(store, work.id) == []
    for change in (
        lambda: store.folders.move([chat], 99),
        lambda: store.folders.rename(99, "x"),
        lambda: store.folders.open(99, True),
        lambda: store.folders.remove(99),
    ):
        with pytest.raises(NoSuchChat, match="Folder 99"):
            change()


def test_a_branch_ends_with_its_message_and_is_its_own(store):
    chat = talk(store, "one", "ONE", "two", "TWO", title="Numbers")
    work = store.folders.create("Work", [chat])
    second = store.messages.path(chat)[1].message
    other = store.messages.edit(second.parent or 0, "uno")
    store.messages.select(second.id)
    branch = store.chats.branch(chat, second.id)
    assert texts(store, branch) == ["one", "ONE"]
    assert store.chats.get(branch).title == "Numbers (branch)"
    assert store.chats.get(branch).folder == work.id
    assert len(store.messages.all_of(branch)) == 2, "other branches stay behind"
    assert store.messages.path(branch)[1].message.stats == second.stats
    store.messages.add(branch, store.messages.path(branch)[1].message.id, "user", "three")
    assert texts(store, chat) == ["one", "ONE", "two", "TWO"]
    assert store.messages.get(other.id).text == "uno"


def test_an_edited_answer_stands_beside_the_old_one_with_what_follows(store):
    chat = talk(store, "one", "ONE", "two", "TWO")
    old = store.messages.path(chat)[1].message
    new = store.messages.rewrite(old.id, "**eins** zebra")
    assert texts(store, chat) == ["one", "**eins** zebra", "two", "TWO"]
    assert new.edited and new.stats is None and new.spans == () and new.model == old.model
    assert store.messages.path(chat)[1].siblings == (old.id, new.id)
    assert store.search.find("zebra")[0].message_id == new.id
    store.messages.select(old.id)
    assert texts(store, chat) == ["one", "ONE", "two", "TWO"]
    assert not store.messages.get(old.id).edited


def test_a_damaged_file_gives_back_its_folders(tmp_path):
    path = tmp_path / "chats.db"
    store = open_store(path)
    kept, lost = (talk(store, text) for text in ("kept", "lost"))
    store.folders.create("Work", [kept])
    gone = store.folders.create("Play", [lost])
    store.database.write("PRAGMA foreign_keys = OFF")
    store.database.write("DELETE FROM folder WHERE id = ?", gone.id)
    unnamed = talk(store, "Why is\nthe sky blue?", title="Blue")
    store.database.write("DELETE FROM chat WHERE id = ?", unnamed)
    store.close()
    _spoil_index(path)
    again = open_store(path)
    assert "3 chats" in again.notices[0]
    assert again.chats.get(unnamed).title == "Why is the sky blue?", "in words of its user"
    names = {folder.id: folder.name for folder in again.folders.listed()}
    assert [names[again.chats.get(chat).folder or 0] for chat in (kept, lost)] == [
        "Work",
        "# 2",
    ]
    again.close()


def _spoil_index(path: Path) -> None:
    """So that the file counts as damaged, and all its rows can still be read."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'message_of_chat'"
        root = connection.execute(sql).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(content)
