"""`headstart`: the window, or a command of the terminal."""

import sys

from app.start.folders import this_users_folders
from app.start.launch import OpenWindow, meant_by
from mlx_engine.command_line.outside import real_outside
from mlx_engine.command_line.run import run


def main() -> int:
    """The exit status."""
    meant = meant_by(sys.argv[1:])
    if not isinstance(meant, OpenWindow):
        folders = this_users_folders()
        return run(meant.arguments, real_outside(folders.logs, folders.kernels_file))
    from app.run_window import run_window

    return run_window(meant.paths)


if __name__ == "__main__":
    sys.exit(main())
