"""A chat goes into a file and comes back with all it had; broken files are refused whole."""

import json
import os
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from chat_stores import (
    finish_answer,
    finished,
    import_chat,
    interrupt_answer,
    talk,
    texts,
    without_rights,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store.chats import AT_ONCE, result_of
from app.store.session_store import SessionStore, open_passing_store, open_store
from app.store.transfer import NewChat, export_chat, insert_chat, insert_in_steps
from app.store.transfer import read_chat as read_chat_file
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.chats import AnswerSoFar, DraftedSpan, StoredMessage
from app.values.errors import BadChatFile
from mlx_engine.command_line.conversation import read_chat, write_chat
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.saved_chat import SavedChat, chat_from_markdown

MINE = ChatSettings(
    model_path="/secret/place/model.gguf",
    system="Be brief.",
    draft=DraftOptions(depth=3),
    sampling=SamplingChoice(temperature=0.0),
)


@pytest.fixture
def chat(store):
    """Two answers to one question, the first selected and gone on from; spans and thinking."""
    chat = talk(store, "hello", "one", "and?", "more", title="On zebras")
    store.chats.set_settings(chat, replace(MINE, read_from=2))
    question, first = (turn.message.id for turn in store.messages.path(chat)[:2])
    second = store.messages.begin_answer(chat, question, "Other")
    finish_answer(
        store.messages,
        second,
        finished("two 🦓", "stopped", "hm\n\n> m"),
        [DraftedSpan(0, 3, 2)],
        2.5,
    )
    failed = store.messages.begin_answer(chat, question, "Other")
    interrupt_answer(
        store.messages, failed, AnswerSoFar("o"), "Out of memory: close other programs."
    )
    third = store.messages.begin_answer(chat, second, "Other")
    store.messages.save_partial(third, AnswerSoFar("half"))
    store.messages.edit(question, "hello again")
    store.messages.select(first)
    return chat


def shape(store: SessionStore, chat: int) -> dict[str, StoredMessage]:
    """Messages by text, without their ids; the parent as the place of its text."""
    messages = store.messages.all_of(chat)
    by_id = {message.id: message.text for message in messages}
    order = sorted(by_id.values())
    return {
        message.text: replace(
            message,
            id=0,
            chat_id=0,
            parent=None if message.parent is None else order.index(by_id[message.parent]),
        )
        for message in messages
    }


def test_markdown_names_the_model_of_each_answer_and_keeps_the_title(store, tmp_path):
    chat = store.chats.create(ChatSettings(), "Chat with grandma")
    parent = None
    for model in ("First", "Other", "First"):
        question = store.messages.add(chat, parent, "user", f"ask {model}").id
        parent = store.messages.begin_answer(chat, question, model)
        finish_answer(store.messages, parent, finished(f"says {model}"))
    path = tmp_path / "chat.md"
    export_chat(store, chat, path)
    lines = path.read_text().splitlines()
    assert lines[0] == "# Chat with grandma"
    assert "## First" in lines and "## Other (another model)" in lines
    imported = import_chat(store, path, ChatSettings())
    messages = store.messages.all_of(imported.chat_id)
    assert [m.model for m in messages if m.role == "assistant"] == ["First", "Other", "First"]
    assert store.chats.get(imported.chat_id).title == "Chat with grandma"


def test_json_brings_everything_back(store, chat, tmp_path):
    path = tmp_path / "chat.json"
    export_chat(store, chat, path)
    assert "secret" not in path.read_text()
    imported = import_chat(store, path, ChatSettings(model_path="/mine"))
    assert imported.notes == ()
    expected = shape(store, chat)
    expected["half"] = replace(expected["half"], state="stopped")
    assert shape(store, imported.chat_id) == expected
    assert texts(store, imported.chat_id) == texts(store, chat) == ["hello", "one", "and?", "more"]
    opened = store.open_chat(imported.chat_id)
    assert opened.summary.title == "On zebras"
    assert opened.settings == replace(MINE, model_path="/mine")
    assert store.search.find("two")[0].chat.id == imported.chat_id


def versions(store: SessionStore, chat: int) -> list[tuple[int, int]]:
    """Which version of how many is on show, of each message."""
    return [(turn.number, len(turn.siblings)) for turn in store.messages.path(chat)]


def test_json_keeps_the_order_of_versions(store, tmp_path):
    """The last, the middle or the first of three is on show before and after."""
    chat = talk(store, "hello", "one")
    question, first = (turn.message.id for turn in store.messages.path(chat))
    ids = [first]
    for text in ("two", "three"):
        ids.append(store.messages.begin_answer(chat, question, "Other"))
        finish_answer(store.messages, ids[-1], finished(text))
    path = tmp_path / "chat.json"
    for number, message_id in enumerate(ids, 1):
        store.messages.select(message_id)
        export_chat(store, chat, path)
        imported = import_chat(store, path, ChatSettings()).chat_id
        assert versions(store, imported) == versions(store, chat) == [(1, 1), (number, 3)]
        assert texts(store, imported) == texts(store, chat)
        told = [message.text for message in store.messages.all_of(imported)]
        assert told == ["hello", "one", "two", "three"]


@pytest.mark.parametrize("order", [None, 7, [0], [0, 0], [1, 0], [0, 2], [True, 0], [0, "1"]])
def test_an_odd_order_is_that_of_the_file(store, tmp_path, order):
    path = tmp_path / "chat.json"
    export_chat(store, talk(store, "hello", "one"), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"order": order}))
    assert texts(store, import_chat(store, path, ChatSettings()).chat_id) == ["hello", "one"]


def test_json_brings_the_folder_back(store, chat, tmp_path):
    """By its name: where there is none it is made, where there is one it is used."""
    work = store.folders.create("Work", [chat])
    path = tmp_path / "chat.json"
    export_chat(store, chat, path)
    here = import_chat(store, path, ChatSettings()).chat_id
    assert store.chats.get(here).folder == work.id
    elsewhere = open_passing_store("")
    there = import_chat(elsewhere, path, ChatSettings()).chat_id
    (made,) = elsewhere.folders.listed()
    assert (made.name, elsewhere.chats.get(there).folder) == ("Work", made.id)
    elsewhere.close()


@pytest.mark.parametrize("folder", [None, "", "  ", 7, ["Work"]])
def test_an_odd_folder_is_none(store, tmp_path, folder):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(GOOD | {"folder": folder}))
    assert store.chats.get(import_chat(store, path, ChatSettings()).chat_id).folder is None
    assert store.folders.listed() == ()


def test_markdown_brings_the_branch_back(store, chat, tmp_path):
    path = tmp_path / "chat.md"
    export_chat(store, chat, path)
    text = path.read_text()
    assert text.startswith(
        "# On zebras\n\nChat with Tiny\n\n## System\n\nBe brief.\n\n## You\n\nhello\n\n## Tiny"
    )
    imported = import_chat(store, path, ChatSettings(model_path="/mine"))
    assert texts(store, imported.chat_id) == ["hello", "one", "and?", "more"]
    opened = store.open_chat(imported.chat_id)
    assert opened.settings == ChatSettings(model_path="/mine", system="Be brief.")
    assert opened.turns[1].message.model == "Tiny" and opened.summary.title == "On zebras"


def test_an_empty_chat(store, tmp_path):
    chat = store.chats.create(ChatSettings())
    for name in ("a.json", "a.md"):
        export_chat(store, chat, tmp_path / name)
        imported = import_chat(store, tmp_path / name, ChatSettings())
        assert texts(store, imported.chat_id) == []


def test_the_command_line_reads_ours(store, chat, tmp_path):
    export_chat(store, chat, tmp_path / "chat.json")
    saved = read_chat(tmp_path / "chat.json")
    assert (saved.model, saved.system) == ("Tiny", "Be brief.")
    assert [message.text for message in saved.messages] == ["hello", "one", "and?", "more"]


@pytest.mark.parametrize("name", ["chat.json", "chat.md"])
def test_we_read_the_command_lines(store, tmp_path, name):
    messages = (Message("user", "Hi\n\nthere"), Message("assistant", "Ho", "hm\n\nhm"))
    write_chat(tmp_path / name, SavedChat("Tiny", "Be kind.", messages))
    imported = import_chat(store, tmp_path / name, ChatSettings())
    opened = store.open_chat(imported.chat_id)
    assert opened.settings.system == "Be kind."
    assert [(m.message.text, m.message.thinking) for m in opened.turns] == [
        ("Hi\n\nthere", ""),
        ("Ho", "hm\n\nhm"),
    ]


GOOD: dict[str, Any] = {
    "format": "headstart-chat-1",
    "model": "m",
    "system": None,
    "messages": [{"role": "user", "text": "hello"}],
}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[" * 100_000, "nested too deep|damaged"),
        (b"[]", "format"),
        (json.dumps(GOOD | {"others": 5}).encode(), "others"),
        (json.dumps(GOOD | {"others": ["x"]}).encode(), "message 2 has no role"),
        (
            json.dumps(GOOD | {"others": [GOOD["messages"][0] | {"parent": 1}]}).encode(),
            "follows 1",
        ),
        (json.dumps(GOOD | {"others": [GOOD["messages"][0] | {"parent": -1}]}).encode(), "follows"),
        (
            json.dumps(GOOD | {"others": [GOOD["messages"][0] | {"parent": True}]}).encode(),
            "follows",
        ),
        (b'{"format": "headstart-chat-1", "model": ' + b"9" * 5000 + b"}", "damaged"),
    ],
)
def test_broken_files_are_refused_whole(store, tmp_path, content, words):
    path = tmp_path / "chat.json"
    path.write_bytes(content)
    with pytest.raises(BadChatFile, match=words) as raised:
        import_chat(store, path, ChatSettings())
    assert str(path) in str(raised.value)
    assert store.chats.listed() == ()


def test_odd_extras_are_left_out(store, tmp_path):
    message = {
        "role": "assistant",
        "text": "hello\u0000 \ud800",
        "id": 1,
        "chat_id": 1,
        "parent": 77,
        "created_at": 10**400,
        "spans": [[0, 99, 1], [0, 2, 1], [0, "1", 1], [0, 2, 1, "me"], [0, 2, 1, []], 3],
        "stats": {"seed": "x", "passes": 3, "drafted_by_depth": [1, 2]},
        "state": "partial",
        "finish_reason": "bored",
        "model": ["m"],
    }
    settings = {"draft": {"depth": 77}, "model_path": "/evil"}
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(GOOD | {"messages": [message], "settings": settings, "title": 9}))
    imported = import_chat(store, path, ChatSettings())
    assert len(imported.notes) == 1 and "depth" in imported.notes[0]
    opened = store.open_chat(imported.chat_id)
    assert opened.settings == ChatSettings()
    found = opened.turns[0].message
    assert found.text == "hello\ufffd \ufffd" and found.spans == (DraftedSpan(0, 2, 1),)
    assert found.stats is not None and (found.stats.passes, found.stats.seed) == (3, 0)
    assert (
        found.interrupted and found.model == "m" and found.created_at == opened.summary.created_at
    )


def test_files_that_cannot_be_read_or_written(store, chat, tmp_path):
    with pytest.raises(BadChatFile, match=r"\.md, \.json or \.pdf"):
        export_chat(store, chat, tmp_path / "chat.txt")
    with pytest.raises(BadChatFile, match="could not be read"):
        import_chat(store, tmp_path / "none.json", ChatSettings())
    with pytest.raises(BadChatFile, match="could not be read"):
        import_chat(store, tmp_path, ChatSettings())
    locked = tmp_path / "locked"
    locked.mkdir()
    with without_rights(locked), pytest.raises(BadChatFile, match="choose another place"):
        export_chat(store, chat, locked / "chat.md")
    (tmp_path / "no folder").touch()  # nor can what is left over be removed, as on a locked disk
    with pytest.raises(BadChatFile, match="choose another place"):
        export_chat(store, chat, tmp_path / "no folder" / "chat.md")
    export_chat(store, chat, tmp_path / "chat.md")
    export_chat(store, chat, tmp_path / "chat.md")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "text": st.text(max_size=9)},
    optional=dict.fromkeys(
        ("parent", "spans", "stats", "state", "created_at", "finish_reason", "model"), JSON
    ),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.fixed_dictionaries(
        {"messages": st.lists(MESSAGE, max_size=3)},
        optional={"others": st.lists(MESSAGE, max_size=3), "settings": JSON, "title": JSON},
    )
)
def test_any_extras(tmp_path, content):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(GOOD | content))
    store = open_passing_store("for one test")
    try:
        imported = import_chat(store, path, ChatSettings())
    except BadChatFile:
        assert store.chats.listed() == ()
    else:
        export_chat(store, imported.chat_id, path)
        again = import_chat(store, path, ChatSettings())
        assert texts(store, again.chat_id) == texts(store, imported.chat_id)
        assert len(store.messages.all_of(again.chat_id)) == len(
            store.messages.all_of(imported.chat_id)
        )
    store.close()


def many(count: int) -> NewChat:
    rows = [
        StoredMessage(place, 0, place - 1 if place else None, "user", f"text {place}")
        for place in range(count)
    ]
    return NewChat("Long", ChatSettings(), rows, count - 1, "A folder")


def test_a_long_chat_is_added_in_steps_and_listed_when_it_is_whole(store):
    steps = insert_in_steps(store, many(2 * AT_ONCE + 1))
    for _ in range(2):
        next(steps)
        assert store.chats.listed() == ()
    chat_id = result_of(steps)
    (listed,) = store.chats.listed()
    assert (listed.id, listed.title, listed.folder) == (chat_id, "Long", 1)
    assert texts(store, chat_id) == [f"text {place}" for place in range(2 * AT_ONCE + 1)]


@pytest.mark.parametrize("name", ["chat.json", "chat.md"])
def test_a_file_of_more_messages_than_a_window_can_take_is_refused(
    store, tmp_path, monkeypatch, name
):
    """Before they are read as JSON, which nothing can interrupt."""
    chat_id = insert_chat(store, many(8))
    export_chat(store, chat_id, tmp_path / name)
    monkeypatch.setattr("app.store.transfer.MOST_MESSAGES", 8)
    assert len(read_chat_file(tmp_path / name, ChatSettings()).messages) == 8
    monkeypatch.setattr("app.store.transfer.MOST_MESSAGES", 7)
    monkeypatch.setattr("app.store.transfer.json.loads", None)
    with pytest.raises(BadChatFile, match="more than 7 messages"):
        read_chat_file(tmp_path / name, ChatSettings())


def test_a_long_chat_that_is_cut_off_goes_with_the_next_start(tmp_path):
    store = open_store(tmp_path / "chats.db")
    next(insert_in_steps(store, many(AT_ONCE + 1)))
    store.close()
    store = open_store(tmp_path / "chats.db")
    assert store.chats.listed() == store.chats.in_bin() == ()
    assert store.database.rows("SELECT * FROM message") == []
    store.close()


def test_half_characters_of_a_file_can_be_written_out(store, tmp_path):
    half = {"role": "user", "text": "q\ud800", "thinking": "\udfff"}
    content = {"format": "headstart-chat-1", "model": "m\ud800", "system": "half \ud800"}
    content |= {"title": "\ud800", "folder": "\ud800", "messages": [half]}
    content["settings"] = {"preset": "\ud800", "template_arguments": {"\ud800": "\ud800"}}
    (tmp_path / "in.json").write_text(json.dumps(content))
    chat = import_chat(store, tmp_path / "in.json", ChatSettings()).chat_id
    assert store.open_chat(chat).settings.system == "half \ufffd"
    for name in ("out.json", "out.md"):
        export_chat(store, chat, tmp_path / name)
        assert texts(store, import_chat(store, tmp_path / name, ChatSettings()).chat_id)


def test_titles_are_one_line_that_can_be_seen(store, tmp_path):
    title = "a\0b\x1b[31m\u202egnp.exe " + "x" * 1_000_000
    content = {"format": "headstart-chat-1", "model": "m", "system": None, "title": title}
    (tmp_path / "in.json").write_text(json.dumps(content | {"messages": []}))
    import_chat(store, tmp_path / "in.json", ChatSettings())
    (chat,) = store.chats.listed()
    assert chat.title.startswith("a\ufffdb\ufffd[31m\ufffdgnp.exe xx") and len(chat.title) == 200


def test_a_pipe_is_no_chat(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(BadChatFile, match="could not be read"):
        read_chat_file(tmp_path / "pipe.json", ChatSettings())


def test_quoted_lines_take_time_by_their_number(tmp_path):
    def seconds(lines: int) -> float:
        chat = "# Chat with m\n\n## m\n\n" + "> x\n" * lines
        start = process_time()
        chat_from_markdown(chat)
        return process_time() - start

    few = min(seconds(40_000) for _ in range(3))
    assert min(seconds(160_000) for _ in range(3)) < 10 * few, "not 16 times"
