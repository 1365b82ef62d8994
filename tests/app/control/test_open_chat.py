"""The open chat goes on without its oldest turns by what the model had to read of them."""

import pytest

from app.control.open_chat import OpenChat
from app.store.messages import BLOCK
from app.store.rows import message_from_row
from app.store.session_store import SessionStore, open_store
from app.store.transfer import NewChat, insert_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import StoredMessage
from mlx_engine.values.conversation import GenerationFinished, Message, Role
from mlx_engine.values.stats import GenerationStats

TURNS = ((3000, 100), (3300, 50), (3400, 60), (3500, 40))
"""Tokens of the prompt and the answer of each turn: the first has nearly all of them."""


@pytest.mark.parametrize(("has_figures", "left"), [(True, 1), (False, 2)])
def test_the_older_half_of_the_tokens_goes(tmp_path, has_figures, left):
    """Where no answer tells, the characters do."""
    store = open_store(tmp_path / "chats.sqlite")
    chat = OpenChat(store, ChatSettings())
    for number, (prompt, answer) in enumerate(TURNS):
        asked = chat.add_question("数" * 100)
        its = store.messages.begin_answer(asked.chat_id, asked.id, "Tiny")
        stats = GenerationStats(prompt_tokens=prompt, generated_tokens=answer)
        said = GenerationFinished("end", stats if has_figures else GenerationStats(), "a" * 100, "")
        store.messages.finish_answer(its, said)
        chat.reload()
        assert chat.can_drop == (number > 0)
    chat.drop_oldest()
    assert chat.first_read == 2 * left
    chat.drop_oldest()
    assert chat.first_read > 2 * left
    store.close()


MANY = 20 * BLOCK


def long_chat(store: SessionStore, roles: tuple[Role, Role] = ("user", "assistant")) -> int:
    messages = [
        StoredMessage(n, 0, n - 1 if n else None, roles[n % 2], f"text {n}") for n in range(MANY)
    ]
    return insert_chat(store, NewChat("Long", ChatSettings(), messages, MANY - 1))


def test_of_a_long_chat_only_the_blocks_that_are_looked_at_are_read(tmp_path, monkeypatch):
    store, read = open_store(tmp_path / "chats.sqlite"), []

    def counted(row):
        read.append(row["id"])
        return message_from_row(row)

    monkeypatch.setattr("app.store.messages.message_from_row", counted)
    chat = OpenChat(store, ChatSettings())
    chat.open(long_chat(store))
    assert len(chat.turns) == MANY and len(read) == 1
    assert chat.can_drop and chat.first_read == 0
    assert chat.last_question.text == f"text {MANY - 2}"
    assert chat.question_before(chat.turns.ids[-1]) == chat.last_question
    assert len(read) == 1 + BLOCK
    middle = chat.turns.ids[MANY // 2 + 1]
    assert chat.turn(middle).message.text == f"text {MANY // 2 + 1}"
    assert [turn.message.id for turn in chat.turns[:3]] == list(chat.turns.ids[:3])
    assert len(read) == 1 + 3 * BLOCK
    past = chat.past(middle)
    assert past[0] == Message("user", "text 0") and len(past) == MANY // 2 + 2
    assert len(read) == 1 + 3 * BLOCK
    store.close()


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_long_chat_of_one_role_is_not_read_whole_for_the_other(tmp_path, monkeypatch, role):
    store, read = open_store(tmp_path / "chats.sqlite"), []
    monkeypatch.setattr(
        "app.store.messages.message_from_row", lambda row: read.append(1) or message_from_row(row)
    )
    chat = OpenChat(store, ChatSettings())
    chat.open(long_chat(store, (role, role)))
    assert (chat.last_answer is None, chat.last_question is None) == (
        role == "user",
        role != "user",
    )
    assert chat.can_drop == (role == "user")
    assert len(read) <= 1 + 2 * BLOCK
    store.close()


def test_a_message_of_a_long_chat_that_cannot_be_read_says_so(tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    chat = OpenChat(store, ChatSettings())
    chat.open(long_chat(store))
    store.database.rows("PRAGMA foreign_keys = OFF")
    store.database.write("DELETE FROM message WHERE id = ?", chat.turns.ids[5])
    gone = chat.turns[5].message
    assert gone.interrupted and str(gone.id) in gone.problem
    assert chat.turns[6].message.text == "text 6"
    store.close()
