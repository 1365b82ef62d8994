"""A full disk costs what did not fit, is said, and nothing else."""

from pathlib import Path

import pytest
from chat_stores import finish_answer, finished, talk, texts
from small_disk import run_on_a_small_disk

from app.store.session_store import SessionStore, open_store
from app.store.transfer import export_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar
from app.values.errors import BadChatFile, StoreError, StoreFull


def fill(store: SessionStore) -> None:
    """No page more for this connection."""
    pages = store.database.rows("PRAGMA page_count")[0][0]
    store.database.rows(f"PRAGMA max_page_count = {pages}")


def make_room(store: SessionStore) -> None:
    store.database.rows("PRAGMA max_page_count = 1000000")


def test_what_does_not_fit_changes_nothing(store):
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


def test_an_answer_goes_on_and_is_saved_when_there_is_room(store):
    chat = talk(store, "hello")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    store.messages.save_partial(answer, AnswerSoFar("a few words"))
    fill(store)
    text = "a few words" + " and many more" * 2000
    with pytest.raises(StoreFull):
        store.messages.save_partial(answer, AnswerSoFar(text))
    assert store.messages.get(answer).text == "a few words"
    make_room(store)
    store.messages.save_partial(answer, AnswerSoFar(text))
    assert store.messages.get(answer).text == text
    finish_answer(store.messages, answer, finished(text))


def test_a_disk_that_is_really_full(tmp_path):
    run_on_a_small_disk(tmp_path, "1m", "fill_a_real_disk", __file__)


def fill_a_real_disk(disk: Path, given: str) -> None:
    del given
    path = disk / "chats.db"
    store = open_store(path)
    chat = talk(store, "hello", "world")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    (disk / "filler").write_bytes(b"x" * 500_000)
    kept = ""
    with pytest.raises(StoreError, match=r"chats\.db .*(space|room)"):
        for size in range(1, 1000):
            text = "partial " * 500 * size
            store.messages.save_partial(answer, AnswerSoFar(text))
            kept = text
    assert kept and store.messages.get(answer).text == kept
    with pytest.raises(BadChatFile, match="free space"):
        export_chat(store, chat, disk / "chat.json")
    assert not (disk / "chat.json.part").exists()
    store.close()
    again = open_store(path)
    assert again.messages.get(answer).text == kept
    assert texts(again, chat) == [kept]
    again.close()
    (disk / "filler").unlink()
    third = open_store(path)
    talk(third, "there is room again")
    assert third.messages.get(answer).interrupted
    assert third.database.rows("PRAGMA integrity_check")[0][0] == "ok"
    third.close()
