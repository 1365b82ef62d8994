"""The machine as models see it: the memory they may use, and what to get next for it."""

import os
import subprocess
import sys
from dataclasses import dataclass

from mlx_engine.values.words import size_words

_ASKED = ("machdep.cpu.brand_string", "iogpu.wired_limit_mb")
_SMALL = 36 * 2**30


@dataclass(frozen=True, slots=True)
class Machine:
    """chip: empty where its name is not known. usable_bytes: what a model and its caches may use;
    macOS keeps the rest from the GPU. has_metal: models compute on it, most of them in 16 bits.
    """

    chip: str
    memory_bytes: int
    usable_bytes: int
    has_metal: bool = True


def this_machine() -> Machine:
    """Asks the system; takes a few milliseconds."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if sys.platform != "darwin":
        return Machine("", memory, usable_bytes(memory), has_metal=False)
    chip, limit = (_sysctl(name) for name in _ASKED)
    return Machine(chip, memory, usable_bytes(memory, limit))


def usable_bytes(memory_bytes: int, wired_limit_mb: str = "") -> int:
    """The GPU's share: the user's own limit if one is set, else what macOS gives.

    By default that is two thirds of memories up to 36 GB and three quarters of larger ones.
    """
    if wired_limit_mb.isdecimal() and int(wired_limit_mb) > 0:
        return min(memory_bytes, int(wired_limit_mb) * 2**20)
    return memory_bytes * 2 // 3 if memory_bytes <= _SMALL else memory_bytes * 3 // 4


def _sysctl(name: str) -> str:
    """The value as text, empty when there is none."""
    answer = subprocess.run(
        ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() if answer.returncode == 0 else ""


SIZES = (0.8, 2, 4, 9, 27, 35, 122)
"""Billions of parameters of the Qwen3.5 family, whose models have MTP heads of their own."""

GB_A_BILLION = 0.75
"""Of memory: 0.6 GB of weights in 4 bits with their scales, the rest for long chats."""


def advice(machine: Machine) -> str:
    """In words, for the start page."""
    return (
        f"This machine gives a model {size_words(machine.usable_bytes)}. A Qwen3.5 of up to "
        f"{largest_size(machine):g}B parameters in 4 bits fits with room for long chats: take a "
        "version that kept its MTP heads."
    )


def largest_size(machine: Machine) -> float:
    """Billions of parameters that fit in 4 bits; the smallest there are if none do."""
    most = machine.usable_bytes / 1e9 / GB_A_BILLION
    return max((size for size in SIZES if size <= most), default=SIZES[0])
