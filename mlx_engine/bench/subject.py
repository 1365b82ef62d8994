"""What is measured: nine kinds of prompt, and answers of an engine round by round, with clocks."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.opening import Settings
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.raw_generation import raw_answer
from mlx_engine.engine import Engine
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import RoundStats

FILLER = (
    "def read_lines(path):\n    with open(path, encoding='utf-8') as file:\n"
    "        return [line.rstrip() for line in file]\n\n"
    "The function opens the file, reads it line by line and drops what stands at the ends.\n\n"
)
SEED = 1
GREEDY = SamplingOptions(temperature=0, seed=SEED)
PLAIN = DraftOptions(source="none")


class Kind(NamedTuple):
    """A kind of prompt, and what the model is asked."""

    name: str
    question: str


def nine_kinds() -> list[Kind]:
    """As they stand in prompts.toml."""
    texts = tomllib.loads((files(__package__) / "prompts.toml").read_text(encoding="utf-8"))
    return [Kind(kind["name"], kind["prompt"].strip()) for kind in texts["kind"]]


def chat_prompt(engine: Engine, question: str) -> list[int]:
    """The question as the model is asked it."""
    parts = engine.parts
    return list(tokenize_chat(parts.template, parts.tokenizer, [Message("user", question)]).tokens)


def long_prompt(engine: Engine, length: int) -> list[int]:
    """Exactly `length` tokens of running text."""
    once = engine.tokenize(FILLER)
    return (once * (length // len(once) + 1))[:length]


def pinned(depth: int) -> DraftOptions:
    """Drafting at one depth; 0 is plain decoding."""
    return DraftOptions(depth=depth) if depth else PLAIN


@dataclass(frozen=True, slots=True)
class Run:
    """One answer, or several in a row.

    tokens: without the one that ended it, which `generated` counts. first_s: seconds to the first
    token, wall_s: to the last. later, later_s, cpu_s: tokens of all rounds but the first, the
    seconds and the processor seconds they took (0 where another process computes). rounds: ours.
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
        """One after the other."""
        return Run(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Run)))

    @property
    def tokens_per_second(self) -> float | None:
        """Behind the first round; None where nothing was."""
        return self.later / self.later_s if self.later and self.later_s else None


class Clock:
    """Of one answer: it starts when made, and is told when the first round is over."""

    def __init__(self) -> None:
        self._started = self._first = perf_counter()
        self._cpu = process_time()

    def first(self) -> None:
        """The first round is over."""
        self._first, self._cpu = perf_counter(), process_time()

    def run(
        self, tokens: Sequence[int], emitted: Sequence[int], rounds: Sequence[RoundStats] = ()
    ) -> Run:
        """The answer is over; emitted: tokens of every pass."""
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


def asked(
    sampling: SamplingOptions, draft: DraftOptions, tokens: int, *, ignore_eos: bool = True
) -> Settings:
    """Of an answer of at most `tokens` tokens."""
    return Settings(sampling, draft, GenerationOptions(tokens, ignore_eos=ignore_eos))


def play(engine: Engine, prompt: Sequence[int], settings: Settings) -> Run:
    """One answer of ours."""
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
    """One that has not begun, as of `Engine.generate`, which reads all of its prompt."""
    parts = replace(engine.parts, prompts=PromptCache(engine.parts.model, 0))
    return raw_answer(parts, settings, prompt, engine.fresh_learned())
