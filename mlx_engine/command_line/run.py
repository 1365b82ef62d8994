"""From typed arguments to an exit status: parses, runs the command, turns errors into one line."""

import os
import time
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from errno import EDQUOT, ENOSPC
from pathlib import Path

from mlx_engine.command_line.arguments import parse
from mlx_engine.command_line.outside import Outside, real_outside
from mlx_engine.values.errors import EngineError
from mlx_engine.values.private_files import make_private_file, make_private_folder

BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130
NO_ROOM = (ENOSPC, EDQUOT)

Command = Callable[[Namespace, Outside], int]


def run(arguments: Sequence[str], outside: Outside | None = None) -> int:
    """Run one command; its exit status. `--help` and bad arguments raise SystemExit."""
    outside = outside or real_outside()
    try:
        parsed = parse(arguments)
        status = _command(parsed.command)(parsed, outside)
        outside.stdout.flush()  # a reader that has left must be met here, not by Python's exit
        return status
    except EngineError as error:
        from mlx_engine.command_line.screen import make_screen

        make_screen(outside.stderr, outside.stderr, plain=True).note(f"headstart: {error}", "")
        return BAD_INPUT
    except KeyboardInterrupt:
        print(file=outside.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout(outside)
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _drop_stdout(outside)
            words = f"{error.strerror}, so what it says is cut: free space, or write elsewhere."
            print(f"headstart: {words}", file=outside.stderr)
            return BAD_INPUT
        print(crash_note(error, outside.log_folder), file=outside.stderr)
        return BUG


def _command(name: str) -> Command:
    """Imported on use: parsing and --help need none of what a command needs."""
    match name:
        case "chat":
            from mlx_engine.command_line.chat import chat as command
        case "generate":
            from mlx_engine.command_line.commands import generate as command
        case "inspect":
            from mlx_engine.command_line.commands import inspect as command
        case "bench":
            from mlx_engine.command_line.commands import bench as command
        case "doctor":
            from mlx_engine.command_line.commands import doctor as command
        case _:
            raise AssertionError(f"the parser let {name!r} through")
    return command


def _drop_stdout(outside: Outside) -> None:
    """The reader left; keep Python from complaining about it when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, outside.stdout.fileno())


def crash_note(error: BaseException, folder: Path | None) -> str:
    """Write the traceback below `folder` and say where; the traceback itself if that fails."""
    trace = "".join(traceback.format_exception(error))
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    path = _written(trace, folder) if folder is not None else None
    details = trace if path is None else f"The details are in {path}"
    return f"headstart: this is a bug of ours, {what}\n{details}"


def _written(trace: str, folder: Path) -> Path | None:
    path = folder / time.strftime("crash-%Y%m%d-%H%M%S.log")
    try:
        make_private_folder(folder)
        make_private_file(path)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        return None
    return path
