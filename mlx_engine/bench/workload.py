"""Nine kinds of prompt, and timed answers of an engine to them."""

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
    """A kind of prompt, and an example of it."""

    name: str
    question: str


def nine_kinds() -> list[Kind]:
    """Read prompts.toml."""
    texts = tomllib.loads((files(__package__) / "prompts.toml").read_text(encoding="utf-8"))
    return [Kind(kind["name"], kind["prompt"].strip()) for kind in texts["kind"]]


def chat_prompt(engine: Engine, question: str) -> list[int]:
    """Tokens of a chat that asks one question."""
    parts = engine.parts
    return list(tokenize_chat(parts.template, parts.tokenizer, [Message("user", question)]).tokens)


def long_prompt(engine: Engine, length: int) -> list[int]:
    """Exactly `length` tokens of running text."""
    once = engine.tokenize(FILLER)
    return (once * (length // len(once) + 1))[:length]


@dataclass(frozen=True, slots=True)
class Run:
    """One answer, or the sum of several.

    tokens: the text, without an end-of-text token, which `generated` counts. first_s, wall_s:
    seconds to the first and the last token. later, later_s, cpu_s: tokens of all rounds but the
    first, their seconds, and their processor seconds (0 where another process computes). rounds:
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
        """Sum every figure, and join tokens and rounds."""
        return Run(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Run)))

    @property
    def tokens_per_second(self) -> float | None:
        """Speed after the first round; None for an answer of one round."""
        return self.later / self.later_s if self.later and self.later_s else None


class Clock:
    """Times one answer, from when the clock is made."""

    def __init__(self) -> None:
        self._started = self._first = perf_counter()
        self._cpu = process_time()

    def first(self) -> None:
        """Mark the end of the first round."""
        self._first, self._cpu = perf_counter(), process_time()

    def run(
        self, tokens: Sequence[int], emitted: Sequence[int], rounds: Sequence[RoundStats] = ()
    ) -> Run:
        """Stop the clock; emitted: tokens of every pass."""
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


def settings_of(
    sampling: SamplingOptions, draft: DraftOptions, tokens: int, *, ignore_eos: bool = True
) -> Settings:
    """Settings of an answer of at most `tokens` tokens."""
    return Settings(sampling, draft, GenerationOptions(tokens, ignore_eos=ignore_eos))


def play(engine: Engine, prompt: Sequence[int], settings: Settings) -> Run:
    """Generate one answer and time it."""
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
    """Prepare an answer as `Engine.generate` does, with nothing of the prompt cached."""
    parts = replace(engine.parts, prompts=PromptCache(engine.parts.model, 0))
    return raw_answer(parts, settings, prompt, engine.fresh_learned())
