"""From typed arguments to an exit status: parses, runs the command, turns errors into one line."""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence

from mlx_engine.command_line.arguments import parse
from mlx_engine.command_line.crash_log import crash_note
from mlx_engine.command_line.outside import Outside, real_outside
from mlx_engine.values.errors import EngineError

BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130

Command = Callable[[Namespace, Outside], int]


def run(arguments: Sequence[str], outside: Outside | None = None) -> int:
    """Run one command; its exit status. `--help` and bad arguments raise SystemExit."""
    parsed = parse(arguments)
    outside = outside or real_outside()
    try:
        return _command(parsed.command)(parsed, outside)
    except EngineError as error:
        print(f"headstart: {error}", file=outside.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(file=outside.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout(outside)
        return 0
    except Exception as error:
        print(crash_note(error, outside.log_folder), file=outside.stderr)
        return BUG


def _command(name: str) -> Command:
    """Imported on use: parsing and --help need none of what a command needs."""
    match name:
        case "chat":
            from mlx_engine.command_line.chat_in_terminal import chat as command
        case "generate":
            from mlx_engine.command_line.generate import generate as command
        case "inspect":
            from mlx_engine.command_line.inspect import inspect as command
        case "bench":
            from mlx_engine.command_line.bench import bench as command
        case "doctor":
            from mlx_engine.command_line.doctor import doctor as command
        case _:
            raise AssertionError(f"the parser let {name!r} through")
    return command


def _drop_stdout(outside: Outside) -> None:
    """The reader left; keep Python from complaining about it when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, outside.stdout.fileno())
