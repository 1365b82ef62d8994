"""Chats of ChatGPT, LM Studio and Jan become chats here; damaged ones are refused in words."""

import json
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.library.dropped import DroppedText, what_is
from app.store.foreign_chats import chat_from_lines, foreign_chats
from app.store.session_store import open_passing_store
from app.store.transfer import insert_chat, read_chats
from app.values.chat_settings import ChatSettings
from app.values.errors import BadChatFile


def node(key: str, parent: str | None, children: list[str], role: str = "", *parts: Any, **more):
    message = {
        "author": {"role": role},
        "create_time": 1700000000.5,
        "content": {"content_type": "text", "parts": list(parts)},
        "metadata": {"model_slug": "gpt-4o"},
    }
    message |= more
    return {
        "id": key,
        "message": message if role else None,
        "parent": parent,
        "children": children,
    }


TREE = {
    "title": "On zebras",
    "current_node": "f",
    "mapping": {
        item["id"]: item
        for item in (
            node("root", None, ["sys"]),
            node("sys", "root", ["a"], "system", ""),
            node("a", "sys", ["t", "e"], "user", "Why stripes?"),
            node("t", "a", ["b"], "assistant", content={"thoughts": [{"content": "Flies?"}]}),
            node("b", "t", ["c"], "assistant", "Let me look."),
            node("c", "b", ["d"], "tool", "results"),
            node("d", "c", [], "assistant", "Against flies."),
            node("e", "a", ["f"], "assistant", "As camouflage."),
            node("f", "e", [], "user", {"content_type": "image"}, "Sure?"),
        )
    },
}
STUDIO = {
    "name": "Stars",
    "createdAt": 1700000000500,
    "systemPrompt": "Be brief.",
    "messages": [
        {
            "versions": [
                {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "Hi"}]}
            ],
            "currentlySelected": 0,
        },
        {
            "versions": [
                {
                    "type": "multiStep",
                    "role": "assistant",
                    "senderInfo": {"senderName": "qwen3"},
                    "steps": [
                        {
                            "type": "contentBlock",
                            "style": {"type": "thinking"},
                            "content": [{"type": "text", "text": "A greeting."}],
                        },
                        {"type": "debugInfoBlock", "debugInfo": "x"},
                        {"type": "contentBlock", "content": [{"type": "text", "text": text}]},
                    ],
                }
                for text in ("Hello", "Hello again")
            ],
            "currentlySelected": 0,
        },
        {
            "versions": [{"type": "singleStep", "role": "user", "content": [{"text": "Bye"}]}],
            "currentlySelected": 0,
        },
    ],
}
THREAD = "\n".join(
    json.dumps(
        {
            "object": "thread.message",
            "role": role,
            "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
            "created_at": 1700000000000,
        }
    )
    for role, text in (("user", "Hi"), ("assistant", "<think>\nhm\n</think>\n\nHello"))
)


def told(chat):
    return [(m.parent, m.role, m.text, m.thinking, m.model) for m in chat.messages]


def test_a_tree_of_chatgpt_keeps_branches_thoughts_and_models():
    (chat,) = foreign_chats([TREE])
    assert told(chat) == [
        (None, "user", "Why stripes?", "", ""),
        (0, "assistant", "Let me look.\n\nAgainst flies.", "Flies?", "gpt-4o"),
        (0, "assistant", "As camouflage.", "", "gpt-4o"),
        (2, "user", "Sure?", "", ""),
    ]
    assert (chat.title, chat.leaf) == ("On zebras", 3)
    assert chat.messages[0].created_at == 1700000000.5


def test_versions_of_lm_studio_stand_beside_each_other():
    (chat,) = foreign_chats(STUDIO)
    assert told(chat) == [
        (None, "user", "Hi", "", ""),
        (0, "assistant", "Hello", "A greeting.", "qwen3"),
        (0, "assistant", "Hello again", "A greeting.", "qwen3"),
        (1, "user", "Bye", "", ""),
    ]
    assert (chat.title, chat.system, chat.leaf) == ("Stars", "Be brief.", 3)
    assert {message.created_at for message in chat.messages} == {1700000000.5}


def test_a_thread_of_jan_is_read_line_by_line():
    chat = chat_from_lines(THREAD)
    assert told(chat) == [(None, "user", "Hi", "", ""), (0, "assistant", "Hello", "hm", "")]
    assert chat.messages[0].created_at == 1700000000


def test_several_chats_of_one_file_are_stored_with_their_selected_branches(tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([TREE, {**TREE, "title": None, "current_node": "d"}]))
    store = open_passing_store("")
    first, second = [insert_chat(store, chat) for chat in read_chats(path, ChatSettings())]
    shown = [[turn.message.text for turn in store.messages.path(chat)] for chat in (first, second)]
    assert shown[0] == ["Why stripes?", "As camouflage.", "Sure?"]
    assert shown[1] == ["Why stripes?", "Let me look.\n\nAgainst flies."]
    assert store.chats.get(first).title == "On zebras"
    assert store.chats.get(second).title == "Why stripes?"
    assert store.chats.get(first).updated_at == 1700000000.5, "listed by the day it is of"
    for name, text in (("a.conversation.json", json.dumps(STUDIO)), ("messages.jsonl", THREAD)):
        (tmp_path / name).write_text(text)
        (chat,) = read_chats(tmp_path / name, ChatSettings())
        insert_chat(store, chat)
    store.close()


@pytest.mark.parametrize("text", ["", "\n", "[]", "{}", '{"role": "user"}', "{", "nul"])
def test_lines_that_are_no_messages_are_refused(tmp_path, text):
    (tmp_path / "messages.jsonl").write_text(text)
    with pytest.raises(BadChatFile, match=r"messages\.jsonl is not a chat"):
        read_chats(tmp_path / "messages.jsonl", ChatSettings())


def test_empty_chats_are_left_out_and_a_file_of_nothing_else_is_refused(tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "Nothing", "mapping": {}}, TREE]))
    assert len(read_chats(path, ChatSettings())) == 1
    path.write_text(json.dumps([{"title": "No tree"}, TREE, 3]))
    (chat,) = read_chats(path, ChatSettings())
    assert chat.notes == ("2 entries of conversations.json are no chats and were left out.",)
    path.write_text(json.dumps([{"title": "Nothing", "mapping": {}}]))
    with pytest.raises(BadChatFile, match="it has no messages"):
        read_chats(path, ChatSettings())


@pytest.mark.parametrize("name", ["conversations.json", "1.conversation.json", "messages.jsonl"])
def test_a_dropped_file_of_another_program_is_offered_as_chats(tmp_path, name):
    (tmp_path / name).write_text("[]")
    assert what_is(str(tmp_path / name)) == DroppedText(tmp_path / name, 2, is_chat=True)


@pytest.mark.parametrize("chats", [[TREE], STUDIO, {"folder": "", "format": "headstart-chat-1"}])
def test_chats_are_known_by_what_is_in_their_file_however_large(tmp_path, chats):
    file = tmp_path / "renamed.json"
    file.write_text(json.dumps(chats) + " " * 13_000_000)
    dropped = what_is(str(file))
    assert isinstance(dropped, DroppedText) and dropped.is_chat


def test_circles_twins_and_lost_parents_end():
    mapping = {
        "a": node("a", "b", ["b"], "user", "x"),
        "b": node("b", "a", ["a", "b"], "user", "y"),
        "c": node("c", "gone", ["d", "d", 5, "nowhere"], "user", "z"),
        "d": node("d", "c", ["c"], "assistant", "w"),
        "e": None,
    }
    (chat,) = foreign_chats([{"mapping": mapping, "current_node": 7}])
    assert told(chat) == [(None, "user", "z", "", ""), (0, "assistant", "w", "", "gpt-4o")]


NAMES = ["message", "author", "role", "content", "parts", "thoughts", "content_type", "versions"]
NAMES += ["steps", "style", "type", "children", "parent", "create_time", "text", "value"]
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_odd_content_raises_nothing_but_value_errors(value):
    foreign_chats([{"mapping": {"a": value, "b": {"message": value, "children": ["a"]}}}])
    foreign_chats({"messages": [{"versions": [value, {"role": "user", "content": value}]}]})
    with suppress(ValueError):
        chat_from_lines(json.dumps({"role": "user", "content": value, "created_at": value}))


def test_time_is_linear_in_the_parts_of_an_answer():
    def seconds(count):
        names = [str(number) for number in range(count)]
        mapping = {
            name: node(name, None if not n else names[n - 1], names[n + 1 : n + 2], role, "x" * 99)
            for n, name in enumerate(names)
            for role in ["user" if not n else "assistant"]
        }
        began = process_time()
        foreign_chats([{"mapping": mapping}])
        return process_time() - began

    short = min(seconds(2000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < 8 * short + 0.05
