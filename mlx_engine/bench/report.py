"""What a bench run found, as frozen values that become one JSON line."""

import json
from dataclasses import asdict, dataclass

from mlx_engine.values.reason import Reason


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

    acceptance[d-1]: share of the d-th drafts that stood. ratio: speed over depth 0 in this run.
    cpu_ms: processor time of the process for one token, all threads. Other milliseconds are of one
    pass. depths: rounds played by depth; why: the reason most rounds gave
    for drafting less than asked.
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
    """Chance that a first draft stands, along the target's own text, by the rule that makes it.

    bound: 1 - total variation, what rejection sampling reaches and no rule exceeds. shared_noise:
    over `draws` seeds a position. greedy: the head's likeliest token. independent: two draws.
    played_*: shares of the d-th drafts that stood in real rounds of three drafts; rounds begin
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
