"""Automatic drafting against off, in turn: `python -m speed.auto_against_off` in tests/.

With helpers/ on the path. Subjects are the trained toy (--toy FOLDER) at temperatures 0 and 0.8,
two tiny random models, on which nothing pays, and the built-in model, which every fixed depth runs
too. Answers to one seed grow side by side: SLICE tokens of one arm, then of the next, and round
again, so that all share the weather of a tenth of a second; none comes after itself, where it would
find the processor's caches as it left them (worth up to 7 %). Of as many engines as there are arms
each arm has another one every turn, since the same arm on two of them differs by up to 5 %.
`off 2` tells what is left of that. Told are tokens a second over those of `off`, by the clock and
by processor time; the seed is another one each turn.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

import mlx.core as mx
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.decoding.opening import Settings
from mlx_engine.decoding.raw_generation import raw_answer, raw_prompt
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats

OFF = {"off": DraftOptions(source="none"), "auto": DraftOptions()}
OFF["off 2"], OFF["auto 2"] = OFF["off"], OFF["auto"]
SLICE = 100
FIXED = {**OFF, **{f"depth {depth}": DraftOptions(depth=depth) for depth in range(1, 7)}}
ROOM = 4096
PROMPT = "def read(path):\n    return open(path)\n\nWrite a story about a lighthouse.\n"


def write_random(folder: Path, layers: int, seed: int) -> Path:
    """A random model with room for long answers."""
    write_tiny_qwen3_5(folder, hidden=128, layers=layers, seed=seed)
    config = folder / "config.json"
    room = config.read_text().replace(
        '"max_position_embeddings": 512', f'"max_position_embeddings": {ROOM}'
    )
    config.write_text(room)
    return folder


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
    """An answer that grows a slice at a time, past every end of text; the first reads the prompt
    too.
    """

    def __init__(self, engine: Engine, tokens: int, sampling: SamplingOptions, draft: DraftOptions):
        settings = Settings(
            sampling=sampling,
            draft=draft,
            generation=GenerationOptions(tokens, ignore_eos=True),
        )
        prompt = raw_prompt(engine.parts, PROMPT)
        self._answer = raw_answer(engine.parts, settings, prompt, engine.fresh_learned())
        self._events = self._answer.events()
        self._tokens, self._most = 0, tokens

    def go_on(self, to: int) -> Slice:
        """Until there are so many tokens. What was begun ahead is waited for, so that nobody else
        pays for it; at the end of the answer all is settled.
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


def compare(
    name: str,
    folder: Path | None,
    temperature: float,
    arms: Mapping[str, DraftOptions],
    asked: argparse.Namespace,
) -> None:
    """All arms on one model, in turn; one line each."""
    engines = [mlx_engine.load(folder) for _ in arms]
    for engine in engines:
        while engine.measure_costs(lambda: False) is None:
            pass
        for draft in arms.values():
            engine.generate(PROMPT, 40, SamplingOptions(temperature), draft, ignore_eos=True)
    slices: dict[str, list[Slice]] = {arm: [] for arm in arms}
    stats: dict[str, list[GenerationStats]] = {arm: [] for arm in arms}
    for turn in range(asked.turns):
        sampling = SamplingOptions(temperature, seed=turn)
        first = turn % len(arms)
        at_hand = zip(arms, engines[first:] + engines[:first], strict=True)
        runs = {arm: Run(engine, asked.tokens, sampling, arms[arm]) for arm, engine in at_hand}
        for end in range(SLICE, asked.tokens + 1, SLICE):
            for arm in arms:
                slices[arm].append(runs[arm].go_on(end))
        for arm, run in runs.items():
            stats[arm].append(run.stats)
    print(f"\n{name}: {asked.turns} x {asked.tokens} tokens, temperature {temperature:g}")
    print(
        f"{'':<8} {'tok/s':>7} {'/off':>6} {'median':>6} {'CPU':>6}  rounds drafts  a pass us host"
    )
    for arm, found in slices.items():
        told(arm, found, slices["off"], stats[arm])


def told(
    arm: str, slices: Sequence[Slice], off: Sequence[Slice], stats: Sequence[GenerationStats]
) -> None:
    """Over off: of all tokens, the median of slices, and by processor time; counts of all turns."""
    its, plain = _all_of(slices), _all_of(off)
    ratios = [one.rate / base.rate for base, one in zip(off, slices, strict=True) if one.tokens]
    rounds = sum(its.passes for its in stats)
    drafts = sum(sum(its.drafted_by_depth[:1]) for its in stats)
    host_us = 1000 * sum(its.host_ms + its.accept_ms for its in stats) / rounds
    print(
        f"{arm:<8} {its.rate:7.1f} {its.rate / plain.rate:6.3f} {median(ratios):6.3f}"
        f" {its.tokens / its.cpu_seconds * plain.cpu_seconds / plain.tokens:6.3f}"
        f" {rounds:7} {drafts:6} {its.tokens / rounds:6.2f} {host_us:7.0f}",
        flush=True,
    )


def _all_of(slices: Sequence[Slice]) -> Slice:
    return Slice(*(sum(numbers) for numbers in zip(*slices, strict=True)))


def main() -> None:
    """Every subject after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", type=Path, help="a folder with a small trained model")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--only", default="", help="subjects with this in their name")
    asked = parser.parse_args()
    with TemporaryDirectory() as kept:
        subjects = [("pocket model", None, 0.0, FIXED)]
        for number, layers in enumerate((4, 8)):
            folder = write_random(Path(kept) / str(number), layers, number)
            subjects.insert(0, (f"random model {number + 1}", folder, 0.8, OFF))
        if asked.toy:
            subjects = [("toy", asked.toy, t, OFF) for t in (0.0, 0.8)] + subjects
        for name, folder, temperature, arms in subjects:
            if asked.only in name:
                compare(name, folder, temperature, arms, asked)


if __name__ == "__main__":
    main()
