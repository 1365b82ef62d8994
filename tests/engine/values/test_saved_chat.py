"""A chat comes back from its JSON content and from its Markdown."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_engine.values.conversation import Message
from mlx_engine.values.saved_chat import (
    FORMAT,
    SavedChat,
    chat_as_content,
    chat_as_markdown,
    chat_from_content,
    chat_from_markdown,
)

CHAT = SavedChat(
    "Tiny", "Be brief.", (Message("user", "Hi\nthere"), Message("assistant", "Ho", "a\n\nb"))
)
AWKWARD = [
    "## You",
    "## System",
    "## Tiny",
    "# Chat with Tiny",
    "\\",
    "> ",
    ">",
    "\n",
    "\n\n",
    " x",
]
TEXT = st.lists(st.sampled_from(AWKWARD), max_size=8).map("".join)
THINKING = TEXT.map(lambda text: "\n".join(line.rstrip() for line in text.split("\n")))


def test_markdown() -> None:
    assert chat_as_markdown(CHAT) == (
        "# Chat with Tiny\n\n## System\n\nBe brief.\n\n## You\n\nHi\nthere\n\n"
        "## Tiny\n\n> a\n>\n> b\n\nHo\n"
    )


@given(
    st.none() | TEXT.filter(bool),
    st.lists(
        st.builds(Message, st.sampled_from(["user", "assistant"]), TEXT, THINKING), max_size=4
    ),
)
def test_markdown_comes_back(system: str | None, messages: list[Message]) -> None:
    chat = SavedChat("Tiny", system, tuple(messages))
    assert chat_from_markdown(chat_as_markdown(chat)) == chat


ANY = st.text(st.characters(codec="utf-8"))
ROLES = st.sampled_from(["system", "user", "assistant"])


@given(ANY, st.none() | ANY, st.lists(st.builds(Message, ROLES, ANY, ANY)))
def test_content_comes_back(model: str, system: str | None, messages: list[Message]) -> None:
    chat = SavedChat(model, system, tuple(messages))
    assert chat_from_content(json.loads(json.dumps(chat_as_content(chat)))) == chat


@given(st.text())
def test_any_markdown(text: str) -> None:
    whole = f"# Chat with x\n{text}"
    chat = chat_from_markdown(whole)
    assert chat_from_markdown(chat_as_markdown(chat)) == replace(chat, system=chat.system or None)


def test_markdown_edited_elsewhere() -> None:
    text = "\ufeff\n" + chat_as_markdown(CHAT).replace("\n", "\r\n").rstrip()
    assert chat_from_markdown(text) == CHAT


@pytest.mark.parametrize("text", ["", "\n", "Chat with x", "# Notes\n\n## You\n\nHi", "a" * 10_000])
def test_other_markdown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="first line"):
        chat_from_markdown(text)


GOOD: dict[str, Any] = {"format": FORMAT, "model": "m", "system": None, "messages": []}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "format"),
        (GOOD | {"format": "other"}, "format"),
        (GOOD | {"model": 1}, "model or system"),
        (GOOD | {"system": 1}, "model or system"),
        (GOOD | {"messages": {}}, "list of messages"),
        (GOOD | {"messages": [{"role": "user", "text": ""}, "x"]}, "message 2 has no role"),
        (GOOD | {"messages": [{"role": "king", "text": "x"}]}, "message 1 has no role"),
        (GOOD | {"messages": [{"role": "user", "text": 1}]}, "message 1 has no text"),
        (GOOD | {"messages": [{"role": ["user"], "text": ""}]}, "message 1 has no role"),
        (
            GOOD | {"messages": [{"role": "user", "text": "", "thinking": 1}]},
            "message 1 has no text",
        ),
    ],
)
def test_other_content_is_refused(content: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        chat_from_content(content)
