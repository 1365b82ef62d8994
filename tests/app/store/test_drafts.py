"""Unsent texts are kept beside chats and messages, go with them, and are saved from damage."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from chat_stores import talk

from app.state.drafts import NEW, NOTHING, Drafts
from app.store.session_store import UnsentTexts, open_store
from app.values.attached_text import AttachedPdf, AttachedText, SaidWith
from mlx_engine.values.picture import Picture

SAID = SaidWith(
    "Look at this\n", (AttachedText("a.py", "x = 1\n``` y"), AttachedText("b", "y" * 300_000))
)
NEWEST = SaidWith("", (AttachedText("only.txt", "a file"),))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats.db"


def kept(path) -> UnsentTexts:
    store = open_store(path)
    texts = store.drafts.read()
    store.close()
    return texts


def fill(path) -> int:
    """The number of a chat with unsent texts, beside those of a new one."""
    store = open_store(path)
    chat = talk(store, "hello", "world")
    store.drafts.write_chat(chat, SAID, NOTHING)
    store.drafts.write_chat(NEW, NEWEST, NOTHING)
    store.drafts.write_message(1, "hello there")
    store.close()
    return chat


def test_texts_and_attachments_come_back(path):
    chat = fill(path)
    known = SaidWith(SAID.text, tuple(AttachedText(a.name, a.body) for a in SAID.attachments))
    assert kept(path) == UnsentTexts({NEW: NEWEST, chat: known}, {1: "hello there"})


def test_a_pdf_is_still_one_after_a_restart(path):
    """As its text, as its pages, and once more with another attachment before it."""
    store = open_store(path)
    pages = tuple(Picture.from_bytes(bytes([n]), 3, 4) for n in range(2))
    text = AttachedText("a.pdf", "words")
    plain = AttachedPdf(Path("/there/a.pdf"), text)
    drawn = replace(plain, pages=pages, page_count=7, as_pictures=True)
    said = SaidWith("Look", (AttachedText("b", "y"), text), (), (plain,))
    store.drafts.write_chat(NEW, said, NOTHING)
    seen = SaidWith("Look", (), pages, (drawn,))
    store.drafts.write_chat(talk(store, "hello", "world"), seen, NOTHING)
    store.close()
    texts = kept(path).chats
    assert texts == {NEW: said, 1: seen}
    assert texts[NEW].pdfs[0].text is texts[NEW].attachments[1]
    assert texts[1].pdfs[0].pages[1] is texts[1].pictures[1]
    store = open_store(path)
    store.drafts.write_chat(NEW, said._replace(attachments=(text,)), said)
    store.drafts.write_chat(1, NOTHING, seen)
    store.close()
    assert kept(path).chats == {NEW: said._replace(attachments=(text,))}
    store = open_store(path)
    store.database.write("DELETE FROM draft WHERE attached = 1")
    store.close()
    assert kept(path).chats == {NEW: SaidWith("Look")}, "what is damaged is left out"


def test_what_is_sent_or_given_up_is_gone(path):
    chat = fill(path)
    store = open_store(path)
    store.drafts.write_chat(chat, SAID._replace(text=" "), SAID)
    assert store.drafts.read().chats[chat].text == ""
    store.drafts.write_chat(chat, NOTHING, SAID)
    store.drafts.write_message(1, None)
    store.close()
    assert kept(path) == UnsentTexts({NEW: NEWEST}, {})


def test_they_go_with_their_chat(path):
    """And nothing is kept of a chat or a message that there is not."""
    chat = fill(path)
    store = open_store(path)
    store.chats.delete_for_ever(chat)
    store.drafts.write_chat(chat, SAID, NOTHING)
    store.drafts.write_message(99, "of no message")
    store.close()
    assert kept(path) == UnsentTexts({NEW: NEWEST}, {})


def test_they_are_saved_from_a_damaged_file(path):
    chat = fill(path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'message_of_chat'")
        place = root.fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(place - 1) * 4096 : place * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    texts = kept(path)
    assert list(path.parent.glob("chats-damaged-*"))
    assert (texts.chats[chat].text, texts.messages) == (SAID.text, {1: "hello there"})


def test_attachments_are_not_written_with_every_letter(qapp, path, monkeypatch):
    chat, store = fill(path), open_store(path)
    drafts, written = Drafts(store), list[int]()
    write = store.database.write
    monkeypatch.setattr(
        type(store.database),
        "write",
        lambda self, sql, *values: written.append(len(str(values))) or write(sql, *values),
    )
    long = SaidWith("a", (AttachedText("long.txt", "words " * 100_000),))
    drafts.keep(chat, long)
    assert drafts.save() and max(written) > 600_000
    written.clear()
    drafts.keep(chat, long._replace(text="a letter"))
    assert drafts.save() and 0 < max(written) < 1000
    drafts.close()
    store.close()


def test_what_cannot_be_stored_is_told_once_and_given_back(qapp, path):
    chat, store = fill(path), open_store(path)
    drafts, told = Drafts(store), list[str]()
    drafts.failed.connect(told.append)
    pages = store.database.rows("PRAGMA page_count")[0][0]
    store.database.rows(f"PRAGMA max_page_count = {pages}")
    for words in ("much " * 5000, "more " * 5000):
        drafts.keep(chat, SaidWith(words))
        assert not drafts.save()
    assert len(told) == 1
    lost = drafts.close()
    assert (lost.chats, lost.messages) == ({chat: ("more " * 5000).strip("\n")}, {})
    store.database.rows(f"PRAGMA max_page_count = {pages * 100}")
    assert drafts.close() == ({}, {})
    store.close()
    assert kept(path).chats[chat].text == "more " * 5000
