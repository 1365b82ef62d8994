"""A file in any state opens, or says what is wrong with it and what to do."""

import os
import random
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from chat_stores import python, talk, texts, without_rights

from app.store.salvage import copy_daily, copy_file
from app.store.schema import MIGRATIONS
from app.store.session_store import SessionStore, open_passing_store, open_some_store, open_store
from app.values.attached_text import SaidWith
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar
from app.values.errors import StoreBusy, StoreError, StoreForeign, StoreReadOnly, StoreTooNew


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Of a closed file of 40 chats, 6 messages each."""
    path = tmp_path_factory.mktemp("store") / "chats.db"
    store = open_store(path)
    with store.database.transaction():
        for number in range(40):
            chat = store.chats.create(ChatSettings(), f"chat {number}")
            parent = None
            for turn in range(6):
                text = f"zebra {turn} " + "words of a message " * 30
                parent = store.messages._insert(chat, parent, "user", text, "", "done")
    store.close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, content):
    """A copy of that file."""
    path = tmp_path / "chats.db"
    path.write_bytes(content)
    return path


def damaged_copy(folder: Path) -> Path:
    (copy,) = (file for file in folder.glob("chats-damaged-*.db") if file.suffix == ".db")
    return copy


def check_replaced(path: Path, store: SessionStore) -> None:
    """The damaged file is kept and named, and the new one works."""
    (notice,) = (notice for notice in store.notices if "was damaged" in notice)
    assert str(path) in notice and str(damaged_copy(path.parent)) in notice
    chat = talk(store, "hello", "world")
    assert texts(store, chat) == ["hello", "world"]
    for summary in store.chats.listed():
        store.open_chat(summary.id)
    assert store.database.rows("PRAGMA foreign_key_check") == []
    store.close()
    again = open_store(path)
    assert again.notices == ()
    again.close()


def test_a_damaged_page_costs_only_what_was_in_it(path):
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        pages = [
            row[0]
            for row in connection.execute(
                "SELECT pageno FROM dbstat WHERE name = 'message' AND pagetype = 'leaf'"
            )
        ]
    start = (pages[len(pages) // 2] - 1) * 4096
    content[start : start + 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(content)
    store = open_store(path)
    kept = store.database.rows("SELECT count(*) AS n FROM message")[0]["n"]
    assert len(store.chats.listed()) == 40 and 220 <= kept < 240
    assert f"40 chats with {kept} messages" in store.notices[0]
    assert damaged_copy(path.parent).read_bytes() == content
    check_replaced(path, store)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:5000],
        lambda content: content[:100],
        lambda content: b"\0" * len(content),
        lambda content: b"hello, this is no database" * 100,
        lambda content: content[:16] + b"\xff" * 84 + content[100:],
        lambda content: b"SQLite format 4" + content[15:],
        lambda content: content[:47] + b"\x80" + content[48:],
    ],
    ids=["half", "two pages", "header", "zeros", "text", "odd header", "odd magic", "odd format"],
)
def test_damaged_files_are_kept_aside(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    check_replaced(path, open_store(path))


def test_a_daily_copy_gives_what_a_damaged_file_has_lost(path):
    store = open_store(path)
    copy_daily(path)
    copy = copy_file(path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    new = talk(store, "later", "than the copy")
    store.chats.rename(1, "another name")
    store.drafts.write_chat(2, SaidWith("unsent"), SaidWith(""))
    made = copy.stat().st_mtime_ns
    copy_daily(path)
    assert copy.stat().st_mtime_ns == made, "once a day"
    os.utime(copy, (made / 1e9 - 25 * 3600,) * 2)
    copy_daily(path)
    assert copy.stat().st_mtime_ns > made
    store.chats.rename(3, "named after the copy")
    store.close()
    whole = path.read_bytes()
    path.write_bytes(bytes(3 * 4096) + whole[3 * 4096 :])
    saved = open_store(path)
    assert (
        "and of the copy of 2" in saved.notices[0]
        and "41 chats with 242 messages" in (saved.notices[0])
    )
    assert saved.chats.get(1).title == "another name" and saved.chats.get(3).title == "chat 2"
    assert texts(saved, new) == ["later", "than the copy"] and len(texts(saved, 5)) == 6
    assert not saved.drafts.read().chats, "a text may have been sent since"
    saved.chats.delete_for_ever(1)
    assert not copy.exists(), "it would still have the chat"
    check_replaced(path, saved)


def test_what_a_damaged_file_still_gives_goes_before_its_copy(path):
    store = open_store(path)
    copy_daily(path)
    store.chats.rename(1, "newer")
    store.close()
    path.write_bytes(path.read_bytes()[:-4096])
    saved = open_store(path)
    assert saved.chats.get(1).title == "newer" and len(saved.chats.listed()) == 40
    assert saved.database.rows("SELECT count(*) AS n FROM message")[0]["n"] == 240
    saved.close()


def test_no_copy_is_made_of_no_chats_nor_where_it_cannot_be(path, tmp_path):
    empty = tmp_path / "empty" / "chats.db"
    open_store(empty).close()
    copy_daily(empty)
    assert not copy_file(empty).exists() and not list(empty.parent.glob("*.part"))
    copy_file(path).mkdir()
    copy_daily(path)
    assert not list(path.parent.glob("*.part"))
    path.write_bytes(path.read_bytes()[:9000])
    copy_file(path).rmdir()
    copy_daily(path)
    assert not copy_file(path).exists()


@pytest.mark.parametrize("end", [b"", b"odd end"])
def test_a_file_that_was_cut_off_gives_what_is_left(path, end):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + end)
    store = open_store(path)
    kept = store.database.rows("SELECT count(*) AS n FROM message")[0]["n"]
    assert 0 < len(store.chats.listed()) <= 40
    assert 55 <= kept < 240
    check_replaced(path, store)


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bytes_never_crash(path, seed):
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(30):
        content[chance.randrange(100, len(content))] ^= chance.randrange(1, 256)
    path.write_bytes(content)
    failures = 0
    for _ in range(8):
        try:
            use(path)
        except StoreError as error:
            assert str(path) in str(error)
            failures += 1
    assert failures <= 2
    use(path)


def use(path: Path) -> None:
    store = open_store(path)
    try:
        for summary in store.chats.listed():
            store.open_chat(summary.id)
        store.search.find("zebra")
        store.chats.delete_for_ever(store.chats.duplicate(talk(store, "hello", "world")))
    finally:
        store.close()


def test_a_newer_file_can_be_read(path):
    newer = (*MIGRATIONS, lambda connection: None)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {len(newer)}")
    before = path.read_bytes()
    store = open_store(path)
    assert store.read_only and "newer Headstart" in store.notices[0]
    assert len(store.chats.listed()) == 40 and store.search.find("zebra")
    assert len(texts(store, 1)) == 6
    for write in (
        lambda: store.chats.create(ChatSettings()),
        lambda: store.chats.delete(1),
        lambda: store.messages.add(1, None, "user", "x"),
        lambda: store.messages.save_partial(1, AnswerSoFar("x")),
    ):
        with pytest.raises(StoreReadOnly, match="Update Headstart"):
            write()
    store.close()
    assert path.read_bytes() == before


def test_a_newer_file_of_another_shape_says_so(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("ALTER TABLE chat RENAME COLUMN title TO name")
    store = open_store(path)
    with pytest.raises(StoreTooNew, match="Update Headstart"):
        store.chats.listed()
    store.close()


LEAVE = """
import os, sys
from pathlib import Path
from app.store.session_store import open_store
store = open_store(Path(sys.argv[1]))
store.chats.rename(1, "last")
os._exit(9)
"""


@pytest.mark.parametrize("left_open", [False, True])
def test_a_folder_that_cannot_be_written_to(path, left_open):
    if left_open:
        with python(LEAVE, str(path)) as child:
            assert child.wait() == 9
    with without_rights(path.parent):
        store = open_store(path)
        assert store.read_only and "Allow writing" in store.notices[0]
        assert len(store.chats.listed()) == 40
        assert store.chats.get(1).title == ("last" if left_open else "chat 0")
        with pytest.raises(StoreReadOnly, match="Allow writing"):
            store.chats.rename(1, "x")
        store.close()
    writable = open_store(path)
    writable.chats.rename(1, "x")
    writable.close()


def test_a_new_file_in_a_folder_that_cannot_be_written_to(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    with without_rights(folder):
        for path in (folder / "chats.db", folder / "deeper" / "chats.db"):
            with pytest.raises(StoreReadOnly, match=r"start again|room"):
                open_store(path)


def test_a_store_for_this_run_only():
    store = open_passing_store("Chats are not saved.")
    assert store.notices == ("Chats are not saved.",) and not store.read_only
    assert texts(store, talk(store, "a", "b")) == ["a", "b"]
    assert store.search.find("b")
    store.close()


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreForeign, match="another program"):
        open_store(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
if sys.argv[2] == "EXCLUSIVE":
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN " + sys.argv[2])
connection.execute("UPDATE chat SET pinned = 1")
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(path: Path, how: str) -> Iterator[None]:
    """Longer than anyone here waits for it."""
    with python(HOLD, str(path), how) as child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        yield


@pytest.fixture
def little_patience(monkeypatch):
    monkeypatch.setattr("app.store.database.BUSY_TIMEOUT_MS", 20)


@pytest.mark.usefixtures("little_patience")
def test_a_file_held_by_another_process(path):
    store = open_store(path)
    with held(path, "IMMEDIATE"):
        assert store.chats.get(1).title == "chat 0"
        with pytest.raises(StoreBusy, match="another program"):
            store.chats.rename(1, "ours")
        with pytest.raises(StoreBusy):
            store.messages.add(1, None, "user", "x")
        with pytest.raises(StoreBusy, match=r"chats\.db"):
            open_store(path)
    store.chats.rename(1, "ours")
    assert store.chats.get(1).title == "ours"
    store.close()


@pytest.mark.usefixtures("little_patience")
def test_a_file_kept_by_another_process_alone(path):
    with held(path, "EXCLUSIVE"), pytest.raises(StoreBusy):
        open_store(path)
    open_store(path).close()


def test_two_windows_on_one_file(path):
    first, second = open_store(path), open_store(path)
    chat = talk(first, "from the first")
    assert texts(second, chat) == ["from the first"]
    second.messages.add(chat, first.messages.path(chat)[-1].message.id, "user", "second")
    assert texts(first, chat) == ["from the first", "second"]
    first.close()
    second.close()


@pytest.mark.parametrize(
    "header",
    [
        {60: b"\0\0\0\0"},
        {60: b"\0\0\0\1"},
        {60: b"\0\0\0\2"},
        {60: b"\0\0\0\4"},
        {60: b"\x80\0\0\4"},
        {60: b"\0\1\0\4"},
        {68: bytes(4)},
        {60: bytes(12)},
    ],
    ids=[
        "version 0",
        "version 1",
        "version 2",
        "version 4",
        "negative version",
        "version 65540",
        "no owner",
        "neither",
    ],
)
def test_a_version_or_owner_that_the_tables_deny_costs_nothing(path, header):
    content = bytearray(path.read_bytes())
    for place, value in header.items():
        content[place : place + len(value)] = value
    path.write_bytes(content)
    store = open_some_store(path)
    assert len(store.chats.listed()) == 40
    assert store.database.rows("SELECT count(*) AS n FROM message")[0]["n"] == 240
    check_replaced(path, store)


@pytest.mark.parametrize(
    ("place", "value"),
    [(18, 128), (36, 128), (59, 4)],
    ids=["write", "free", "encoding"],
)
def test_a_byte_of_the_header_that_keeps_from_writing_is_damage(path, place, value):
    content = bytearray(path.read_bytes())
    content[place] = value
    path.write_bytes(content)
    store = open_some_store(path)
    assert len(store.chats.listed()) == 40
    check_replaced(path, store)


def test_tables_of_no_version_are_saved_whatever_version_is_claimed(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("DROP TRIGGER chat_added")
    store = open_some_store(path)
    assert len(store.chats.listed()) == 40
    check_replaced(path, store)


@pytest.mark.parametrize("side", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_no_file_in_the_place_of_a_file(path, make, side):
    place = path.with_name(path.name + side)
    place.unlink(missing_ok=True)
    make(place)
    store = open_some_store(path)
    assert len(store.chats.listed()) == (40 if side else 0)
    check_replaced(path, store)


@pytest.mark.usefixtures("little_patience")
def test_a_file_that_is_held_at_the_start_can_be_read_and_is_written_later(path):
    with held(path, "IMMEDIATE"):
        store = open_some_store(path)
        assert len(store.chats.listed()) == 40 and "nothing can be saved" in store.notices[0]
        with pytest.raises(StoreBusy):
            store.chats.rename(1, "ours")
    store.chats.rename(1, "ours")
    store.close()


def test_other_users_can_read_nothing(path):
    (path.parent / "chats-before-update-1.db").touch()
    for file in path.parent.iterdir():
        file.chmod(0o644)
    path.parent.chmod(0o755)
    store = open_store(path)
    talk(store, "hello")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600} and {"chats.db-wal", "chats.db-shm"} <= set(modes)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()
    path.write_bytes(b"no database" * 1000)
    open_store(path).close()
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
