"""Kills a writing process 200 times (or as often as the argument says) and prints what was lost."""

import random
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from kill_while_writing import Kill, kill_once  # noqa: E402

AT_ONCE = 5


def main(kills: int) -> int:
    """0 when the promise was kept every time. Each of five files takes one kill after another."""
    chance = random.Random(9)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:

        def line_of_kills(number: int) -> list[Kill]:
            path = Path(folder, str(number), "chats.db")
            count = len(range(number, kills, AT_ONCE))
            return [kill_once(path, chance, 4.0) for _ in range(count)]

        results = [kill for line in pool.map(line_of_kills, range(AT_ONCE)) for kill in line]
    lost = sorted(kill.lost_s for kill in results)
    kept = sum(kill.promise_kept for kill in results)
    print(f"{len(results)} kills: promise kept {kept}, sound {sum(k.sound for k in results)}")
    print(f"with text older than 2 s: {sum(k.old_enough > 0 for k in results)}")
    print(
        f"age of the oldest lost text: median {statistics.median(lost):.2f} s, "
        f"p95 {lost[int(len(lost) * 0.95)]:.2f} s, worst {lost[-1]:.2f} s"
    )
    return 0 if kept == len(results) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
