"""Words and parts of words are found, in scripts without spaces too; no query breaks it."""

from contextlib import closing

import pytest
from chat_stores import finish_answer, finished, talk
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.store.chats import Search
from app.store.database import Database, connect, look_closer_file
from app.store.open_database import open_in_memory
from app.store.session_store import SessionStore, open_passing_store, open_store
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar
from app.values.errors import StoreDamaged


def found(store: SessionStore, query: str) -> list[int]:
    return [hit.chat.id for hit in store.search.find(query)]


def marked(text: str, ranges: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[start:end] for start, end in ranges]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The streaming markdown parser", "mark pars"),
        ("The streaming markdown parser", "PARSER"),
        ("Ein Café in Zürich", "cafe zur"),
        ("A cafe\u0301 with combining marks", "café"),
        ("in a cafe without", "café"),
        ("snake_case_name", "case"),
        ("mail me@example.com today", "me@example.com"),
        ("C++ and 3.14", "c++"),
        ("version 3.14 of it", "3.14"),
        ("我喜欢北京的秋天", "北京"),
        ("我喜欢北京的秋天", "秋"),
        ("東京タワーへ行きました", "タワーへ行"),
        ("오늘 서울에서 만나요", "서울"),
        ("ครับผมชอบกรุงเทพ", "กรุงเทพ"),
        ("iPhone手机很好", "iphone手机"),
        ("iPhone手机很好", "手机 iph"),
        ("Привет, мир", "прив"),
        ("line one\n\n\nline two", "one two"),
        ("\U00020000\U00020001\U00020002", "\U00020001"),
        ("in the alphabet", "phab"),
        ("in the alphabet", "ph"),
        ("the Donaudampfschiff", "dampf SCHIFF ff"),
        ("50%_a", "0%_"),
        ("Ein Café in Zürich", "üric"),
        ("ÜBER alles", "üb"),
        ("each of 我喜欢 and 北京", "喜欢 北京 of"),
        ("\U0001f600\U0001f600 zebra", "bra"),
        ('use a "quoted" word', '"quoted"'),
        ("a\U0001f600b", "\U0001f600"),
        ("sunny \u2600\ufe0f and 5 € more", "\u2600\ufe0f — €"),
        ("가각나다라마", "각나"),
    ],
)
def test_what_is_found(store, text, query):
    chat = talk(store, "first", f"before {text} after")
    other = store.chats.create(ChatSettings(), text)
    talk(store, "nothing", "of the sort")
    hits = {hit.chat.id: hit for hit in store.search.find(query)}
    assert set(hits) == {chat, other}
    assert hits[other].title_ranges and hits[other].message_id is None
    assert hits[chat].snippet_ranges and not hits[chat].title_ranges


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("alpha beta", "alpha gamma"),
        ("alphabet", "phaet"),
        ("phax hab aphab", "phabet"),
        ("a percent sign", "1%"),
        ("gagag", "각"),
        ("가나다라마", "각나"),
        ("北京和上海", "北上"),
        ("text", "++ -- !!"),
        ("text", ""),
        ("NEAR", '"'),
        ("a b", "a NOT b c"),
    ],
)
def test_what_is_not_found(store, text, query):
    talk(store, "first", text)
    assert store.search.find(query) == ()


def test_operators_are_words(store):
    chat = talk(store, "use NOT and AND or NEAR(x, 2) with title: here")
    for query in ("NOT AND", "NEAR(x, 2)", "title:", '"use not"', "use*", "^use", "-use", "{use}"):
        assert found(store, query) == [chat], query


def test_ranges_and_snippets(store):
    long = "filler words here " * 40
    chat = talk(store, f"{long}\nthe Zebra crossed\tthe zebras' road {long}", title="On Zebra-s")
    (hit,) = store.search.find("zebra")
    assert hit.chat.id == chat
    assert marked(hit.chat.title, hit.title_ranges) == ["Zebra"]
    assert hit.snippet.startswith("…") and hit.snippet.endswith("…")
    assert "the Zebra crossed the zebras' road" in hit.snippet
    assert marked(hit.snippet, hit.snippet_ranges) == ["Zebra", "zebra"]
    assert len(hit.snippet) < 200 and hit.snippet_ranges[0].start < 22


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## The **normal** *zebra* is\n\n$$f(x)$$", "The normal zebra is f(x)"),
        ("- one\n- [a zebra](https://example.org/z), `code_x`", "one a zebra, code_x"),
        ("| a | zebra |\n|---|:-:|\n| 1 | 2 |", "a zebra 1 2"),
        ("> zebra\n\n```python\n2 ** 3, 2**3, a_b * c\n```", "zebra 2 ** 3, 2**3, a_b * c"),
        ("a zebra\n  ````c++ title\nx = ```y\n````", "a zebra title x = y"),
        ("a zebra - and $5, not ~~$6~~", "a zebra - and $5, not $6"),
    ],
)
def test_a_snippet_is_without_marks_of_markdown(store, text, shown):
    talk(store, text)
    (hit,) = store.search.find("zebra")
    assert hit.snippet == shown
    assert marked(hit.snippet, hit.snippet_ranges) == ["zebra"]


def test_parts_of_words_are_marked(store):
    talk(store, "the alphabet, a be\u0301t and 北京bet")
    (hit,) = store.search.find("BET 京")
    assert marked(hit.snippet, hit.snippet_ranges) == ["bet", "be\u0301t", "京", "bet"]


def test_a_message_that_has_the_trigrams_alone_hides_no_other(store):
    chat = talk(store, "the whole word zebra", "zeb, ebr and bra")
    (hit,) = store.search.find("zebra")
    assert hit.message_id == store.messages.path(chat)[0].message.id


@pytest.mark.parametrize(
    ("query", "found"),
    [("of CAFE", "of Café"), ("zürich cafe", "Zürich"), ("af", "af"), ("zür ich caf", "Zür")],
)
def test_what_is_marked_in_the_chat_is_told_as_it_is_written(store, query, found):
    talk(store, "Of all of Cafés in Zürich")
    assert store.search.find(query)[0].found == found


def test_the_newest_message_is_pointed_at(store):
    chat = talk(store, "zebra one", "zebra two", "other", "zebra last", "end")
    (hit,) = store.search.find("zebra")
    assert hit.message_id == store.messages.path(chat)[3].message.id
    assert hit.snippet == "zebra last"


def test_the_index_follows_every_change(store):
    chat = talk(store, "question")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    store.messages.save_partial(answer, AnswerSoFar("zebra"))
    assert found(store, "zebra") == []
    finish_answer(store.messages, answer, finished("lion"))
    assert found(store, "zebra") == [] and found(store, "lion") == [chat]
    store.messages.save_partial(answer, AnswerSoFar("tiger"))
    assert found(store, "lion tiger") == []
    finish_answer(store.messages, answer, finished("tiger"))
    assert found(store, "lion") == [] and found(store, "tiger") == [chat]
    store.chats.rename(chat, "camel")
    assert found(store, "camel") == [chat] and found(store, "question") == [chat]
    store.chats.delete(chat)
    assert found(store, "tiger") == found(store, "camel") == []
    store.chats.restore(chat)
    assert found(store, "tiger") == [chat]
    copy = store.chats.duplicate(chat)
    store.chats.delete_for_ever(chat)
    assert found(store, "tiger") == found(store, "camel") == [copy]


def test_titles_come_first_and_no_more_than_asked(store):
    chats = [talk(store, "zebra", title=f"chat {number}") for number in range(5)]
    titled = store.chats.create(ChatSettings(), "zebra")
    assert found(store, "zebra") == [titled, *reversed(chats)]
    assert [hit.chat.id for hit in store.search.find("zebra", limit=3)] == [titled, *chats[:2:-1]]


QUERY = (
    st.text()
    | st.text(st.sampled_from("\"*^:(){}+-~ANDORT\0\ud800'%_[]北 a"))
    | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)


@pytest.fixture(scope="module")
def passing():
    """One for all examples of a test."""
    store = open_passing_store("for one test")
    yield store
    store.close()


@settings(max_examples=80)
@given(st.text(), QUERY)
@example('a" OR "b', '"')
@example("x" * 500, "x " * 400)
def test_any_query_on_any_text(passing, text, query):
    chat = talk(passing, text)
    try:
        for hit in passing.search.find(query):
            assert all(0 <= s < e <= len(hit.snippet) for s, e in hit.snippet_ranges)
            assert all(0 <= s < e <= len(hit.chat.title) for s, e in hit.title_ranges)
    finally:
        passing.chats.delete_for_ever(chat)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1, max_size=6))
def test_every_part_of_a_text_is_found(words):
    store = open_passing_store("for one test")
    talk(store, "first", " ".join(words))
    for word in words:
        for part in (word, word[1:] or word, word[: len(word) // 2] or word):
            assert store.search.find(part), part
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE text_index_data SET block = x'0000ff' WHERE id > 10",
        "UPDATE text_index_data SET block = x'ffffffffffff' WHERE id = 10",
        "DELETE FROM text_index_data WHERE id = 10",
        "DELETE FROM text_index_data WHERE id > 10",
        "UPDATE text_index_data SET block = zeroblob(length(block)) WHERE id > 10",
    ],
)
def test_a_damaged_index_is_made_again(store, damage):
    chat = talk(store, "zebra", "lion", title="title")
    path = store.database.path
    store.database.write(damage)
    store.close()
    look_closer_file(path).touch()
    again = open_store(path)
    assert ["damaged" in notice for notice in again.notices] == [True]
    assert found(again, "zebra") == [chat]
    again.close()
    third = open_store(path)
    assert third.notices == ()
    third.close()


def test_damage_that_shows_later_is_looked_for_at_the_next_start(store):
    talk(store, "zebra")
    with pytest.raises(StoreDamaged, match="start Headstart again"), store.database._errors():
        raise_corrupt(store.database)
    assert look_closer_file(store.database.path).exists()


def raise_corrupt(database: Database) -> None:
    """A connection that has not read the index yet meets a damaged one."""
    database.write("UPDATE text_index_data SET block = x'ffffffffffff' WHERE id >= 10")
    with closing(connect(database.path, "ro")) as fresh:
        fresh.execute("SELECT rowid FROM text_index WHERE text_index MATCH 'zebra'").fetchall()


def test_an_empty_database_finds_nothing():
    with closing(open_in_memory("")) as database:
        assert Search(database).find("x") == ()
