"""What a bench run does and what it found, as frozen values that become one JSON line."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from mlx_engine.values.errors import Reason

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


@dataclass(frozen=True, slots=True)
class Contest:
    """Medians of two sides measured in turn; ratio: median of ours / theirs, pair by pair."""

    ours: float
    theirs: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether drafted text equals plain text; difference: where it first did not, in words."""

    texts: int
    tokens: int
    difference: str | None

    @property
    def is_green(self) -> bool:
        """No text differed."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """Plain greedy decoding against a peer, both told to go on past the end of text.

    decode: tokens/s after the first. prompt: prompt tokens over the time to the first token.
    cpu_ms: processor time of the whole process for one decoded token, all threads; it stays put
    where other programs disturb the clock. equal_tokens: length of the common beginning.
    """

    peer: str
    repeats: int
    decode_tokens: int
    equal_tokens: int
    prompt_tokens: int
    decode: Contest
    prompt: Contest
    cpu_ms: Contest


@dataclass(frozen=True, slots=True)
class DraftArm:
    """All prompts at one temperature and depth ("0" to "8", or "auto").

    acceptance[d-1]: accepted share of the d-th drafts. ratio: speed over depth 0 in this run.
    cpu_ms: processor time of the process for one token, all threads. Other milliseconds are of one
    pass. depths: rounds played by depth; why: the reason most rounds gave for drafting less than
    asked.
    """

    temperature: float
    depth: str
    tokens: int
    passes: int
    tokens_per_pass: float
    acceptance: tuple[float, ...]
    tokens_per_second: float
    ratio: float
    cpu_ms: float
    draft_ms: float
    verify_ms: float
    host_ms: float
    depths: dict[int, int]
    why: Reason | None


@dataclass(frozen=True, slots=True)
class DraftingReport:
    """Drafting over several prompts; verify_ms[r-1]: a pass of r rows, head_ms: one of the head."""

    prompts: int
    arms: tuple[DraftArm, ...]
    verify_ms: tuple[float, ...]
    head_ms: float


@dataclass(frozen=True, slots=True)
class AcceptanceReport:
    """Chance that a first draft is accepted, along the target's text, by the rule that makes it.

    bound: 1 - total variation, what rejection sampling reaches and no rule exceeds. shared_noise:
    over `draws` seeds a position. greedy: the head's likeliest token. independent: two draws.
    played_*: accepted shares of the d-th drafts in real rounds of three drafts; rounds begin
    where a draft before them failed, at harder places than most, so they show less.
    """

    temperature: float
    positions: int
    draws: int
    bound: float
    shared_noise: float
    greedy: float
    independent: float
    played_shared_noise: tuple[float, ...]
    played_greedy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Bytes that live after a round, and those of them the conversation accounts for."""

    tokens: int
    active_bytes: int
    track_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """One long answer with drafting.

    growth_bytes: how much more active memory grew from the second to the last sample than the
    conversation accounts for. replay_bytes: largest inputs held for replay, of state_bytes.
    *_round_ms: median pass with its draft and host work, in the first and last tenth.
    """

    prompt_tokens: int
    generated_tokens: int
    samples: tuple[MemorySample, ...]
    growth_bytes: int
    peak_bytes: int
    replay_bytes: int
    state_bytes: int
    first_round_ms: float
    last_round_ms: float


@dataclass(frozen=True, slots=True)
class OpsRow:
    """One round's lazy graph: nodes by MLX's own export, and milliseconds to build it."""

    engine: str
    drafted: int
    nodes: int
    build_ms: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Everything; a part is None when it was not asked for, or could not be measured (declined).

    Without agreement every part is None: no green, no number.
    """

    model: str
    quantisation: str
    numerics: str
    backend: str
    mlx: str
    quick: bool
    agreement: Agreement
    plain: tuple[PeerComparison, ...] | None = None
    drafting: DraftingReport | None = None
    acceptance: AcceptanceReport | None = None
    memory: MemoryReport | None = None
    ops: tuple[OpsRow, ...] | None = None
    declined: tuple[Reason, ...] = ()

    def as_json(self) -> str:
        """One line; keys are the field names."""
        return json.dumps(asdict(self), ensure_ascii=False)
