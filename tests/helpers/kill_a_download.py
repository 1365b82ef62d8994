"""The process that downloads is killed; what came stays, and the whole is what the hub has."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fake_hub import FakeHub
from kill_while_writing import Kill

from app.control.downloads import PACKAGES, START
from app.library.download_process import Job
from mlx_engine.hub.client import Hub
from mlx_engine.hub.download import cached
from mlx_engine.hub.repository import HubModel

MODEL, WEIGHTS = HubModel("org/m"), "model.safetensors"


def slow_hub() -> FakeHub:
    """With one model of 6 MB, 4 MB of it a second."""
    files = {"config.json": b"{}", WEIGHTS: random.Random(1).randbytes(6_000_000)}
    return FakeHub({MODEL.hub_id: files}, slow={WEIGHTS: 400_000})


def kill_download_once(fake: FakeHub, cache: Path, chance: random.Random, longest_s: float) -> Kill:
    """The same with a download into `cache`, begun anew once it was complete; characters are bytes
    here, those shown are the ones that an earlier try had brought.
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
    whole = cached(hub, MODEL)
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
