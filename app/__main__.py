"""`headstart`: the window, or a command of the terminal."""

import sys
from collections.abc import Sequence

from app.start.folders import this_users_folders
from app.start.launch import OpenWindow, meant_by
from app.start.qt_libraries import why_no_window
from mlx_engine.command_line.outside import real_outside
from mlx_engine.command_line.run import run


def main() -> int:
    """The exit status."""
    meant = meant_by(sys.argv[1:])
    if not isinstance(meant, OpenWindow):
        return _in_the_terminal(meant.arguments)
    why_not = why_no_window()
    if why_not:
        print(f"headstart: {why_not}\nSo here is the chat in the terminal.", file=sys.stderr)
        return _in_the_terminal(("chat", *meant.paths[:1]))
    from app.run_window import run_window

    return run_window(meant.paths)


def _in_the_terminal(arguments: Sequence[str]) -> int:
    folders = this_users_folders()
    return run(arguments, real_outside(folders.logs, folders.kernels_file))


if __name__ == "__main__":
    sys.exit(main())
