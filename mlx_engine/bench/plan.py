"""How much is measured: enough for figures that hold, or a quick look."""

from dataclasses import dataclass
from typing import Literal

Part = Literal["plain", "drafting", "acceptance", "memory", "ops"]
PARTS: tuple[Part, ...] = ("plain", "drafting", "acceptance", "memory", "ops")


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run.

    run_s: seconds one run against a peer may take, which shortens those of slow peers.
    memory_*: cut to what the context holds.
    """

    parts: tuple[Part, ...] = PARTS
    is_quick: bool = False
    repeats: int = 7
    run_s: float = 3.0
    plain_tokens: int = 128
    prompt: int = 256
    agreement_prompts: int = 2
    agreement_tokens: int = 48
    draft_prompts: int = 8
    draft_tokens: int = 96
    acceptance_prompts: int = 8
    acceptance_draws: int = 16
    memory_prompt: int = 8192
    memory_tokens: int = 2048


def quick_plan(parts: tuple[Part, ...] = PARTS) -> Plan:
    """About a fifth of the whole."""
    return Plan(
        parts=parts,
        is_quick=True,
        repeats=3,
        run_s=1.0,
        plain_tokens=32,
        prompt=96,
        agreement_prompts=1,
        agreement_tokens=24,
        draft_prompts=3,
        draft_tokens=32,
        acceptance_prompts=3,
        acceptance_draws=8,
        memory_prompt=1024,
        memory_tokens=256,
    )
