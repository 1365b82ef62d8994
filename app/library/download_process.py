"""Download one model in a child process, so that a kill ends the download at once.

The process reads a Job from the first line of its input, as JSON, and writes DownloadFigures, a
line of JSON each, until it is done. It ends when its input is closed.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

from app.values.models import DownloadFigures
from app.values.typed_json import encode, read_fields, words_from_text, words_to_text
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel
from mlx_engine.values.errors import DownloadFailed, SignInNeeded

INTERVAL_S = 0.25
NEWEST_SHARE = 0.3
"""Weight of the last quarter of a second in the reported speed."""


@dataclass(frozen=True, slots=True)
class Job:
    """A model to fetch."""

    hub: Hub
    model: HubModel

    def as_line(self) -> bytes:
        """Format the job for the child process."""
        return json.dumps(encode(self)).encode() + b"\n"


def read_job(line: str) -> Job:
    """Parse a line of `as_line`."""
    said: dict[str, Any] = json.loads(line)
    hub = said["hub"]
    place = Hub(Path(hub["cache"]), hub["endpoint"], hub["token"])
    return Job(place, HubModel(**said["model"]))


def read_figures(line: bytes, before: DownloadFigures) -> DownloadFigures:
    """Parse a line of the child process; missing figures are those of `before`."""
    try:
        figures = read_fields(before, json.loads(line), "figures").value
        return replace(figures, words=words_from_text(figures.words))
    except ValueError:
        return before


class Teller:
    """Writes the figures of one download, a few times a second."""

    def __init__(self, say: Callable[[DownloadFigures], object]) -> None:
        self._say = say
        self._figures = DownloadFigures("", "", "looking")
        self._told_at, self._told_bytes = 0.0, 0

    def tell(self, **changes: object) -> None:
        """Write changed figures."""
        self._figures = replace(self._figures, **changes)  # type: ignore[arg-type]
        self._say(self._figures)

    def progress(self, done: int, total: int) -> None:
        """Count downloaded bytes."""
        now = time.monotonic()
        passed = now - self._told_at
        if passed < INTERVAL_S and done < total:
            return
        speed = self._figures.bytes_per_second
        if self._told_bytes:
            newest = (done - self._told_bytes) / max(passed, 1e-3)
            speed = speed + NEWEST_SHARE * (newest - speed) if speed else newest
        self._told_at, self._told_bytes = now, done
        self.tell(phase="running", done=done, total=total, bytes_per_second=speed)


def do(job: Job, teller: Teller) -> None:
    """Download and verify everything, or report the error."""
    # Imported here: the window, which only starts this process, needs neither.
    from mlx_engine.hub.download import download
    from mlx_engine.hub.plan import plan_download

    try:
        plan = plan_download(job.hub, job.model)
        teller.tell(phase="running", done=plan.have_bytes, total=plan.total_bytes)
        path = download(job.hub, plan, teller.progress)
    except DownloadFailed as error:
        needs_sign_in = isinstance(error, SignInNeeded)
        teller.tell(phase="failed", words=str(error), needs_sign_in=needs_sign_in)
    else:
        teller.tell(phase="done", done=plan.total_bytes, path=str(path))


def _say(figures: DownloadFigures) -> None:
    said = encode(figures) | {"words": words_to_text(figures.words)}
    del said["key"], said["name"]
    print(json.dumps(said), flush=True)


def _end_with_the_window() -> None:
    """End the process when the window, which holds the other end of the input, ends."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Run the download as the child process's main function."""
    asked = read_job(sys.stdin.readline())
    Thread(target=_end_with_the_window, daemon=True).start()
    do(asked, Teller(_say))
    os._exit(0)  # without waiting for the thread, which reads to the end
