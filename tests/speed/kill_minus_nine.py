"""Kills a process that writes an answer, again and again, and prints what was lost.

`--through store` (default): a process that only writes. `--through changes`: one that moves chats
into folders, edits answers, exports and imports. `--through download`: one that downloads from a
slow hub on this machine. `--through window`: the whole window with the built-in model, killed 0.3
to 4 s after its answer began to show.
"""

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from fake_hub import FakeHub, serving  # noqa: E402
from kill_the_window import kill_window_once  # noqa: E402
from kill_while_writing import Kill, kill_changes_once, kill_once  # noqa: E402

from app.library.download_process import Job  # noqa: E402
from app.state.downloads import PACKAGES, START  # noqa: E402
from mlx_engine.hub.client import Hub  # noqa: E402
from mlx_engine.hub.download import cached_path  # noqa: E402
from mlx_engine.hub.repository import HubModel  # noqa: E402

AT_ONCE = {"store": 5, "changes": 2, "download": 2, "window": 1}
SOONEST_S, LONGEST_S = 0.3, 4.0
MODEL, WEIGHTS = HubModel("org/m"), "model.safetensors"


def main(through: str, kills: int) -> int:
    """0 when the promise was kept every time. Each file takes one kill after another."""
    chance = random.Random(9)
    lines = AT_ONCE[through]
    with (
        serving(_slow_hub()) as hub,
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
        return lambda line, _: _kill_download_once(hub, folder / f"{line}", chance, 1.2)
    return lambda line, number: kill_window_once(
        folder / f"{line}", folder / f"{number}.log", chance.uniform(SOONEST_S, LONGEST_S)
    )


def _slow_hub() -> FakeHub:
    """With one model of 6 MB, 4 MB of it a second."""
    files = {"config.json": b"{}", WEIGHTS: random.Random(1).randbytes(6_000_000)}
    return FakeHub({MODEL.hub_id: files}, slow={WEIGHTS: 400_000})


def _kill_download_once(
    fake: FakeHub, cache: Path, chance: random.Random, longest_s: float
) -> Kill:
    """The process that downloads into `cache` is killed: what came stays, and the whole is what the
    hub has; begun anew once it was complete. Characters are bytes here, those shown are the ones
    that an earlier try had brought.
    """
    hub, weights = Hub(cache, fake.endpoint, False), fake.repositories[MODEL.hub_id][WEIGHTS]
    before = _sizes(hub)
    command = (sys.executable, "-P", "-c", START, str(PACKAGES))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(Job(hub, MODEL).as_line())
        child.stdin.flush()
        child.stdout.readline()
        time.sleep(chance.uniform(0, longest_s))
        child.kill()
    whole = cached_path(hub, MODEL)
    if whole is not None:
        sound = (whole / WEIGHTS).read_bytes() == weights
        shutil.rmtree(cache)
        return Kill(before, before, len(weights), 0.0, sound)
    parts = (path.read_bytes() for path in _parts(hub))
    sound = all(part == b"{}"[: len(part)] or weights.startswith(part) for part in parts)
    return Kill(before, before, _sizes(hub), 0.0, sound)


def _parts(hub: Hub) -> list[Path]:
    return list((hub.repository(MODEL.hub_id) / "blobs").glob("*.incomplete"))


def _sizes(hub: Hub) -> int:
    return sum(path.stat().st_size for path in _parts(hub))


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
