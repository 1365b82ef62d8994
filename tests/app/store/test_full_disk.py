"""A full disk costs what did not fit, is said, and nothing else."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from chat_stores import finished, talk, texts

from app.store.answer_saver import AnswerSaver
from app.store.connection import connect, pragma
from app.store.session_store import SessionStore, open_store
from app.store.transfer import export_chat
from app.values.chat_settings import ChatSettings
from app.values.errors import BadChatFile, StoreError, StoreFull


def fill(store: SessionStore) -> None:
    """No page more for this connection."""
    pages = store.database.rows("PRAGMA page_count")[0][0]
    store.database.rows(f"PRAGMA max_page_count = {pages}")


def make_room(store: SessionStore) -> None:
    store.database.rows("PRAGMA max_page_count = 1000000")


def test_what_does_not_fit_changes_nothing(store: SessionStore) -> None:
    chat = talk(store, "hello", "world")
    before = store.chats.listed()
    fill(store)
    long = "no room for this " * 3000
    for write in (
        lambda: talk(store, long),
        lambda: store.messages.edit(store.messages.path(chat)[0].message.id, long),
        lambda: store.chats.set_settings(chat, ChatSettings(system=long)),
    ):
        with pytest.raises(StoreFull, match="free some space"):
            write()
    assert texts(store, chat) == ["hello", "world"]
    assert [one for one in store.chats.listed() if one.title] == list(before)
    make_room(store)
    talk(store, long)
    assert store.database.rows("PRAGMA integrity_check")[0][0] == "ok"


def test_an_answer_goes_on_and_is_saved_when_there_is_room(store: SessionStore) -> None:
    chat = talk(store, "hello")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    now = 0.0
    saver = AnswerSaver(store.messages, answer, every_s=1.0, clock=lambda: now)
    now = 1.0
    saver.show("a few words")
    fill(store)
    text = "a few words" + " and many more" * 2000
    now = 2.0
    with pytest.raises(StoreFull):
        saver.show(text)
    saver.tick()
    assert store.messages.get(answer).text == "a few words"
    make_room(store)
    now = 3.0
    saver.tick()
    assert store.messages.get(answer).text == text
    store.messages.finish_answer(answer, finished(text))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB, where the tests may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and only outside of most containers")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path, tmp_path: Path) -> None:
    path = small_disk / "chats.db"
    store = open_store(path)
    chat = talk(store, "hello", "world")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    (small_disk / "filler").write_bytes(b"x" * 600_000)
    kept = ""
    with pytest.raises(StoreError, match=r"chats\.db .*(space|room)"):
        for size in range(1, 1000):
            text = "partial " * 500 * size
            store.messages.save_partial(answer, text)
            kept = text
    assert kept and store.messages.get(answer).text == kept
    with pytest.raises(BadChatFile, match="free space"):
        export_chat(store, chat, small_disk / "chat.json")
    assert not (small_disk / "chat.json.part").exists()
    store.close()
    again = open_store(path)
    assert again.messages.get(answer).text == kept
    assert texts(again, chat) == [kept]
    again.close()
    (small_disk / "filler").unlink()
    third = open_store(path)
    talk(third, "there is room again")
    assert third.messages.get(answer).interrupted
    third.close()
    with closing(connect(path, "ro")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert pragma(connection, "page_count") > 1
