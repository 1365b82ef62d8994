"""Pictures of messages are stored once, go with the last that names them, and survive a kill."""

import io
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_stores import python
from PIL import Image

from app.store.salvage import salvage
from app.store.session_store import open_passing_store, open_store
from app.store.transfer import export_chat, insert_chat, read_chat
from app.values.attached_text import SaidWith
from app.values.chat_settings import ChatSettings
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture, read_picture


def picture(shade: int, side: int = 4) -> Picture:
    file = io.BytesIO()
    Image.new("RGB", (side, side + 1), (shade, 0, 0)).save(file, "PNG")
    return read_picture(file.getvalue())


RED, DARK, BLACK = picture(255), picture(99), picture(0)


def stored(store) -> set[str]:
    return {row[0] for row in store.database.rows("SELECT digest FROM picture")}


def digests(*pictures: Picture) -> set[str]:
    return {one.digest.hex() for one in pictures}


def test_pictures_follow_their_messages(tmp_path):
    path = tmp_path / "chats.db"
    store = open_store(path)
    chat = store.chats.create(ChatSettings())
    asked = store.messages.add(chat, None, "user", "Look", (RED, DARK))
    store.messages.add(chat, asked.id, "assistant", "Nice")
    edited = store.messages.edit(asked.id, "Look again")
    assert tuple(edited.pictures) == (RED, DARK)
    assert tuple(store.messages.edit(asked.id, "Less", (DARK,)).pictures) == (DARK,)
    copy = store.chats.duplicate(chat)
    store.messages.add(copy, None, "user", "One more", (BLACK,))
    store.messages.add(copy, None, "user", "None")
    store.drafts.write_chat(copy, SaidWith("t", (), (BLACK, RED)), SaidWith(""))
    store.drafts.write_chat(0, SaidWith("", (), (DARK,)), SaidWith(""))
    assert stored(store) == digests(RED, DARK, BLACK)
    put_back = store.messages.remove(asked.id)
    store.messages.put_back(put_back)
    store.close()

    store = open_store(path)
    assert tuple(store.messages.get(asked.id).pictures) == (RED, DARK)
    (told,) = store.messages.conversation([asked.id])
    assert told.images == (RED, DARK) and told.images[0].digest == RED.digest
    (again,) = store.messages.conversation([edited.id])
    assert again.images[0] is told.images[0], "read once while it is held"
    unsent = store.drafts.read().chats
    assert unsent == {copy: SaidWith("t", (), (BLACK, RED)), 0: SaidWith("", (), (DARK,))}
    store.chats.delete_for_ever(copy)
    assert stored(store) == digests(RED, DARK), "the copy alone had the black one"
    store.chats.delete_for_ever(chat)
    assert stored(store) == digests(DARK), "which is not sent yet"
    store.drafts.write_chat(0, SaidWith(""), SaidWith("", (), (DARK,)))
    store.close()
    store = open_store(path)
    assert stored(store) == set()
    store.close()


def test_bytes_of_pictures_are_written_and_read_in_other_threads(tmp_path):
    """The thread of the window, which opened the file, asks for names and sizes alone."""
    store = open_store(tmp_path / "chats.db")
    chat, asked = store.chats.create(ChatSettings()), []
    with ThreadPoolExecutor() as others:
        list(others.map(store.pictures.write_ahead, (RED, DARK)))
        assert stored(store) == digests(RED, DARK)
        store.database._connection.set_trace_callback(asked.append)
        store.drafts.write_chat(chat, SaidWith("", (), (DARK, BLACK)), SaidWith(""))
        message = store.messages.add(chat, None, "user", "Look", (RED, DARK))
        store.database._connection.set_trace_callback(None)
        written = [sql for sql in asked if "INTO picture" in sql]
        assert len(written) == 1, "the black one was not there yet"
        store.close()
        store = open_store(tmp_path / "chats.db")
        store.database._connection.set_trace_callback(asked.append)
        del asked[:]
        (told,) = store.messages.conversation([message.id])
        assert told.images == (RED, DARK)
        assert store.drafts.read().chats[chat].pictures == (DARK, BLACK)
        assert not [sql for sql in asked if "SELECT data" in sql]
        assert list(others.map(lambda one: one.data, told.images)) == [RED.data, DARK.data]
        store.database.write("DELETE FROM picture")
        with pytest.raises(BadPicture, match="not there any more"):
            told.images[0].decode()
    store.close()
    passing = open_passing_store("")
    passing.pictures.write_ahead(RED)
    chat = passing.chats.create(ChatSettings())
    kept = passing.messages.add(chat, None, "user", "", (RED,)).pictures
    assert [one.data for one in kept] == [RED.data]
    passing.close()


def test_pictures_go_with_a_file_and_are_salvaged(tmp_path):
    store = open_store(tmp_path / "chats.db")
    chat = store.chats.create(ChatSettings())
    asked = store.messages.add(chat, None, "user", "Look", (RED, DARK))
    store.messages.edit(asked.id, "Or here")
    file = tmp_path / "chat.json"
    export_chat(store, chat, file)
    export_chat(store, chat, tmp_path / "chat.md")
    assert "(4 x 5 picture)" in (tmp_path / "chat.md").read_text()
    store.database.write("UPDATE message SET pictures = ? WHERE id = ?", '["gone", 3]', asked.id)
    assert tuple(store.messages.get(asked.id).pictures) == ()
    store.database.checkpoint()
    other = open_store(tmp_path / "other.db")
    brought = other.messages.all_of(insert_chat(other, read_chat(file, ChatSettings())))
    assert [tuple(one.pictures) for one in brought] == [(RED, DARK)] * 2
    other.close()
    open_store(tmp_path / "new.db").close()
    salvage(tmp_path / "chats.db", tmp_path / "new.db")
    new = open_store(tmp_path / "new.db")
    assert [tuple(one.pictures) for one in new.messages.all_of(chat)] == [(), (RED, DARK)]
    new.close()
    store.close()


WRITER = """
import sys
from pathlib import Path
from app.store.session_store import open_store
from app.values.chat_settings import ChatSettings
from mlx_engine.values.picture import Picture

store = open_store(Path(sys.argv[1]))
chat, number = store.chats.create(ChatSettings()), 0
while True:
    number += 1
    picture = Picture.from_bytes(b"%d " % number * 200_000, 1, 2)
    if number % 2:
        store.pictures.write_ahead(picture)
    store.messages.add(chat, None, "user", f"{number}", [picture])
    print(number, flush=True)
"""


def test_a_kill_while_a_picture_is_stored_breaks_nothing(tmp_path, kills=3):
    path, chance = tmp_path / "chats.db", random.Random(1)
    for _ in range(kills):
        with python(WRITER, str(path)) as child:
            said = child.stdout.readline()
            time.sleep(chance.uniform(0, 0.1))
            child.kill()
            said += child.stdout.read()
        store = open_store(path)
        assert store.notices == ()
        assert store.database.rows("PRAGMA integrity_check")[0][0] == "ok"
        messages = store.messages.all_of(max(chat.id for chat in store.chats.listed()))
        assert len(messages) >= int(said.split()[-1])
        for message in messages:
            (kept,) = message.pictures
            assert kept.data == message.text.encode() + b" " + kept.data[len(message.text) + 1 :]
            assert len(kept.data) == (len(message.text) + 1) * 200_000
        assert (
            len(stored(store))
            == store.database.rows("SELECT count(DISTINCT pictures) FROM message")[0][0]
        )
        store.close()
