"""Automatic drafting against off, in turn: `python -m speed.auto_against_off` in tests/.

With helpers/ on the path. Subjects are the trained toy (--toy FOLDER) at temperatures 0 and 0.8,
two tiny random models, on which nothing pays, and the built-in model, which every fixed depth runs
too. Texts that go on past every end grow side by side: SLICE tokens of one arm, then of the next,
and round again, so that all share the weather of a tenth of a second; none comes after itself,
where it would find the processor's caches as it left them (worth up to 7 %). The built-in model
recites there, so it also answers its held-out questions, QUESTIONS a turn, each arm in turn.

All arms are of one engine, since the same arm on two of them differs by up to 5 %, but each knows
only what it has found itself; `off 2` tells what is left of the day's noise. Told are tokens a
second over those of `off`, by the clock and by processor time, without the prompt's reading; then,
by the clock, with it. The seed is another one each turn.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

import mlx.core as mx
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.built_in_model import built_in_model
from mlx_engine.decoding.answer import answer_raw_prompt
from mlx_engine.decoding.config import ModelParts
from mlx_engine.decoding.prompt import tokenize_raw_prompt
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.record import DraftRecords, PassCosts
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import PromptProgress, RoundFinished, Settings
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats

OFF = {"off": DraftOptions(source="none"), "auto": DraftOptions()}
OFF["off 2"], OFF["auto 2"] = OFF["off"], OFF["auto"]
SLICE = 100
QUESTIONS = 30
"""With their answers about as many tokens as a turn of another subject."""

FIXED = {**OFF, **{f"depth {depth}": DraftOptions(depth=depth) for depth in range(1, 7)}}
ROOM = 4096
PROMPT = "def read(path):\n    return open(path)\n\nWrite a story about a lighthouse.\n"
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def write_random(folder: Path, layers: int, seed: int) -> Path:
    """A random model with room for long answers."""
    write_tiny_qwen3_5(folder, hidden=128, layers=layers, seed=seed)
    config = folder / "config.json"
    room = config.read_text().replace(
        '"max_position_embeddings": 512', f'"max_position_embeddings": {ROOM}'
    )
    config.write_text(room)
    return folder


def held_out_questions() -> list[str]:
    """The built-in model's, in another order than that of their kinds."""
    held_out = json.loads((built_in_model() / "held_out.json").read_text(encoding="utf-8"))
    prompts = [CHAT.format(one["question"]) for one in held_out]
    Random(0).shuffle(prompts)
    return prompts


class Subject(NamedTuple):
    """What answers (None: the built-in model), and what it is asked: one text that goes on past
    every end, or questions.
    """

    name: str
    folder: Path | None
    temperature: float
    arms: Mapping[str, DraftOptions]
    questions: Sequence[str] = ()


class Slice(NamedTuple):
    """Some tokens of an answer, and what they took by the clock and of the processor."""

    tokens: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class Run:
    """An answer that grows a slice at a time, its prompt already read."""

    def __init__(
        self, parts: ModelParts, prompt: str, settings: Settings, policy: DepthPolicy
    ) -> None:
        started = perf_counter()
        self._answer = answer_raw_prompt(
            parts, settings, tokenize_raw_prompt(parts, prompt), policy
        )
        self._events = self._answer.events()
        self._tokens, self._most = 0, settings.generation.max_tokens
        for event in self._events:
            if isinstance(event, PromptProgress) and event.done == event.total - 1:
                break
        mx.synchronize()
        self.reading_seconds = perf_counter() - started

    def go_on(self, to: int) -> Slice:
        """Until there are so many tokens, or it ends. What was begun ahead is waited for, so that
        nobody else pays for it; at the end of the answer all is settled.
        """
        before, wall, cpu = self._tokens, perf_counter(), process_time()
        for event in self._events:
            if isinstance(event, RoundFinished):
                self._tokens += event.stats.emitted
                if to <= self._tokens < self._most:
                    break
        mx.synchronize()
        return Slice(self._tokens - before, perf_counter() - wall, process_time() - cpu)

    @property
    def stats(self) -> GenerationStats:
        """Of the whole answer."""
        return self._answer.tally.stats()


class Arm:
    """One way to draft: what it has found, and what its answers took.

    Other arms' answers are open at the same time, but share no passes with its own.
    """

    def __init__(self, engine: Engine, costs: PassCosts, draft: DraftOptions) -> None:
        self._parts = replace(engine.parts, batch=BatchScheduler(reader=outcome_reader()))
        self._costs, self._draft = costs, draft
        self._records: DraftRecords = {}
        self.runs: list[Run] = []
        self.slices: list[Slice] = []

    def begin(self, prompt: str, sampling: SamplingOptions, generation: GenerationOptions) -> None:
        """Another answer."""
        settings = Settings(sampling=sampling, draft=self._draft, generation=generation)
        share = self._parts.drafting.draft_model_cost
        policy = DepthPolicy(lambda: self._costs, share, self._records)
        self.runs.append(Run(self._parts, prompt, settings, policy))

    def go_on(self, to: int) -> None:
        """The latest answer, until it has so many tokens."""
        self.slices.append(self.runs[-1].go_on(to))

    def in_all(self) -> Slice:
        """Of all answers."""
        return Slice(*(sum(numbers) for numbers in zip(*self.slices, strict=True)))

    def told(self, name: str, off: "Arm") -> None:
        """Over off: of all tokens, the median of slices, by processor time, and with the prompt's
        reading; counts of all turns.
        """
        its, plain = self.in_all(), off.in_all()
        pairs = zip(off.slices, self.slices, strict=True)
        ratios = [one.rate / base.rate for base, one in pairs if one.tokens and base.tokens]
        read, plain_read = (sum(run.reading_seconds for run in arm.runs) for arm in (self, off))
        stats = [run.stats for run in self.runs]
        rounds = sum(its.passes for its in stats)
        drafts = sum(sum(its.drafted_by_depth[:1]) for its in stats)
        host_us = 1000 * sum(its.host_ms + its.accept_ms for its in stats) / rounds
        print(
            f"{name:<8} {its.rate:7.1f} {its.rate / plain.rate:6.3f} {median(ratios):6.3f}"
            f" {its.tokens / its.cpu_seconds * plain.cpu_seconds / plain.tokens:6.3f}"
            f" {(plain.seconds + plain_read) / (its.seconds + read):6.3f}"
            f" {rounds:7} {drafts:6} {its.tokens / rounds:6.2f} {host_us:7.0f}",
            flush=True,
        )


def compare(subject: Subject, turns: int, tokens: int) -> None:
    """All arms in turn, one line each."""
    engine = mlx_engine.load(subject.folder)
    engine.generate(PROMPT, 40, ignore_eos=True)  # heads are measured once they are in use
    while (costs := engine.measure_costs(lambda: False)) is None:
        pass
    arms = {name: Arm(engine, costs, draft) for name, draft in subject.arms.items()}
    asked = subject.questions
    generation = GenerationOptions(tokens, ignore_eos=not asked)
    for turn in range(turns * (QUESTIONS if asked else 1)):
        sampling = SamplingOptions(subject.temperature, seed=turn)
        for arm in arms.values():
            arm.begin(asked[turn % len(asked)] if asked else PROMPT, sampling, generation)
        for end in [tokens] if asked else range(SLICE, tokens + 1, SLICE):
            for arm in arms.values():
                arm.go_on(end)
    in_all = arms["off"].in_all().tokens
    print(f"\n{subject.name}: {in_all} tokens, temperature {subject.temperature:g}")
    print(
        f"{'':<8} {'tok/s':>7} {'/off':>6} {'median':>6} {'CPU':>6} {'whole':>6}"
        "  rounds drafts  a pass us host"
    )
    for name, arm in arms.items():
        arm.told(name, arms["off"])


def main() -> None:
    """Every subject after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", type=Path, help="a folder with a small trained model")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--only", default="", help="subjects with this in their name")
    asked = parser.parse_args()
    with TemporaryDirectory() as kept:
        subjects = [Subject("toy", asked.toy, t, OFF) for t in (0.0, 0.8)] if asked.toy else []
        for number, layers in ((2, 8), (1, 4)):
            folder = write_random(Path(kept) / str(number), layers, number - 1)
            subjects.append(Subject(f"random model {number}", folder, 0.8, OFF))
        subjects.append(Subject("pocket model", None, 0.0, FIXED))
        subjects.append(Subject("pocket model, asked", None, 0.0, FIXED, held_out_questions()))
        for subject in subjects:
            if asked.only in subject.name:
                compare(subject, asked.turns, asked.tokens)


if __name__ == "__main__":
    main()
