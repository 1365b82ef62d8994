"""What a bench run does and what it found, as frozen values that become one JSON line."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from mlx_engine.values.errors import BadOption, Reason
from mlx_engine.values.options import SOURCES, DraftOptions, DraftSourceName, SamplingOptions

Part = Literal["drafting", "prompt", "chats", "acceptance", "cache", "memory"]
PARTS: tuple[Part, ...] = ("drafting", "prompt", "chats", "acceptance", "cache", "memory")
OFF, MLX_LM, LLAMA = "off", "mlx-lm", "llama.cpp"
PEERS = (MLX_LM, LLAMA)
ARMS = (OFF, "1", "2", "3", "2@0.85", "auto", "prompt-lookup", *PEERS)


def draft_of(arm: str, source: DraftSourceName = "mtp") -> DraftOptions:
    """What an arm of ours drafts; source: of those that name none.

    "off", "auto", the name of a source, a depth, or one with the least probability of a draft:
    "2@0.85". Raises BadOption.
    """
    if arm in ("auto", OFF):
        return DraftOptions(source if arm == "auto" else "none")
    if arm in SOURCES:
        return DraftOptions(SOURCES[arm])
    depth, _, least = arm.partition("@")
    try:
        return DraftOptions(source, int(depth), float(least or 0))
    except ValueError:
        known = ", ".join(ARMS)
        raise BadOption(f"{arm!r} is not an arm: use {known}, or the like of 4@0.5.") from None


def arm_words(arm: str) -> str:
    """As tables call it: "depth 2, p 0.85"."""
    return f"depth {arm.replace('@', ', p ')}" if arm[0].isdecimal() else arm


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, and how much of it.

    arms: of ours (see draft_of) and PEERS; "off" takes part in any case. llama_server: llama.cpp's
    program, without which it does not take part. kinds: of the nine kinds of prompt, the first so
    many. tokens: of an answer at most; ignore_eos: and at least. repeats: answers of every arm to
    every prompt. prompt, memory_*: lengths in tokens, cut to what the context holds.
    acceptance_prompts: the shortest so many.
    """

    parts: tuple[Part, ...] = PARTS
    arms: tuple[str, ...] = ARMS
    llama_server: Path | None = None
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(0.0, seed=1))
    is_quick: bool = False
    kinds: int = 9
    tokens: int = 192
    ignore_eos: bool = False
    repeats: int = 2
    prompt: int = 1024
    acceptance_prompts: int = 6
    acceptance_tokens: int = 96
    acceptance_draws: int = 16
    memory_prompt: int = 8192
    memory_tokens: int = 2048


def quick_plan() -> Plan:
    """About an eighth of the whole."""
    return Plan(
        is_quick=True,
        tokens=48,
        repeats=1,
        prompt=256,
        acceptance_prompts=3,
        acceptance_tokens=32,
        acceptance_draws=8,
        memory_prompt=1024,
        memory_tokens=256,
    )


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an arm was: medians over the repeats.

    tokens_per_second: behind the first round. ratio: over off's in the same turn. wall_s: the whole
    answer, prompt included. cpu_ms: processor time of this process for a token, all threads; it
    stays put where other programs disturb the clock. draft_ms, verify_ms, host_ms: of a pass. What
    is not known is None: of a peer, or of an answer of one round.
    """

    tokens_per_second: float | None
    ratio: float | None
    wall_s: float
    cpu_ms: float | None
    draft_ms: float | None
    verify_ms: float | None
    host_ms: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One arm on one kind of prompt, or in all; of its repeats the last, but for the speed.

    equal_tokens: how far the text is that of drafting off, of reference_tokens; is_same: to the end
    of both. rate: accepted / drafted. *_by_depth: see GenerationStats. depths: rounds by tokens
    drafted. why: the reason most rounds gave for drafting less than asked. speed: None for an arm
    of ours with another text.
    """

    arm: str
    is_peer: bool
    is_same: bool
    equal_tokens: int
    reference_tokens: int
    tokens: int
    drafted: int
    accepted: int
    rate: float | None
    passes: int
    tokens_per_pass: float
    drafted_by_depth: tuple[int, ...]
    accepted_by_depth: tuple[int, ...]
    depths: dict[int, int]
    why: Reason | None
    speed: Speed | None


@dataclass(frozen=True, slots=True)
class KindRows:
    """What all arms did with one prompt."""

    kind: str
    prompt_tokens: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class DraftingReport:
    """total: sums over the kinds that every arm has answered.

    verify_ms[r-1]: a pass of r rows, head_ms: one of the head.
    """

    kinds: tuple[KindRows, ...]
    total: tuple[Row, ...]
    verify_ms: tuple[float, ...]
    head_ms: float


@dataclass(frozen=True, slots=True)
class PromptRow:
    """How fast an arm reads: prompt tokens over the time to the first token, medians.

    ratio: speed over that without heads, the median over the repeats.
    """

    arm: str
    tokens: int
    tokens_per_second: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether drafted text equals plain text; difference: where it first did not, in words."""

    texts: int = 0
    tokens: int = 0
    difference: str | None = None

    @property
    def is_green(self) -> bool:
        """No text differed."""
        return self.difference is None


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
class ChatsRow:
    """Several chats, one after the other and at once, each drafted like this.

    alone, at_once: tokens a second of all together, by the clock. ratio: of the two, in the same
    turn; processor_ratio: the same of tokens for each second of a processor. alone_passes, passes:
    of the weights, for each token. is_same: all of them said the same either way.
    """

    arm: str
    chats: int
    alone: float
    at_once: float
    ratio: float
    processor_ratio: float
    alone_passes: float
    passes: float
    is_same: bool


@dataclass(frozen=True, slots=True)
class CacheRow:
    """Keys and values in so many bits, of model and heads, against 16 along the same text.

    difference: the largest of a row of logits, their mean. divergence: of the next token, nats.
    likeliest: share of rows whose likeliest token is the same. accepted: of drafts, None where
    there are none. is_same: the drafted text is the plain one of these bits.
    """

    bits: int
    bytes_per_token: int
    difference: float
    divergence: float
    likeliest: float
    accepted: float | None
    is_same: bool


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
class Conditions:
    """Under which figures were taken; machine: what MLX computes on, the system, its processors."""

    model: str
    quantisation: str
    numerics: str
    machine: str
    mlx: str
    headstart: str
    date: str
    sampling: SamplingOptions
    tokens: int
    ignore_eos: bool
    repeats: int
    is_quick: bool


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Everything; a part is None when it was not asked for, or could not be measured (declined).

    Where a drafted text was not the plain one, the parts after it are None: no green, no number.
    is_interrupted: Ctrl-C ended it, and what was measured by then is here.
    """

    conditions: Conditions
    agreement: Agreement = Agreement()
    drafting: DraftingReport | None = None
    prompt: tuple[PromptRow, ...] | None = None
    chats: tuple[ChatsRow, ...] | None = None
    acceptance: AcceptanceReport | None = None
    cache: tuple[CacheRow, ...] | None = None
    memory: MemoryReport | None = None
    declined: tuple[Reason, ...] = ()
    is_interrupted: bool = False

    def as_json(self) -> str:
        """One line; keys are the field names."""
        return json.dumps(asdict(self), ensure_ascii=False)
