"""Run a command line: parse it, run the command, turn errors into one line and an exit status."""

import os
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from errno import EDQUOT, ENOSPC

from mlx_engine.command_line.arguments import parse_command_line
from mlx_engine.command_line.runtime import Runtime, process_runtime
from mlx_engine.values.errors import EngineError

BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130
NO_ROOM = (ENOSPC, EDQUOT)

Command = Callable[[Namespace, Runtime], int]


def run_command_line(arguments: Sequence[str], runtime: Runtime | None = None) -> int:
    """Run a command line and return its exit status; --help and bad flags raise SystemExit."""
    runtime = runtime or process_runtime()
    try:
        parsed = parse_command_line(arguments)
        status = _import_command(parsed.command)(parsed, runtime)
        runtime.stdout.flush()  # so that a closed pipe raises here, not when Python exits
        return status
    except EngineError as error:
        from mlx_engine.command_line.screen import make_screen

        make_screen(runtime.stderr, runtime.stderr, is_plain=True).print_note(
            f"headstart: {error}", ""
        )
        return BAD_INPUT
    except KeyboardInterrupt:
        print(file=runtime.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout(runtime)
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _drop_stdout(runtime)
            words = f"{error.strerror}, so the output is cut: free space, or write elsewhere."
            print(f"headstart: {words}", file=runtime.stderr)
            return BAD_INPUT
        print(f"{traceback.format_exc()}headstart: this is a bug of ours", file=runtime.stderr)
        return BUG


def _import_command(name: str) -> Command:
    """Import the function of a command only when used, so that parsing and --help stay quick."""
    from mlx_engine.command_line import commands
    from mlx_engine.command_line.chat import chat

    return {
        "chat": chat,
        "generate": commands.generate,
        "inspect": commands.inspect,
        "bench": commands.bench,
        "doctor": commands.doctor,
        "serve": commands.serve,
    }[name]


def _drop_stdout(runtime: Runtime) -> None:
    """Redirect stdout to nowhere, so that Python's flush at exit raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, runtime.stdout.fileno())
