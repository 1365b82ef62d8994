"""Run a command line: parse it, run the command, turn errors into one line and an exit status."""

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
    """Run one command and return its exit status; --help and bad arguments raise SystemExit."""
    outside = outside or real_outside()
    try:
        parsed = parse(arguments)
        status = _command(parsed.command)(parsed, outside)
        outside.stdout.flush()  # so that a closed pipe raises here, not when Python exits
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
            words = f"{error.strerror}, so the output is cut: free space, or write elsewhere."
            print(f"headstart: {words}", file=outside.stderr)
            return BAD_INPUT
        print(crash_note(error, outside.log_folder), file=outside.stderr)
        return BUG


def _command(name: str) -> Command:
    """Import a command when it is used, so that parsing and --help stay quick."""
    if name == "chat":
        from mlx_engine.command_line.chat import chat

        return chat
    from mlx_engine.command_line import commands

    return {
        "generate": commands.generate,
        "inspect": commands.inspect,
        "bench": commands.bench,
        "doctor": commands.doctor,
    }[name]


def _drop_stdout(outside: Outside) -> None:
    """Redirect stdout to nowhere, so that Python's flush at exit raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, outside.stdout.fileno())


def crash_note(error: BaseException, folder: Path | None) -> str:
    """Write the traceback into `folder` and name its file; return the traceback if that fails."""
    trace = "".join(traceback.format_exception(error))
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    path = _write_log(trace, folder) if folder is not None else None
    details = trace if path is None else f"The details are in {path}"
    return f"headstart: this is a bug of ours, {what}\n{details}"


def _write_log(trace: str, folder: Path) -> Path | None:
    path = folder / time.strftime("crash-%Y%m%d-%H%M%S.log")
    try:
        make_private_folder(folder)
        make_private_file(path)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        return None
    return path
