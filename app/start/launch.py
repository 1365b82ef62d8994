"""What `headstart` with these arguments means: the window with paths, or a command."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.start.folders import has_display

COMMANDS = frozenset(("chat", "generate", "inspect", "bench", "doctor"))


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Show the window, with these files and links opened in it."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Do this in the terminal."""

    arguments: tuple[str, ...]


def meant_by(arguments: Sequence[str], *, display: bool | None = None) -> OpenWindow | RunCommand:
    """display: whether a window can be shown, None to look. Without one nothing means the chat."""
    first = arguments[0] if arguments else ""
    if first == "app":
        return OpenWindow(tuple(arguments[1:]))
    if first in COMMANDS or first.startswith("-"):
        return RunCommand(tuple(arguments))
    if arguments:
        return OpenWindow(tuple(arguments))
    can_show = has_display() if display is None else display
    return OpenWindow(()) if can_show else RunCommand(("chat",))
