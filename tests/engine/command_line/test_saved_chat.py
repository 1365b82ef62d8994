"""Chats are written to files by their ending, over nothing that is there, and read from JSON."""

from pathlib import Path

import pytest

from mlx_engine.command_line.conversation import read_chat, write_chat
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadOption
from mlx_engine.values.saved_chat import SavedChat, chat_as_markdown

CHAT = SavedChat(
    "Tiny", "Be brief.", (Message("user", "Hi\nthere 😀"), Message("assistant", "Ho", "a\n\nb"))
)


def test_both_endings(tmp_path: Path) -> None:
    write_chat(tmp_path / "chat.md", CHAT)
    assert (tmp_path / "chat.md").read_text(encoding="utf-8") == chat_as_markdown(CHAT)
    write_chat(tmp_path / "chat.json", CHAT)
    assert read_chat(tmp_path / "chat.json") == CHAT


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    path.write_text("mine")
    with pytest.raises(BadOption, match="there already"):
        write_chat(path, CHAT)
    assert path.read_text() == "mine"


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"\.md or \.json"):
        write_chat(tmp_path / "chat.txt", CHAT)


def test_what_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    """Else its name would be taken at the next try."""
    with pytest.raises(BadOption, match="could not be written"):
        write_chat(tmp_path / "chat.md", SavedChat("Tiny", None, (Message("user", "\ud800"),)))
    assert not any(tmp_path.iterdir())
    write_chat(tmp_path / "chat.md", CHAT)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"[]", b"{}"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(content)
    with pytest.raises(BadOption, match="not a chat"):
        read_chat(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="cannot be read: No such file"):
        read_chat(tmp_path / "chat.json")
