"""`headstart`: without a command the chat in the terminal, else that command."""

import sys

from mlx_engine.command_line.run import run


def main() -> int:
    """The exit status."""
    return run(sys.argv[1:] or ["chat"])


if __name__ == "__main__":
    sys.exit(main())
