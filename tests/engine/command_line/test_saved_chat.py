"""Saved chats read well as Markdown and come back from JSON."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_engine.command_line.conversation import read_chat, write_chat
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadOption
from mlx_engine.values.saved_chat import SavedChat

TEXT = st.text(st.characters(codec="utf-8"))
CHAT = SavedChat(
    "Tiny", "Be brief.", (Message("user", "Hi\nthere"), Message("assistant", "Ho", "a\n\nb"))
)


@settings(deadline=None)
@given(
    st.builds(
        SavedChat,
        TEXT,
        st.none() | TEXT,
        st.lists(
            st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXT, TEXT)
        ).map(tuple),
    )
)
def test_json_comes_back(tmp_path_factory: pytest.TempPathFactory, chat: SavedChat) -> None:
    path = tmp_path_factory.mktemp("chats") / "chat.json"
    write_chat(path, chat)
    assert read_chat(path) == chat


def test_markdown(tmp_path: Path) -> None:
    write_chat(tmp_path / "chat.md", CHAT)
    assert (tmp_path / "chat.md").read_text() == (
        "# Chat with Tiny\n\n## System\n\nBe brief.\n\n## You\n\nHi\nthere\n\n"
        "## Tiny\n\n> a\n>\n> b\n\nHo\n"
    )


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    path.write_text("mine")
    with pytest.raises(BadOption, match="there already"):
        write_chat(path, CHAT)
    assert path.read_text() == "mine"


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"\.md or \.json"):
        write_chat(tmp_path / "chat.txt", CHAT)


GOOD = {"format": "headstart-chat-1", "model": "m", "system": None, "messages": []}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        json.dumps(GOOD | {"format": "other"}).encode(),
        json.dumps(GOOD | {"model": 1}).encode(),
        json.dumps(GOOD | {"system": 1}).encode(),
        json.dumps(GOOD | {"messages": {}}).encode(),
        json.dumps(GOOD | {"messages": ["x"]}).encode(),
        json.dumps(GOOD | {"messages": [{"role": "king", "text": "x"}]}).encode(),
        json.dumps(GOOD | {"messages": [{"role": "user", "text": 1}]}).encode(),
        json.dumps(GOOD | {"messages": [{"role": "user", "text": "", "thinking": 1}]}).encode(),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(content)
    with pytest.raises(BadOption, match="not a chat"):
        read_chat(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="not there"):
        read_chat(tmp_path / "chat.json")
