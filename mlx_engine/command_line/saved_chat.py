"""Writes a conversation to a new file and reads it back."""

import json
from collections.abc import Callable
from pathlib import Path

from mlx_engine.values.errors import BadOption
from mlx_engine.values.saved_chat import (
    SavedChat,
    chat_as_content,
    chat_as_markdown,
    chat_from_content,
)


def write_chat(path: Path, chat: SavedChat) -> None:
    """Write a new file; raises BadOption for other endings, and when there is one already."""
    as_text = _FORMATS.get(path.suffix.lower())
    if as_text is None:
        raise BadOption(f"{path.name!r} is not possible: use a name ending in .md or .json.")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(as_text(chat))
    except FileExistsError:
        raise BadOption(f"{path} is there already: choose another name.") from None
    except ValueError as error:
        raise BadOption(f"{path.name!r} could not be written: {error}.") from None


def read_chat(path: Path) -> SavedChat:
    """Read a .json of write_chat; raises BadOption when it is something else."""
    try:
        return chat_from_content(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise BadOption(f"{path} is not there: check the name.") from None
    except (ValueError, RecursionError):
        raise BadOption(f"{path} is not a chat that /save wrote as .json.") from None


def _as_json(chat: SavedChat) -> str:
    return json.dumps(chat_as_content(chat), ensure_ascii=False, indent=2) + "\n"


_FORMATS: dict[str, Callable[[SavedChat], str]] = {".md": chat_as_markdown, ".json": _as_json}
