"""Automatic drafting against off, in turn: `python -m speed.auto_against_off` in tests/.

With helpers/ on the path. Subjects are the trained toy (--toy FOLDER) at temperatures 0 and 0.8,
two tiny random models, on which nothing pays, and the built-in model, which every fixed depth runs
too. Arms take turns, forwards and backwards (A B B A), so that all share the weather; a ratio is
that of two answers of the same turn, and the median of all turns is told, by the clock and by
processor time. The seed is another one each turn.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.bench.rows import in_turn
from mlx_engine.engine import Engine
from mlx_engine.values.options import DraftOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats

OFF = {"off": DraftOptions(source="none"), "auto": DraftOptions()}
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


class Run(NamedTuple):
    """Tokens a second by the clock and by processor time, the prompt included."""

    wall: float
    cpu: float
    stats: GenerationStats


def answer(engine: Engine, tokens: int, temperature: float, draft: DraftOptions, seed: int) -> Run:
    """So many tokens, past every end of text."""
    sampling = SamplingOptions(temperature=temperature, seed=seed)
    wall, cpu = perf_counter(), process_time()
    made = engine.generate(PROMPT, tokens, sampling, draft, ignore_eos=True)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    return Run(tokens / wall, tokens / cpu, made.stats)


def compare(
    name: str,
    folder: Path | None,
    temperature: float,
    arms: Mapping[str, DraftOptions],
    asked: argparse.Namespace,
) -> None:
    """All arms on one model, in turn; one line each."""
    engine = mlx_engine.load(folder)
    while engine.measure_costs(lambda: False) is None:
        pass
    for draft in arms.values():
        answer(engine, 40, temperature, draft, seed=0)
    runs: dict[str, list[Run]] = {arm: [] for arm in arms}
    for arm in in_turn(list(arms), asked.turns):
        seed = len(runs[arm])
        runs[arm].append(answer(engine, asked.tokens, temperature, arms[arm], seed))
    print(f"\n{name}: {asked.turns} x {asked.tokens} tokens, temperature {temperature:g}")
    print(
        f"{'':<8} {'tok/s':>7} {'/off':>6} {'CPU':>6} {'worst':>6}  rounds drafts  a pass us host"
    )
    for arm, found in runs.items():
        told(arm, found, runs["off"])


def told(arm: str, runs: Sequence[Run], off: Sequence[Run]) -> None:
    """Medians, over off in the same turn; counts of all turns."""
    walls = [run.wall / plain.wall for run, plain in zip(runs, off, strict=True)]
    cpus = [run.cpu / plain.cpu for run, plain in zip(runs, off, strict=True)]
    stats = [run.stats for run in runs]
    rounds = sum(its.passes for its in stats)
    drafts = sum(sum(its.drafted_by_depth[:1]) for its in stats)
    tokens = sum(its.generated_tokens for its in stats)
    host_us = 1000 * sum(its.host_ms + its.accept_ms for its in stats) / rounds
    print(
        f"{arm:<8} {median(run.wall for run in runs):7.1f} {median(walls):6.3f} {median(cpus):6.3f}"
        f" {min(walls):6.3f} {rounds:7} {drafts:6} {tokens / rounds:6.2f} {host_us:7.0f}",
        flush=True,
    )


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
