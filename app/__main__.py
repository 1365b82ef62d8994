"""`headstart`: the window with paths, or a command of the terminal."""

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app.start.folders import has_display, this_users_folders
from app.start.qt_libraries import why_no_window

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


def main() -> int:
    """The exit status."""
    meant = meant_by(sys.argv[1:])
    if not isinstance(meant, OpenWindow):
        return _in_the_terminal(meant.arguments)
    why_not = why_no_window()
    if why_not:
        print(f"headstart: {why_not}\nSo here is the chat in the terminal.", file=sys.stderr)
        return _in_the_terminal(("chat", *meant.paths[:1]))
    gc.disable()  # what is imported stays; the app's own Collector takes over from here
    from app.run import run_window

    return run_window(meant.paths)


def _in_the_terminal(arguments: Sequence[str]) -> int:
    """Imported here: for the window they would be a fifth of all that is imported."""
    from mlx_engine.command_line.outside import real_outside
    from mlx_engine.command_line.run import run

    folders = this_users_folders()
    return run(arguments, real_outside(folders.logs, folders.kernels_file, folders.prompts))


if __name__ == "__main__":
    sys.exit(main())
