"""`headstart`: the window with paths, or a command in the terminal."""

import gc
import sys
from collections.abc import Sequence

from app.start.folders import has_display, this_users_folders
from app.start.qt_libraries import say_terminal, why_no_window

COMMANDS = frozenset(("chat", "generate", "inspect", "bench", "doctor", "serve"))


def paths_to_open(arguments: Sequence[str], *, display: bool | None = None) -> Sequence[str] | None:
    """Return the paths for the window; None for the terminal.

    display: whether a window can be shown, None to find out.
    """
    first = arguments[0] if arguments else ""
    if first == "app":
        return arguments[1:]
    if first in COMMANDS or first.startswith("-"):
        return None
    if arguments:
        return arguments
    return () if (has_display() if display is None else display) else None


def main() -> int:
    """Run the program; return the exit status."""
    try:
        return _run(sys.argv[1:])
    except KeyboardInterrupt:  # while something is imported; nothing has begun
        print(file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["app"] and arguments[1:2] in (["-h"], ["--help"]):
        arguments = arguments[1:]  # the help of all says what it does
    paths = paths_to_open(arguments)
    if paths is None:
        return _in_the_terminal(arguments or ("chat",))
    why_not = why_no_window()
    if why_not:
        say_terminal(why_not)
        return _in_the_terminal(("chat", *paths[:1]))
    gc.disable()  # what is imported stays; the app's own Collector takes over from here
    from app.run import run_window

    return run_window(paths)


def _in_the_terminal(arguments: Sequence[str]) -> int:
    """Run a command; imported here, since the window does not need it."""
    from mlx_engine.command_line.run import run_command_line
    from mlx_engine.command_line.runtime import process_runtime

    return run_command_line(arguments, process_runtime(this_users_folders().kernels_file))


if __name__ == "__main__":
    sys.exit(main())
