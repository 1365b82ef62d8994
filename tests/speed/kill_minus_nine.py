"""Kills a process that writes an answer, again and again, and prints what was lost.

`--through store` (default): a process that only writes. `--through changes`: one that moves chats
into folders, edits answers, exports and imports. `--through download`: one that downloads from a
slow hub on this machine. `--through window`: the whole window with the built-in model, killed 0.3
to 4 s after its answer began to show.
"""

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from fake_hub import FakeHub, serving  # noqa: E402
from kill_a_download import kill_download_once, slow_hub  # noqa: E402
from kill_the_window import kill_window_once  # noqa: E402
from kill_while_writing import Kill, kill_changes_once, kill_once  # noqa: E402

AT_ONCE = {"store": 5, "changes": 2, "download": 2, "window": 1}
SOONEST_S, LONGEST_S = 0.3, 4.0


def main(through: str, kills: int) -> int:
    """0 when the promise was kept every time. Each file takes one kill after another."""
    chance = random.Random(9)
    lines = AT_ONCE[through]
    with (
        serving(slow_hub()) as hub,
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(lines) as pool,
    ):
        kill = _killer(through, Path(folder), chance, hub)

        def line_of_kills(line: int) -> list[Kill]:
            return [_said(kill(line, number)) for number in range(line, kills, lines)]

        results = [kill for line in pool.map(line_of_kills, range(lines)) for kill in line]
    lost = sorted(kill.lost_s for kill in results)
    kept = sum(kill.promise_kept for kill in results)
    print(f"{len(results)} kills: promise kept {kept}, sound {sum(k.sound for k in results)}")
    print(f"with text older than 2 s: {sum(k.old_enough > 0 for k in results)}")
    print(
        f"age of the oldest lost text: median {statistics.median(lost):.2f} s, "
        f"p95 {lost[int(len(lost) * 0.95)]:.2f} s, worst {lost[-1]:.2f} s"
    )
    return 0 if kept == len(results) else 1


def _killer(
    through: str, folder: Path, chance: random.Random, hub: FakeHub
) -> Callable[[int, int], Kill]:
    """What makes one kill, given the number of its line and its own."""
    if through == "store":
        return lambda line, _: kill_once(folder / f"{line}" / "chats.db", chance, LONGEST_S)
    if through == "changes":
        return lambda line, _: kill_changes_once(folder / f"{line}" / "chats.db", chance, 0.5)
    if through == "download":
        return lambda line, _: kill_download_once(hub, folder / f"{line}", chance, 1.2)
    return lambda line, number: kill_window_once(
        folder / f"{line}", folder / f"{number}.log", chance.uniform(SOONEST_S, LONGEST_S)
    )


def _said(kill: Kill) -> Kill:
    """A line as soon as it is known: the run takes minutes."""
    print(kill, flush=True)
    return kill


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--through", choices=list(AT_ONCE), default="store")
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    sys.exit(main(given.through, given.times))
