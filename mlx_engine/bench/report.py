"""The plan of a bench and the report of its figures, as frozen values; the report as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

from mlx_engine.values.errors import BadOption, Reason
from mlx_engine.values.options import SOURCES, DraftOptions, DraftSourceName, SamplingOptions

Part = Literal["drafting", "prompt", "chats", "cache", "memory"]
PARTS: tuple[Part, ...] = get_args(Part)
OFF, MLX_LM, LLAMA = "off", "mlx-lm", "llama.cpp"
PEERS = (MLX_LM, LLAMA)
ARMS = (OFF, "1", "2", "3", "2@0.85", "auto", "prompt-lookup", *PEERS)


def parse_arm(arm: str, source: DraftSourceName = "mtp") -> DraftOptions:
    """Parse a draft setting: "off", "auto", a source, a depth, or "2@0.85" with min_probability.

    source: the source of settings that name none. Raises BadOption.
    """
    if arm in ("auto", OFF):
        return DraftOptions(source if arm == "auto" else "none")
    if arm in SOURCES:
        return DraftOptions(SOURCES[arm])
    depth, _, probability = arm.partition("@")
    try:
        return DraftOptions(source, int(depth), float(probability or 0))
    except ValueError:
        known = ", ".join(ARMS)
        raise BadOption(f"{arm!r} is not an arm: use {known}, or the like of 4@0.5.") from None


def arm_words(arm: str) -> str:
    """Name a draft setting as the bench's tables do: "depth 2, p 0.85"."""
    return f"depth {arm.replace('@', ', p ')}" if arm[0].isdecimal() else arm


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bench measures; lengths in tokens, cut to what the context holds.

    arms: draft settings (see parse_arm) and PEERS; "off" always takes part. llama_server: path of
    llama.cpp's program, without which llama.cpp is left out. kinds: how many of the nine kinds of
    prompt. tokens: longest answer, with ignore_eos every answer's length. repeats: answers of every
    arm to every prompt. short_prompts, short_tokens: number of the shortest prompts and length of
    answers where all logits are kept, and for several chats.
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
    short_prompts: int = 6
    short_tokens: int = 96
    memory_prompt: int = 8192
    memory_tokens: int = 2048


def quick_plan() -> Plan:
    """Make a bench plan of about an eighth of the default plan's work."""
    return Plan(
        is_quick=True,
        tokens=48,
        repeats=1,
        prompt=256,
        short_prompts=3,
        short_tokens=32,
        memory_prompt=1024,
        memory_tokens=256,
    )


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of one bench arm, medians over the repeats; None where unknown.

    tokens_per_second: after the first round. ratio: to drafting off in the same turn. wall_s: the
    whole answer, prompt included. cpu_ms: processor time of this process per token, all threads,
    which other programs disturb less than the clock. draft_ms, verify_ms, host_ms: per pass.
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
    """Figures of one arm on one kind of prompt or on all; all but the speed are of the last repeat.

    equal_tokens: length of the prefix shared with drafting off, whose text has reference_tokens.
    is_same: whether both texts are equal. rate: accepted / drafted. *_by_depth: see
    GenerationStats. depths: rounds by the number of drafted tokens. why: the most frequent reason
    for drafting less than asked. speed: None for draft settings that changed the text.
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
    """Figures of all draft settings and programs on one prompt of a bench."""

    kind: str
    prompt_tokens: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class DraftingReport:
    """Figures of a bench's drafting part, by kind of prompt; and what passes cost.

    total: sums over the kinds that every arm has answered. verify_ms[r-1]: milliseconds of a pass
    of r rows. head_ms: of a pass of the MTP head.
    """

    kinds: tuple[KindRows, ...]
    total: tuple[Row, ...]
    verify_ms: tuple[float, ...]
    head_ms: float


@dataclass(frozen=True, slots=True)
class PromptRow:
    """Speed at which one setting or program reads a prompt, median tokens per second.

    Prompt tokens over the time to the first token. ratio: to the speed without heads, median over
    the repeats.
    """

    arm: str
    tokens: int
    tokens_per_second: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether drafted texts equal plain ones; difference: where they first differ, in words."""

    texts: int = 0
    tokens: int = 0
    difference: str | None = None

    @property
    def is_green(self) -> bool:
        """Whether no drafted text differed from the plain one."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class ChatsRow:
    """Speed of several chats with one draft setting, answered one by one and at once.

    alone, at_once: tokens per second of all chats. ratio: at_once / alone in the same turn.
    alone_passes, passes: passes of the weights per token. is_same: the texts do not differ.
    """

    arm: str
    chats: int
    alone: float
    at_once: float
    ratio: float
    alone_passes: float
    passes: float
    is_same: bool


@dataclass(frozen=True, slots=True)
class CacheRow:
    """Keys and values of model and heads in fewer bits, against 16 bits along the same text.

    difference: largest difference in a row of logits, mean over rows. divergence: KL divergence of
    the next token in nats. likeliest: share of rows with the same likeliest token. accepted: share
    of drafted tokens, None without heads. is_same: whether drafting leaves the text as it is.
    """

    bits: int
    bytes_per_token: int
    difference: float
    divergence: float
    likeliest: float
    accepted: float | None
    is_same: bool


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory and round times of one long answer with drafting.

    peak_bytes: of the whole process. conversation_bytes: caches and states at the end.
    first_round_ms, last_round_ms: medians of the first and of the last tenth of the rounds.
    """

    prompt_tokens: int
    generated_tokens: int
    peak_bytes: int
    conversation_bytes: int
    first_round_ms: float
    last_round_ms: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """Model, machine (device, system, processors), versions and settings of a bench."""

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
    """All figures of a bench; parts that were not asked for or not possible (declined) are None.

    Once a drafted text differs from the plain one, the later parts are None.
    is_interrupted: Ctrl-C ended the run; the report holds the figures so far.
    """

    conditions: Conditions
    agreement: Agreement = Agreement()
    drafting: DraftingReport | None = None
    prompt: tuple[PromptRow, ...] | None = None
    chats: tuple[ChatsRow, ...] | None = None
    cache: tuple[CacheRow, ...] | None = None
    memory: MemoryReport | None = None
    declined: tuple[Reason, ...] = ()
    is_interrupted: bool = False

    def as_json(self) -> str:
        """Return the bench report as one line of JSON; keys are the field names."""
        return json.dumps(asdict(self), ensure_ascii=False)
