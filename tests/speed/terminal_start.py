"""Times of the terminal from the start of Python: imports, the built-in model, the first prompt.

`python tests/speed/terminal_start.py RUNS [CHECKOUT=PYTHON ...]`; without checkouts, this one. They
are measured in turn, in processes of their own, so that all of them share the machine's weather.
Prints the median of wall and of processor seconds, and the best wall.
"""

import os
import pty
import select
import signal
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from mlx_engine.command_line.screen import PROMPT_MARK

HERE = Path(__file__).resolve().parents[2]
LIMIT_S = 60
MARK = PROMPT_MARK.strip().encode()
STEPS = {
    "python": ("-c", "pass"),
    "import mlx_engine": ("-c", "import mlx_engine"),
    "built-in model loaded": ("-c", "import mlx_engine; mlx_engine.load()"),
    "headstart --help": ("-m", "app", "--help"),
    "headstart chat, first prompt": ("-m", "app", "chat", "--seed", "1"),
}


class Took(NamedTuple):
    """Seconds."""

    wall: float
    processor: float


def run(checkout: Path, python: str, arguments: Sequence[str]) -> Took:
    """To the end of the process, or to the mark behind which one may type."""
    started = perf_counter()
    child, terminal = pty.fork()
    if not child:
        os.chdir(checkout)
        places = {"PYTHONPATH": str(checkout), "TERM": "xterm-256color"}
        os.execve(python, [python, *arguments], {**os.environ, **places})
    wall, shown = LIMIT_S * 1.0, b""
    while (passed := perf_counter() - started) < LIMIT_S:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # it has ended
            piece = b""
        shown += piece
        if not piece or MARK in shown:
            wall = perf_counter() - started
            break
        if b"\x1b[6n" in piece:  # where is the cursor?
            os.write(terminal, b"\x1b[1;1R")
    os.kill(child, signal.SIGKILL)
    _, _, used = os.wait4(child, 0)
    os.close(terminal)
    if passed >= LIMIT_S:
        raise SystemExit(f"{arguments} in {checkout} came to nothing: {shown[-300:]!r}")
    return Took(wall, used.ru_utime + used.ru_stime)


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 5
    given = [text.partition("=") for text in sys.argv[2:]]
    sides = [(Path(folder), python) for folder, _, python in given] or [(HERE, sys.executable)]
    for name, arguments in STEPS.items():
        for side in sides:
            run(*side, arguments)  # writes bytecode, warms the disk
        took = [[run(*side, arguments) for side in sides] for _ in range(count)]
        for number, (folder, _) in enumerate(sides):
            mine = [turn[number] for turn in took]
            wall, processor = (statistics.median(column) for column in zip(*mine, strict=True))
            best = min(one.wall for one in mine)
            print(
                f"{name:29}{folder.name:12}{wall:6.2f} s, processor {processor:.2f} s, "
                f"best {best:.2f} s"
            )


if __name__ == "__main__":
    main()
