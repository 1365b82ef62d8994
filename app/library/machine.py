"""The memory that models may use on this machine, and models that suit it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from app.start.folders import asset_path
from app.values.models import USES, HubFind, Suggestion

_SMALL = 36 * 2**30


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory and GPU of this machine.

    usable_bytes: for a model and its caches; macOS keeps the rest from the GPU. has_metal: whether
    models compute on the GPU, most of them in 16 bits.
    """

    usable_bytes: int
    has_metal: bool = True

    @property
    def gpu_bytes(self) -> int:
        """Bytes that a GPU may hold, 0 without one."""
        return self.usable_bytes if self.has_metal else 0


def this_machine() -> Machine:
    """Describe this machine; takes a few milliseconds."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if sys.platform != "darwin":
        return Machine(usable_bytes(memory), has_metal=False)
    return Machine(usable_bytes(memory, _wired_limit_mb()))


def usable_bytes(memory_bytes: int, wired_limit_mb: str = "") -> int:
    """The GPU's share: the user's own limit if one is set, else what macOS gives.

    By default that is two thirds of memories up to 36 GB and three quarters of larger ones.
    """
    if wired_limit_mb.isdecimal() and int(wired_limit_mb) > 0:
        return min(memory_bytes, int(wired_limit_mb) * 2**20)
    return memory_bytes * 2 // 3 if memory_bytes <= _SMALL else memory_bytes * 3 // 4


def _wired_limit_mb() -> str:
    """Return the limit of GPU memory that the user has set, "" for none."""
    command = ["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


SUGGESTED_AT_ONCE = 3


@cache
def suggestions() -> tuple[Suggestion, ...]:
    """Return all suggested models, smallest first, for each memory size of Macs."""
    listed = json.loads(asset_path("models.json").read_text())
    return tuple(Suggestion(**one) for one in listed)


def chosen_for(machine: Machine) -> tuple[HubFind, ...]:
    """Return all suggested models as rows, the best for a machine first, too large ones last."""
    fitting = [one for one in suggestions() if one.fits(machine.usable_bytes)]
    rest = [one for one in suggestions() if not one.fits(machine.usable_bytes)]
    return tuple(_row_of(one, machine) for one in (*reversed(fitting), *rest))


def _row_of(one: Suggestion, machine: Machine) -> HubFind:
    return HubFind(
        one.link.partition(":")[0],
        one.format,
        one.billions * 10**9,
        round(one.gigabytes * 1e9),
        "fits" if one.fits(machine.usable_bytes) else "too-large",
        heads=one.heads,
        note=USES[one.use],
    )


def first_choices(machine: Machine) -> tuple[Suggestion, ...]:
    """Return a few suggested models for a machine, the largest that fits first."""
    fitting = [
        one for one in suggestions() if one.fits(machine.usable_bytes) and one.format == "GGUF"
    ]
    return tuple(reversed(fitting))[:SUGGESTED_AT_ONCE] or suggestions()[:1]
