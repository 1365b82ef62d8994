"""A chat comes back from its JSON content, and is Markdown to be read."""

import json
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
)

CHAT = SavedChat(
    "Tiny", "Be brief.", (Message("user", "Hi\nthere"), Message("assistant", "Ho", "a\n\nb"))
)


def test_markdown() -> None:
    assert chat_as_markdown(CHAT) == (
        "# Chat with Tiny\n\n## System\n\nBe brief.\n\n## You\n\nHi\nthere\n\n"
        "## Tiny\n\n> a\n>\n> b\n\nHo\n"
    )


ANY = st.text(st.characters(codec="utf-8"))
ROLES = st.sampled_from(["system", "user", "assistant"])


@given(ANY, st.none() | ANY, st.lists(st.builds(Message, ROLES, ANY, ANY)))
def test_content_comes_back(model: str, system: str | None, messages: list[Message]) -> None:
    chat = SavedChat(model, system, tuple(messages))
    assert chat_from_content(json.loads(json.dumps(chat_as_content(chat)))) == chat


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
