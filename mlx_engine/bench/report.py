"""The plan of a bench and its figures, from the runs of each arm; the report as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from itertools import chain, zip_longest
from operator import add
from pathlib import Path
from statistics import median
from typing import Literal, get_args

from mlx_engine.values.errors import BadOption, Reason
from mlx_engine.values.options import SOURCES, DraftOptions, DraftSourceName, SamplingOptions
from mlx_engine.values.stats import RoundStats, count_by_depth

Part = Literal["drafting", "chats"]
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
class BenchPlan:
    """What a bench measures.

    arms: draft settings (see parse_arm) and PEERS; "off" always takes part. llama_server: path of
    llama.cpp's program, without which llama.cpp is left out. kinds: how many of the nine kinds of
    prompt. contexts: lengths of long prompts, in tokens, that are asked instead. tokens: longest
    answer, with ignore_eos every answer's length. repeats: answers of every arm to every prompt.
    chat_tokens: longest answer of each of several chats.
    """

    parts: tuple[Part, ...] = PARTS
    arms: tuple[str, ...] = ARMS
    llama_server: Path | None = None
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(0.0, seed=1))
    is_quick: bool = False
    kinds: int = 9
    contexts: tuple[int, ...] = ()
    tokens: int = 192
    ignore_eos: bool = False
    repeats: int = 2
    chat_tokens: int = 96


def quick_plan() -> BenchPlan:
    """Make a bench plan of about an eighth of the default plan's work."""
    return BenchPlan(is_quick=True, tokens=48, repeats=1, chat_tokens=32)


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """Figures of one answer, or the sums over several.

    tokens: the text without an end-of-text token, which `generated` counts. first_s, wall_s:
    seconds to the first and the last token. later: tokens after the first pass; later_s, cpu_s: the
    seconds and processor seconds for these (cpu_s 0 where another process computes). rounds: empty
    for other programs. equal: length of the prefix shared with the text without drafting, which has
    `reference` tokens.
    """

    prompt_tokens: int
    tokens: tuple[int, ...]
    generated: int
    drafted: int
    accepted: int
    passes: int
    first_s: float
    wall_s: float
    later: int
    later_s: float
    cpu_s: float = 0.0
    rounds: tuple[RoundStats, ...] = ()
    equal: int = 0
    reference: int = 0

    def __add__(self, other: "AnswerFigures") -> "AnswerFigures":
        """Sum every figure of two answers, and join their tokens and rounds."""
        return AnswerFigures(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(AnswerFigures))
        )

    @property
    def is_same(self) -> bool:
        """Whether the text is that of drafting off."""
        return self.equal == self.reference == len(self.tokens)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first pass; None for an answer of one pass."""
        return self.later / self.later_s if self.later and self.later_s else None


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """Figures of one arm on one kind of prompt or on all: counts of the last repeat, median speeds.

    equal_tokens: length of the prefix shared with drafting off, whose text has reference_tokens.
    is_same: whether both texts are equal in every repeat. accepted_by_depth[d-1]: share of d-th
    drafts that were accepted. depths: rounds by the number of drafted tokens. why: the most
    frequent reason for drafting less than asked.

    Speeds are None where unknown, and for draft settings that changed the text. tokens_per_second:
    after the first pass. ratio: to drafting off in the same turn. prompt_tokens_per_second: until
    the first token. wall_s: the whole answer, prompt included. cpu_ms: processor time of this
    process per token, all threads, which other programs disturb less than the clock.
    """

    arm: str
    is_peer: bool
    is_same: bool
    equal_tokens: int
    reference_tokens: int
    tokens: int
    passes: int
    drafted: int
    accepted: int
    accepted_by_depth: tuple[float, ...]
    depths: dict[int, int]
    why: Reason | None
    tokens_per_second: float | None = None
    ratio: float | None = None
    prompt_tokens_per_second: float | None = None
    wall_s: float | None = None
    cpu_ms: float | None = None


Runs = Mapping[str, Sequence[AnswerFigures]]
"""Runs of each arm in the order of turns; the first arm is drafting off."""


def figures_by_arm(runs: Runs, peers: Iterable[str] = ()) -> tuple[ArmFigures, ...]:
    """Compute the figures of every arm from its runs; peers: names of other programs."""
    off, peers = next(iter(runs.values())), set(peers)
    return tuple(_arm_figures(arm, own, off, is_peer=arm in peers) for arm, own in runs.items())


def sum_over_kinds(kinds: Sequence[Runs]) -> Runs:
    """Sum runs over kinds of prompt, turn by turn, for the arms that have answered all of them."""
    arms = [arm for arm in kinds[0] if all(arm in runs for runs in kinds)] if kinds else []
    return {
        arm: [reduce(add, turn) for turn in zip(*(runs[arm] for runs in kinds), strict=True)]
        for arm in arms
    }


def _arm_figures(
    arm: str, runs: Sequence[AnswerFigures], plain_runs: Sequence[AnswerFigures], *, is_peer: bool
) -> ArmFigures:
    last, is_same = runs[-1], all(run.is_same for run in runs)
    whys = Counter(stats.why for stats in last.rounds if stats.why is not None)
    drafted = count_by_depth(stats.drafted for stats in last.rounds)
    accepted = count_by_depth(stats.accepted for stats in last.rounds)
    row = ArmFigures(
        arm=arm,
        is_peer=is_peer,
        is_same=is_same,
        equal_tokens=min(run.equal for run in runs),
        reference_tokens=last.reference,
        tokens=last.generated,
        passes=last.passes,
        drafted=last.drafted,
        accepted=last.accepted,
        accepted_by_depth=tuple(a / d for a, d in zip_longest(accepted, drafted, fillvalue=0)),
        depths=dict(sorted(Counter(stats.drafted for stats in last.rounds).items())),
        why=next((why for why, _ in whys.most_common(1)), None),
    )
    if not is_same and not is_peer:
        return row
    speeds = [run.tokens_per_second for run in runs]
    pairs = zip(speeds, (run.tokens_per_second for run in plain_runs), strict=True)
    return replace(
        row,
        tokens_per_second=_median_or_none(speeds),
        ratio=_median_or_none(speed / beside for speed, beside in pairs if speed and beside),
        prompt_tokens_per_second=_median_or_none(run.prompt_tokens / run.first_s for run in runs),
        wall_s=_median_or_none(run.wall_s for run in runs),
        cpu_ms=_median_or_none(
            1000 * run.cpu_s / run.later for run in runs if run.later and run.cpu_s
        ),
    )


def _median_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


@dataclass(frozen=True, slots=True)
class KindRows:
    """Figures of all draft settings and programs on one prompt of a bench.

    memory_bytes: what the model and a chat of this prompt and an answer need, by the memory plan.
    """

    kind: str
    prompt_tokens: int
    rows: tuple[ArmFigures, ...]
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DraftingReport:
    """Figures of a bench's drafting part, by kind of prompt; and what passes cost.

    total: sums over the kinds. verify_ms[r-1]: milliseconds of a pass of r rows. head_ms: of a pass
    of the MTP head.
    """

    kinds: tuple[KindRows, ...]
    total: tuple[ArmFigures, ...]
    verify_ms: tuple[float, ...]
    head_ms: float


@dataclass(frozen=True, slots=True)
class ChatsRow:
    """Speed of several chats with one draft setting, answered one by one and at once.

    alone, at_once: tokens per second of all chats. ratio: at_once / alone in the same
    turn. alone_passes, passes: passes of the weights per token. is_same: the texts do not differ.
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
class BenchReport:
    """All figures of a bench; parts that were not asked for or not possible (declined) are None.

    machine: device, system and processors. is_interrupted: Ctrl-C ended the run; the report holds
    the kinds of prompt and the parts that were complete by then.
    """

    model: str
    quantisation: str
    numerics: str
    machine: str
    mlx: str
    headstart: str
    date: str
    plan: BenchPlan
    drafting: DraftingReport | None = None
    chats: tuple[ChatsRow, ...] | None = None
    declined: tuple[Reason, ...] = ()
    is_interrupted: bool = False

    @property
    def text_difference(self) -> str | None:
        """Where a drafted text first differs from the plain one, in words; None for nowhere."""
        drafted = (
            f"{kind.kind}, {row.arm}: token {row.equal_tokens} differs"
            for kind in (self.drafting.kinds if self.drafting else ())
            for row in kind.rows
            if not row.is_same and not row.is_peer
        )
        chats = (f"{row.arm}: chats at once" for row in self.chats or () if not row.is_same)
        return next(chain(drafted, chats), None)

    def as_json(self) -> str:
        """Return the bench report as one line of JSON; keys are the field names."""
        return json.dumps(asdict(self), ensure_ascii=False, default=str)
