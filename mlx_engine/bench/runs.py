"""Prompts of a bench, timed answers to them, and the figures of these answers."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from importlib.resources import files
from operator import add
from statistics import fmean, median
from time import perf_counter, process_time
from typing import NamedTuple, TypeVar

from mlx_engine.bench.report import OFF, Agreement, KindRows, PromptRow, Row, Speed
from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.config import Settings
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.raw_generation import raw_answer
from mlx_engine.decoding.state import shared_prefix
from mlx_engine.engine import Engine
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import RoundStats, count_by_depth

FILLER = (
    "def read_lines(path):\n    with open(path, encoding='utf-8') as file:\n"
    "        return [line.rstrip() for line in file]\n\n"
    "The function opens the file, reads it line by line and drops what stands at the ends.\n\n"
)
SEED = 1
GREEDY = SamplingOptions(temperature=0, seed=SEED)
PLAIN = DraftOptions(source="none")


class Kind(NamedTuple):
    """A kind of bench prompt: its name, and an example question to ask."""

    name: str
    question: str


def nine_kinds() -> list[Kind]:
    """Read the bench's nine kinds of prompt from prompts.toml."""
    texts = tomllib.loads((files(__package__) / "prompts.toml").read_text(encoding="utf-8"))
    return [Kind(kind["name"], kind["prompt"].strip()) for kind in texts["kind"]]


def chat_prompt(engine: Engine, question: str) -> list[int]:
    """Tokenize a chat that asks one question."""
    parts = engine.parts
    return list(tokenize_chat(parts.template, parts.tokenizer, [Message("user", question)]).tokens)


def long_prompt(engine: Engine, length: int) -> list[int]:
    """Make a bench prompt of exactly `length` tokens from filler text."""
    once = engine.tokenize(FILLER)
    return (once * (length // len(once) + 1))[:length]


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one answer, or the sum of several.

    tokens: the text without an end-of-text token, which `generated` counts. first_s, wall_s:
    seconds to the first and the last token. later: tokens after the first round; later_s, cpu_s:
    the seconds and processor seconds for these (cpu_s 0 where another process computes). rounds:
    empty for other programs.
    """

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

    def __add__(self, other: "Run") -> "Run":
        """Sum every figure of two answers, and join their tokens and rounds."""
        return Run(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Run)))

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first round; None for an answer of one round."""
        return self.later / self.later_s if self.later and self.later_s else None


class Clock:
    """Stopwatch of one bench answer; starts when it is made."""

    def __init__(self) -> None:
        self._started = self._first = perf_counter()
        self._cpu = process_time()

    def first(self) -> None:
        """Note that the answer's first round ends now."""
        self._first, self._cpu = perf_counter(), process_time()

    def run(
        self, tokens: Sequence[int], emitted: Sequence[int], rounds: Sequence[RoundStats] = ()
    ) -> Run:
        """Stop the clock and return the answer's figures; emitted: tokens of every pass."""
        now, cpu_s = perf_counter(), process_time() - self._cpu
        return Run(
            tokens=tuple(tokens),
            generated=sum(emitted),
            drafted=sum(r.drafted for r in rounds),
            accepted=sum(r.accepted for r in rounds),
            passes=len(emitted),
            first_s=self._first - self._started,
            wall_s=now - self._started,
            later=sum(emitted[1:]),
            later_s=now - self._first,
            cpu_s=cpu_s,
            rounds=tuple(rounds),
        )


def answer_settings(
    sampling: SamplingOptions, draft: DraftOptions, tokens: int, *, ignore_eos: bool = True
) -> Settings:
    """Make chat settings for a bench answer of at most `tokens` tokens."""
    return Settings(sampling, draft, GenerationOptions(tokens, ignore_eos=ignore_eos))


def timed_answer(engine: Engine, prompt: Sequence[int], settings: Settings) -> Run:
    """Generate one answer of the engine to a prompt and return its figures."""
    clock = Clock()
    answer = open_answer(engine, prompt, settings)
    rounds: list[RoundStats] = []
    for event in answer.events():
        if isinstance(event, RoundFinished):
            if not rounds:
                clock.first()
            rounds.append(event.stats)
    return clock.run(answer.tokens, [r.emitted for r in rounds], rounds)


def open_answer(engine: Engine, prompt: Sequence[int], settings: Settings) -> Answer:
    """Prepare the engine's answer to a prompt as `Engine.generate` does, with no cached prompt."""
    parts = replace(engine.parts, prompts=PromptCache(engine.parts.model, 0))
    return raw_answer(parts, settings, prompt, engine.new_depth_policy())


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a bench to one prompt.

    runs: answers by arm, in the order of turns. reference: the text with drafting off. peers: names
    of arms that are other programs.
    """

    kind: str
    prompt_tokens: int
    reference: tuple[int, ...]
    peers: frozenset[str]
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def rows(self) -> KindRows:
        """Return figures of each draft setting or program that has answered this prompt."""
        off = self.runs.get(OFF, [])
        rows = [
            _row(arm, runs, off, self.reference, is_peer=arm in self.peers)
            for arm, runs in self.runs.items()
            if runs
        ]
        return KindRows(self.kind, self.prompt_tokens, tuple(rows))

    def prompt_rows(self) -> tuple[PromptRow, ...]:
        """Return each arm's speed of reading the prompt; ratios are to the first arm."""
        first = next(iter(self.runs.values()))
        return tuple(
            PromptRow(
                arm,
                self.prompt_tokens,
                median(self.prompt_tokens / run.first_s for run in runs),
                median(a.first_s / b.first_s for a, b in zip(first, runs, strict=False)),
            )
            for arm, runs in self.runs.items()
        )


def total_rows(answers: Sequence[Answers]) -> tuple[Row, ...]:
    """Sum each arm's figures over the prompts that every arm has answered in every turn."""
    arms = list(answers[0].runs) if answers else []
    turns = max((len(each.runs[OFF]) for each in answers), default=0)
    done = [a for a in answers if all(len(a.runs.get(arm, ())) == turns for arm in arms)]
    if not done:
        return ()
    runs = {
        arm: [reduce(add, (each.runs[arm][turn] for each in done)) for turn in range(turns)]
        for arm in arms
    }
    reference = reduce(add, (each.reference for each in done))
    equal = Counter[str]()
    for each in done:
        equal.update({row.arm: row.equal_tokens for row in each.rows().rows})
    rows = Answers("", 0, reference, done[0].peers, runs).rows().rows
    return tuple(replace(row, equal_tokens=equal[row.arm]) for row in rows)


def agreement(kinds: Iterable[KindRows]) -> Agreement:
    """Compare the bench's drafted texts with the plain ones; tell where they first differ."""
    texts = tokens = 0
    for kind in kinds:
        for row in kind.rows:
            if row.is_peer or row.arm == OFF:
                continue
            texts += 1
            tokens += row.tokens
            if not row.is_same:
                where = f"{kind.kind}, {row.arm}: token {row.equal_tokens} differs"
                return Agreement(texts, tokens, where)
    return Agreement(texts, tokens)


def in_turns(arms: MutableSequence[T], repeats: int, *, is_backwards: bool = False) -> Iterator[T]:
    """Yield a bench's arms in the order A B C C B A; one removed from `arms` has no later turns."""
    for _ in range(repeats):
        yield from arms[:: -1 if is_backwards else 1]
        is_backwards = not is_backwards


def shares(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float, ...]:
    """Return accepted[d] / drafted[d] for every draft depth d; `accepted` may be shorter."""
    padded = [*accepted, *([0] * (len(drafted) - len(accepted)))]
    return tuple(a / d for a, d in zip(padded, drafted, strict=True))


def _row(
    arm: str, runs: Sequence[Run], off: Sequence[Run], reference: Sequence[int], *, is_peer: bool
) -> Row:
    last = runs[-1]
    is_same = all(run.tokens == tuple(reference) for run in runs)
    whys = Counter(r.why for r in last.rounds if r.why is not None)
    return Row(
        arm=arm,
        is_peer=is_peer,
        is_same=is_same,
        equal_tokens=min(shared_prefix(run.tokens, reference) for run in runs),
        reference_tokens=len(reference),
        tokens=last.generated,
        drafted=last.drafted,
        accepted=last.accepted,
        rate=last.accepted / last.drafted if last.drafted else None,
        passes=last.passes,
        tokens_per_pass=last.generated / last.passes,
        drafted_by_depth=count_by_depth(r.drafted for r in last.rounds),
        accepted_by_depth=count_by_depth(r.accepted for r in last.rounds),
        depths=dict(sorted(Counter(r.drafted for r in last.rounds).items())),
        why=whys.most_common(1)[0][0] if whys else None,
        speed=_speed(runs, off) if is_same or is_peer else None,
    )


def _speed(runs: Sequence[Run], off: Sequence[Run]) -> Speed:
    rounds = [r for run in runs for r in run.rounds]
    pairs = [
        (run.tokens_per_second, plain.tokens_per_second)
        for run, plain in zip(runs, off, strict=False)
    ]
    return Speed(
        tokens_per_second=_median(run.tokens_per_second for run in runs),
        ratio=_median(a / b for a, b in pairs if a and b),
        wall_s=median(run.wall_s for run in runs),
        cpu_ms=_median(1000 * run.cpu_s / run.later for run in runs if run.later and run.cpu_s),
        draft_ms=_mean(r.draft_ms for r in rounds),
        verify_ms=_mean(r.verify_ms for r in rounds),
        host_ms=_mean(r.accept_ms + r.host_ms for r in rounds),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _mean(values: Iterable[float]) -> float | None:
    return fmean(known) if (known := list(values)) else None
