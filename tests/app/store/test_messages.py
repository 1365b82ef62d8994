"""Messages as a tree: branches are kept, the selected one is shown, answers grow in place."""

import json
from random import Random

import hypothesis.strategies as st
import pytest
from chat_stores import Clock, finish_answer, finished, import_chat, interrupt_answer, talk, texts
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.store.chats import Chats, Search
from app.store.messages import Messages
from app.store.open_database import open_in_memory
from app.store.pictures import Pictures
from app.store.rows import stats_from, stats_to_json
from app.store.session_store import open_store
from app.store.transfer import export_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar, DraftedSpan
from app.values.errors import NoSuchChat, StoreDamaged
from mlx_engine.values.stats import GenerationStats, SourceStats
from mlx_engine.values.words import Words


def test_regenerating_keeps_the_old_answer(store):
    chat = talk(store, "hello", "one", "and?", "more")
    question, old = (turn.message for turn in store.messages.path(chat)[:2])
    new = store.messages.begin_answer(chat, question.id, "Other")
    finish_answer(store.messages, new, finished("two"))
    path = store.messages.path(chat)
    assert texts(store, chat) == ["hello", "two"]
    assert path[1].siblings == (old.id, new)
    assert path[1].number == 2
    store.messages.select(old.id)
    assert texts(store, chat) == ["hello", "one", "and?", "more"]


def test_editing_the_first_message_keeps_the_old_branch(store):
    chat = talk(store, "hello", "one")
    first = store.messages.path(chat)[0].message
    edited = store.messages.edit(first.id, "good day")
    assert texts(store, chat) == ["good day"]
    assert store.messages.path(chat)[0].siblings == (first.id, edited.id)
    assert edited.role == "user"
    assert store.chats.get(chat).title == "hello"


@pytest.mark.parametrize("shown", ["first", "second"])
def test_a_question_is_removed_with_all_its_answers_and_put_back(store, shown):
    """What follows either answer follows what stood before the question; all is as it was then."""
    chat = talk(store, "hello", "one", "zebra?", "stripes", "why?", "so")
    ids = list(store.messages.path(chat).ids)
    other = store.messages.begin_answer(chat, ids[2], "Other")
    finish_answer(store.messages, other, finished("a horse"))
    store.messages.add(chat, other, "user", "really?")
    if shown == "first":
        store.messages.select(ids[3])
    before, was_shown = store.messages.all_of(chat), texts(store, chat)
    removed = store.messages.remove(ids[2])
    left = {"first": ["why?", "so"], "second": ["really?"]}[shown]
    assert texts(store, chat) == ["hello", "one", *left]
    assert store.search.find("zebra") == ()
    store.messages.put_back(removed)
    assert (store.messages.all_of(chat), texts(store, chat)) == (before, was_shown)
    assert len(store.search.find("zebra")) == 1
    only = store.messages.remove(ids[0])
    store.messages.put_back(only)
    assert store.messages.all_of(chat) == before


def test_another_version_of_a_removed_question_comes_on_show(store):
    chat = talk(store, "hello", "one", "why?", "so")
    asked = store.messages.path(chat)[2].message.id
    edited = store.messages.edit(asked, "how?").id
    removed = store.messages.remove(edited)
    assert texts(store, chat) == ["hello", "one", "why?", "so"]
    store.messages.put_back(removed)
    assert texts(store, chat) == ["hello", "one", "how?"]
    store.messages.select(asked)
    store.messages.remove(asked)
    assert texts(store, chat) == ["hello", "one", "how?"]


def test_an_answer_while_it_is_written(store, clock):
    chat = talk(store, "hello")
    answer = store.messages.begin_answer(chat, store.messages.path(chat)[0].message.id, "Tiny")
    assert store.messages.get(answer).state == "partial"
    clock.now += 3
    store.messages.save_partial(answer, AnswerSoFar("one t", "hm", [DraftedSpan(0, 3, 1)], 1.25))
    message = store.messages.get(answer)
    assert message.thinking_seconds == 1.25
    assert (message.text, message.thinking, message.state) == ("one t", "hm", "partial")
    assert message.spans == (DraftedSpan(0, 3, 1),)
    spans = [DraftedSpan(0, 3, 1, "mtp"), DraftedSpan(4, 7, 2)]
    finish_answer(store.messages, answer, finished("one two", "max-tokens", "hmm"), spans, 1.5)
    message = store.messages.get(answer)
    assert message.thinking_seconds == 1.5
    assert message.state == "done" and message.finish_reason == "max-tokens"
    assert message.thinking == "hmm" and message.model == "Tiny" and message.spans == tuple(spans)
    assert message.stats == finished("one two").stats
    assert store.chats.get(chat).updated_at == clock.now


def test_stopped_by_the_user_is_not_interrupted(store):
    chat = talk(store, "hello")
    stopped = store.messages.begin_answer(chat, None, "Tiny")
    finish_answer(store.messages, stopped, finished("par", "stopped"))
    assert store.messages.get(stopped).state == "stopped"
    assert not store.messages.get(stopped).interrupted
    failed = store.messages.begin_answer(chat, None, "Tiny")
    interrupt_answer(store.messages, failed, AnswerSoFar("half"))
    assert store.messages.get(failed).interrupted
    assert store.messages.get(failed).text == "half"


def test_what_ended_an_answer_is_kept_with_what_a_translation_needs(store):
    chat = talk(store, "hello")
    why = Words("{tokens:,} tokens, {what}.", tokens=12_000, what=Words("too many"))
    answer = store.messages.begin_answer(chat, None, "Tiny")
    interrupt_answer(store.messages, answer, AnswerSoFar("half"), why)
    kept = store.messages.get(answer).problem
    assert isinstance(kept, Words)
    assert (kept, kept.template, kept.fields) == (why, why.template, why.fields)
    assert isinstance(kept.fields["what"], Words)
    for odd in ("\x1e{", "\x1e[]", '\x1e["{", "", -1, {"x": 1}]'):
        store.database.write("UPDATE message SET problem = ? WHERE id = ?", odd, answer)
        assert store.messages.get(answer).problem == ""


def test_what_ended_an_answer_is_kept_until_it_goes_on(store):
    chat = talk(store, "hello")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    interrupt_answer(
        store.messages, answer, AnswerSoFar("half", "hm", (), 0.5), "The memory is full."
    )
    message = store.messages.get(answer)
    assert (message.problem, message.thinking_seconds) == ("The memory is full.", 0.5)
    copy = store.chats.duplicate(chat)
    assert store.messages.path(copy)[-1].message.problem == "The memory is full."
    assert store.messages.path(copy)[-1].message.thinking_seconds == 0.5
    finish_answer(store.messages, answer, finished("half and half"))
    assert store.messages.get(answer).problem == ""


def test_text_sqlite_cannot_keep_is_replaced_one_for_one(store):
    chat = store.chats.create(ChatSettings(), "a\0b\ud800")
    message = store.messages.add(chat, None, "user", "x\0y\udfffz \U0001f600")
    assert message.text == "x\ufffdy\ufffdz \U0001f600"
    assert store.chats.get(chat).title == "a\ufffdb\ufffd"
    answer = store.messages.begin_answer(chat, message.id, "\ud800")
    store.messages.save_partial(answer, AnswerSoFar("\0\0", "\ud800", [DraftedSpan(1, 2, 1)]))
    assert store.messages.get(answer).text == "\ufffd\ufffd"


def test_spoilt_columns_become_defaults(store):
    chat = talk(store, "hello", "one")
    for spans, stats, role, state, reason in (
        ("nonsense", "[", "king", "odd", "bored"),
        ("[[0,9,1],[1,0,1],[0,1],[0,1,1]]", "7", "", "", ""),
        ("[" * 100_000, "{}", "x", "y", "z"),
    ):
        store.database.write(
            "UPDATE message SET spans=?, stats=?, role=?, state=?, finish_reason=?",
            *(spans, stats, role, state, reason),
        )
        message = store.messages.path(chat)[1].message
        assert message.role == "user" and message.state == "stopped"
        assert message.spans in ((), (DraftedSpan(0, 1, 1),)) and message.finish_reason is None


def test_a_parent_in_another_chat_is_refused(store):
    chat, other = talk(store, "hello"), talk(store, "there")
    with pytest.raises(NoSuchChat, match="another chat"):
        store.messages.add(chat, store.messages.path(other)[0].message.id, "user", "x")
    with pytest.raises(NoSuchChat):
        store.messages.add(chat, 999, "user", "x")
    with pytest.raises(NoSuchChat):
        store.messages.save_partial(999, AnswerSoFar("x"))
    assert texts(store, chat) == ["hello"]


class Tree(RuleBasedStateMachine):
    """The store against a plain model: nodes with parents, one selected leaf."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.database = database = open_in_memory("")
        self.chats, self.messages = (
            made(database, Pictures(database), self.clock) for made in (Chats, Messages)
        )
        self.search = Search(database)
        self.chat = self.chats.create(ChatSettings())
        self.parents: dict[int, int | None] = {}
        self.texts: dict[int, str] = {}
        self.partial: set[int] = set()
        self.leaf: int | None = None

    def teardown(self) -> None:
        self.database.close()

    def _add(self, message_id: int, parent: int | None, text: str) -> None:
        self.parents[message_id], self.texts[message_id] = parent, text
        self.leaf = message_id

    def _pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.parents)))

    @rule(data=st.data(), text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
    def say(self, data: st.DataObject, text: str) -> None:
        parent = data.draw(st.sampled_from([None, *self.parents]))
        self._add(self.messages.add(self.chat, parent, "user", text).id, parent, text)

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        parent = data.draw(st.sampled_from([None, *self.parents]))
        added = self.messages.begin_answer(self.chat, parent, "m")
        self._add(added, parent, "")
        self.partial.add(added)

    @precondition(lambda self: self.partial)
    @rule(data=st.data(), text=st.sampled_from(["zebra", "zebra crossing", "no"]))
    def write(self, data: st.DataObject, text: str) -> None:
        message = data.draw(st.sampled_from(sorted(self.partial)))
        self.texts[message] = text
        if data.draw(st.booleans()):
            self.messages.save_partial(message, AnswerSoFar(text))
        else:
            finish_answer(self.messages, message, finished(text))
            self.partial.remove(message)

    @precondition(lambda self: self.parents)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        message = self._pick(data)
        edited = self.messages.edit(message, "edited zebra")
        self._add(edited.id, self.parents[message], "edited zebra")

    @precondition(lambda self: self.parents)
    @rule(data=st.data())
    def select(self, data: st.DataObject) -> None:
        leaf = self._pick(data)
        self.messages.select(leaf)
        while below := [child for child, parent in self.parents.items() if parent == leaf]:
            leaf = max(below)
        self.leaf = leaf

    @rule()
    def continue_in_a_copy(self) -> None:
        old, self.chat = self.chat, self.chats.duplicate(self.chat)
        copies = {None: None} | dict(
            zip(
                sorted(self.parents),
                (message.id for message in self.messages.all_of(self.chat)),
                strict=True,
            )
        )
        self.texts = {copies[key]: text for key, text in self.texts.items()}
        self.parents = {copies[key]: copies[up] for key, up in self.parents.items()}
        self.leaf = copies[self.leaf]
        self.partial = set()
        self.chats.delete_for_ever(old)

    @invariant()
    def path_and_siblings_agree(self) -> None:
        expected: list[int] = []
        node = self.leaf
        while node is not None:
            expected.insert(0, node)
            node = self.parents[node]
        path = self.messages.path(self.chat)
        assert [turn.message.id for turn in path] == expected
        for turn in path:
            message = turn.message
            assert message.text == self.texts[message.id]
            assert (message.state == "partial") == (message.id in self.partial)
            same = [i for i, up in self.parents.items() if up == self.parents[message.id]]
            assert list(turn.siblings) == sorted(same)

    @invariant()
    def complete_messages_are_found(self) -> None:
        having = [i for i, t in self.texts.items() if "zebra" in t and i not in self.partial]
        hits = self.search.find("zebra")
        found = [hit.message_id for hit in hits if hit.message_id is not None]
        assert found == ([max(having)] if having else [])


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=30, stateful_step_count=20)


def test_figures_of_each_source_are_kept_and_older_ones_read():
    stats = GenerationStats(drafted=9, by_source=(SourceStats("prompt-lookup", 9, 4),))
    written = json.loads(stats_to_json(stats) or "")
    assert stats_from(written) == stats
    del written["by_source"]
    assert stats_from(written) == GenerationStats(drafted=9)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_follows_whatever_a_chat_can_be_used(tmp_path, seed):
    """In a damaged file: messages after later ones, themselves, ones of other chats, and none."""
    random = Random(seed)
    store = open_store(tmp_path / "chats.db")
    chats = [talk(store, "one", "two", "three", "four"), talk(store, "five", "six", "seven")]
    ids = range(1, 8)
    for setting in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
        store.database.rows(f"PRAGMA {setting}")
    sql = "UPDATE message SET parent = ? WHERE id = ?"
    for _ in range(5):
        store.database.write(sql, random.choice([None, -1, *ids, 9, 2**40]), random.choice(ids))
    sql = "UPDATE chat SET leaf = ? WHERE id = ?"
    store.database.write(sql, random.choice([None, 0, *ids, 9]), random.choice(chats))
    for setting in ("foreign_keys = ON", "ignore_check_constraints = OFF"):
        store.database.rows(f"PRAGMA {setting}")
    for chat in chats:
        turns = store.open_chat(chat).turns
        assert turns and {turn.message.chat_id for turn in turns} == {chat}
        every = store.messages.all_of(chat)
        copied = store.messages.all_of(store.chats.duplicate(chat))
        assert [message.text for message in copied] == [message.text for message in every]
        for message in every:
            store.messages.select(message.id)
            assert store.open_chat(chat).turns
            assert store.messages.path(store.chats.branch(chat, message.id))
        for place in (tmp_path / "chat.json", tmp_path / "chat.md"):
            export_chat(store, chat, place)
            assert import_chat(store, place, ChatSettings()).chat_id
        store.messages.edit(turns[0].message.id, "otherwise")
        store.messages.rewrite(turns[-1].message.id, "otherwise")
        assert store.messages.path(chat)[-1].message.text == "otherwise"
    for chat in chats:
        try:
            store.chats.delete_for_ever(chat)
        except StoreDamaged:  # another chat's message follows one of this chat
            store.close()
            store = open_store(tmp_path / "chats.db")
            store.chats.delete_for_ever(chat)
    assert store.database.rows("PRAGMA foreign_key_check") == []
    store.close()
