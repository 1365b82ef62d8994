"""The list of chats: order, names, pins, copies, the bin."""

from dataclasses import replace

import pytest
from chat_stores import talk, texts

from app.store.chats import AT_ONCE, DAYS_IN_BIN, MAX_TITLE, result_of
from app.store.session_store import SessionStore, open_store
from app.store.transfer import NewChat, insert_chat
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.chats import AnswerSoFar, StoredMessage
from app.values.errors import NoSuchChat
from mlx_engine.values.options import DraftOptions

DAY = 24 * 3600


def titles(store: SessionStore) -> list[str]:
    return [chat.title for chat in store.chats.listed()]


def test_the_last_changed_is_first_and_pinned_ones_above(store, clock):
    chats = {}
    for title in ("a", "b", "c"):
        clock.now += 1
        chats[title] = store.chats.create(ChatSettings(), title)
    assert titles(store) == ["c", "b", "a"]
    store.chats.pin(chats["a"], True)
    assert titles(store) == ["a", "c", "b"]
    clock.now += 1
    store.messages.add(chats["b"], None, "user", "hello")
    store.chats.rename(chats["c"], "  d\n e ")
    assert titles(store) == ["a", "b", "d e"]
    store.chats.pin(chats["a"], False)
    assert titles(store) == ["b", "d e", "a"]


def test_settings_belong_to_a_chat(store):
    mine = ChatSettings(
        model_path="/models/a.gguf",
        system="Be brief.",
        draft=DraftOptions(depth=3, min_probability=0.25),
        sampling=SamplingChoice(temperature=0.0, seed=2**64 - 1),
    )
    first, second = store.chats.create(mine), store.chats.create(ChatSettings())
    assert store.open_chat(first).settings == mine
    store.chats.set_settings(second, mine)
    store.chats.set_settings(first, ChatSettings())
    assert store.open_chat(first).settings == ChatSettings()
    assert store.open_chat(second).settings == mine
    assert store.open_chat(second).notes == ()


def test_settings_that_cannot_be_read_are_named(store):
    chat = store.chats.create(ChatSettings(system="Hi"))
    store.database.write(
        "UPDATE chat SET settings = ?", '{"system": "Hi", "draft": {"depth": 99, "source": "none"}}'
    )
    opened = store.open_chat(chat)
    assert opened.settings == ChatSettings(system="Hi", draft=DraftOptions(source="none"))
    assert len(opened.notes) == 1 and "settings.draft.depth: 99" in opened.notes[0]
    store.database.write("UPDATE chat SET settings = '{'")
    assert store.open_chat(chat).settings == ChatSettings()


def test_deleting_can_be_undone(store, clock):
    kept, chat = talk(store, "kept"), talk(store, "hello", "world")
    before = store.chats.listed()
    clock.now += 5
    store.chats.delete(chat)
    assert [one.id for one in store.chats.listed()] == [kept]
    assert [(one.id, one.deleted_at) for one in store.chats.in_bin()] == [(chat, clock.now)]
    store.chats.restore(chat)
    assert store.chats.listed() == before
    assert texts(store, chat) == ["hello", "world"]
    assert store.chats.in_bin() == ()


def test_the_bin_keeps_for_thirty_days(store, clock):
    old, new, kept = talk(store, "old"), talk(store, "new"), talk(store, "kept")
    store.chats.delete(old)
    clock.now += 1
    store.chats.delete(new)
    clock.now += DAYS_IN_BIN * DAY - 1
    assert store.chats.empty_bin() == 1
    assert [chat.id for chat in store.chats.in_bin()] == [new]
    assert [chat.id for chat in store.chats.listed()] == [kept]
    with pytest.raises(NoSuchChat):
        store.chats.restore(old)
    assert store.database.rows("SELECT * FROM message WHERE chat = ?", old) == []


def test_starting_empties_the_bin(store, clock):
    store.chats.delete(talk(store, "old"))
    clock.now += DAYS_IN_BIN * DAY + 1
    store.chats.delete(talk(store, "new"))
    again = open_store(store.database.path, clock)
    assert [chat.title for chat in again.chats.in_bin()] == ["new"]
    again.close()


def test_a_long_chat_can_be_deleted_for_ever(store):
    chat = store.chats.create(ChatSettings())
    parent = None
    with store.database.transaction():
        for _ in range(1500):
            parent = store.messages._insert(chat, parent, "user", "x", "", "done")
    store.chats.delete_for_ever(chat)
    assert store.database.rows("SELECT count(*) AS n FROM message")[0]["n"] == 0
    assert store.search.find("x") == ()


def test_a_copy_has_all_branches_and_is_its_own(store):
    chat = talk(store, "hello", "one")
    user = store.messages.path(chat)[0].message.id
    writing = store.messages.begin_answer(chat, user, "Tiny")
    store.messages.save_partial(writing, AnswerSoFar("tw"))
    copy = store.chats.duplicate(chat)
    assert store.chats.get(copy).title == "hello (copy)"
    assert texts(store, copy) == ["hello", "tw"]
    last = store.messages.path(copy)[-1]
    assert (last.number, len(last.siblings), last.message.state) == (2, 2, "stopped")
    store.messages.save_partial(writing, AnswerSoFar("two"))
    store.chats.delete_for_ever(chat)
    store.messages.select(last.siblings[0])
    assert texts(store, copy) == ["hello", "one"]
    assert store.messages.path(copy)[1].message.stats is not None


def test_copies_are_numbered_and_a_copy_of_a_copy_is_one_of_the_first(store):
    chat = talk(store, "hello", "one")
    first = store.chats.duplicate(chat)
    others = [store.chats.duplicate(chat), store.chats.duplicate(first)]
    others += [store.chats.duplicate(others[-1]), store.chats.duplicate(chat, "Kopie")]
    titles = [store.chats.get(its).title for its in (first, *others)]
    numbered = ["hello (copy)", "hello (copy 2)", "hello (copy 3)", "hello (copy 4)"]
    assert titles == [*numbered, "hello (Kopie)"]
    store.chats.rename(chat, "x" * MAX_TITLE)
    long = [store.chats.get(store.chats.duplicate(chat)).title for _ in range(2)]
    assert [(len(its), its.lstrip("x")) for its in long] == [
        (MAX_TITLE, " (copy)"),
        (MAX_TITLE, " (copy 2)"),
    ]


def test_a_long_chat_is_copied_in_steps_and_listed_when_it_is_whole(store):
    messages = [StoredMessage(n, 0, n - 1 if n else None, "user", f"{n}") for n in range(401)]
    chat = insert_chat(store, NewChat("Long", ChatSettings(), messages, 400))
    steps = store.chats.copy_in_steps(chat, "copy")
    for _ in range(400 // AT_ONCE):
        next(steps)
        assert [listed.id for listed in store.chats.listed()] == [chat]
        assert store.chats.in_bin() == ()
    copy = result_of(steps)
    assert texts(store, copy) == texts(store, chat)
    steps = store.chats.copy_in_steps(chat, "copy")
    next(steps)
    store.chats.delete_for_ever(chat)
    with pytest.raises(NoSuchChat):
        next(steps)
    assert [listed.id for listed in store.chats.listed()] == [copy]


def test_a_copy_and_a_branch_read_from_where_the_chat_did(store):
    """From their own messages: the same words are read, so the same cache serves."""
    chat = talk(store, "one", "ONE", "two", "TWO", "three", "THREE")
    path = [turn.message for turn in store.messages.path(chat)]
    settings = store.chats.settings(chat).value
    store.chats.set_settings(chat, replace(settings, read_from=path[2].id))
    copy = store.chats.duplicate(chat)
    branch = store.chats.branch(chat, path[3].id)
    early = store.chats.branch(chat, path[1].id)
    for other, place in ((copy, 2), (branch, 2), (early, None)):
        its = [turn.message.id for turn in store.messages.path(other)]
        first = store.chats.settings(other).value.read_from
        assert first == (None if place is None else its[place])


def test_chats_that_are_gone_are_said_to_be(store):
    for call in (
        store.open_chat,
        store.chats.get,
        store.chats.settings,
        store.chats.duplicate,
        store.chats.delete,
        store.chats.restore,
        store.chats.delete_for_ever,
        lambda chat: store.chats.rename(chat, "x"),
        lambda chat: store.chats.pin(chat, True),
        lambda chat: store.chats.set_settings(chat, ChatSettings()),
        lambda chat: store.messages.add(chat, None, "user", "x"),
        lambda chat: store.messages.begin_answer(chat, None, "m"),
    ):
        with pytest.raises(NoSuchChat, match="open another"):
            call(99)
    assert store.chats.listed() == ()
