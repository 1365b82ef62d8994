"""`python -m mlx_engine COMMAND`: the same commands as `headstart`."""

import sys

from mlx_engine.command_line.run import run_command_line

if __name__ == "__main__":
    sys.exit(run_command_line(sys.argv[1:]))
