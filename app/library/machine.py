"""The machine as models see it: the memory they may use, and what to get next for it."""

import os
import subprocess
import sys
from dataclasses import dataclass

from app.values.hub import Format, HubFind
from mlx_engine.values.words import Words, joined, size_words

_SMALL = 36 * 2**30


@dataclass(frozen=True, slots=True)
class Machine:
    """usable_bytes: what a model and its caches may use; macOS keeps the rest from the GPU.
    has_metal: models compute on it, most of them in 16 bits.
    """

    usable_bytes: int
    has_metal: bool = True

    @property
    def gpu_bytes(self) -> int:
        """What a GPU may hold, 0 for none."""
        return self.usable_bytes if self.has_metal else 0


def this_machine() -> Machine:
    """Asks the system; takes a few milliseconds."""
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
    """As its user has set it, empty where that was not done."""
    command = ["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


GB_A_BILLION = 0.75
"""Of memory for each billion of parameters: 0.6 GB of weights in 4 bits with their scales, the rest
for long chats.
"""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A published conversion whose owners say that its MTP heads are in it."""

    link: str
    format: Format
    billions: int
    words: str

    @property
    def memory(self) -> int:
        """Bytes that a model of this size wants, with room for long chats."""
        return round(self.billions * GB_A_BILLION * 1e9)

    def on(self, machine: Machine) -> HubFind:
        """As a row for this machine."""
        fits = self.memory <= machine.usable_bytes
        size = Words("{size} of memory", size=size_words(self.memory))
        needs = size if fits else Words("too large for this Mac")
        hub_id, parameters = self.link.partition(":")[0], self.billions * 10**9
        return HubFind(
            hub_id, self.format, parameters, heads=True, note=joined((self.words, needs))
        )


UNSLOTH = "unsloth/Qwen{}-MTP-GGUF:{}"
CHOSEN = (
    Chosen(UNSLOTH.format("3.5-2B", "Q4_K_M"), "GGUF", 2, Words("Small and quick")),
    Chosen(UNSLOTH.format("3.5-4B", "Q4_K_M"), "GGUF", 4, Words("For everyday questions")),
    Chosen(UNSLOTH.format("3.5-9B", "Q4_K_M"), "GGUF", 9, Words("For most things")),
    Chosen("kradih/Qwen3.6-27B-MTP-4bit-MLX", "MLX", 27, Words("Thorough, as MLX weights")),
    Chosen(UNSLOTH.format("3.6-27B", "Q4_K_M"), "GGUF", 27, Words("Thorough, also with code")),
    Chosen(
        UNSLOTH.format("3.6-35B-A3B", "Q4_K_M"), "GGUF", 35, Words("Quick: 3B of it work at a time")
    ),
    Chosen(
        UNSLOTH.format("3.5-122B-A10B", "UD-Q4_K_XL"),
        "GGUF",
        122,
        Words("The largest of the family"),
    ),
)
"""Smallest first: of the family of Qwen3.5, for each size of memory that Macs have."""


def chosen_for(machine: Machine) -> tuple[HubFind, ...]:
    """All of them as rows, the best for this machine first, those too large for it last."""
    fitting = [one for one in CHOSEN if one.memory <= machine.usable_bytes]
    rest = [one for one in CHOSEN if one not in fitting]
    return tuple(one.on(machine) for one in (*reversed(fitting), *rest))


def advice(machine: Machine) -> str:
    """In words, for the start page."""
    best = best_for(machine)
    return Words(
        "This computer has {size} of memory for a model: enough for a {billions}B Qwen in 4 bits "
        "with room for long chats. Pick one with drafting heads under Models, Hugging Face.",
        size=size_words(machine.usable_bytes),
        billions=best.billions,
    )


def best_for(machine: Machine) -> Chosen:
    """The largest that fits; the smallest there is if none does."""
    return max(
        (one for one in CHOSEN if one.memory <= machine.usable_bytes),
        key=lambda one: one.billions,
        default=CHOSEN[0],
    )
