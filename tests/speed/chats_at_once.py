"""Several chats at once against one after the other: `python -m speed.chats_at_once` in tests/.

With helpers/ on the path. Subjects are the built-in model and a random toy of more weights. Both
arms answer the same prompts, past every end of text, with drafting off, pinned and automatic; they
take turns, forwards and backwards (A B B A), and the median of all turns is told: tokens of all
chats a second, by the clock and by processor time, and passes of the weights for each token.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

import mlx.core as mx
from speed.auto_against_off import PROMPT, write_random

import mlx_engine
from mlx_engine.engine import Engine
from mlx_engine.models.decoder import Decoder
from mlx_engine.values.conversation import Generation
from mlx_engine.values.options import DraftOptions, SamplingOptions

TOPICS = ("lighthouse", "railway", "garden", "library", "harbour", "mountain", "river", "market")
WAYS = {
    "off": DraftOptions(source="none"),
    "depth 1": DraftOptions(depth=1),
    "depth 3": DraftOptions(depth=3),
    "auto": DraftOptions(),
}
Arm = Callable[[Engine, Sequence[str], dict[str, object]], list[Generation]]


def one_after_the_other(
    engine: Engine, prompts: Sequence[str], asked: dict[str, object]
) -> list[Generation]:
    """What there is without passes that several share."""
    return [engine.generate(prompt, **asked) for prompt in prompts]  # type: ignore[arg-type]


def at_once(engine: Engine, prompts: Sequence[str], asked: dict[str, object]) -> list[Generation]:
    """All in passes that they share."""
    return engine.generate_many(prompts, **asked)  # type: ignore[arg-type]


class Run(NamedTuple):
    """Tokens a second of all chats, by the clock and by processor time; passes for each token."""

    wall: float
    cpu: float
    passes: float


@contextmanager
def counted_passes() -> Iterator[list[int]]:
    """Rows of each pass of a trunk within."""
    rows: list[int] = []
    read = Decoder._read

    def counted(self: Decoder, tokens: mx.array, *args: object, **more: object) -> mx.array:
        rows.append(tokens.shape[1])
        return read(self, tokens, *args, **more)  # type: ignore[arg-type]

    Decoder._read = counted  # type: ignore[method-assign]
    try:
        yield rows
    finally:
        Decoder._read = read  # type: ignore[method-assign]


def compare(engine: Engine, chats: int, tokens: int, turns: int, temperature: float) -> None:
    """Prints a line for each way to draft."""
    prompts = [PROMPT.replace("lighthouse", topic) for topic in TOPICS[:chats]]
    engine.pass_costs  # noqa: B018  # so that no arm begins with presumed costs
    for name, draft in WAYS.items():
        found: dict[Arm, list[Run]] = {one_after_the_other: [], at_once: []}
        words: set[tuple[tuple[int, ...], ...]] = set()
        for turn in range(turns + 1):
            order = list(found) if turn % 2 else list(found)[::-1]
            sampling = SamplingOptions(temperature=temperature, seed=1)
            asked: dict[str, object] = {
                "max_tokens": tokens, "sampling": sampling, "draft": draft, "ignore_eos": True
            }  # fmt: skip
            for arm in order:
                with counted_passes() as rows:
                    wall, cpu = perf_counter(), process_time()
                    made = arm(engine, prompts, asked)
                    wall, cpu = perf_counter() - wall, process_time() - cpu
                words.add(tuple(its.tokens for its in made))
                every = chats * tokens
                if turn:  # the first warms up
                    found[arm].append(Run(every / wall, every / cpu, len(rows) / every))
        assert len(words) == 1, "the words are the same"
        line = f"  {name:8}"
        for arm, runs in found.items():
            wall, cpu, passes = (median(values) for values in zip(*runs, strict=True))
            line += f" | {arm.__name__:19} {wall:7.1f} tok/s {cpu:7.1f} by cpu {passes:.3f} passes"
        ratios = [
            together.cpu / alone.cpu
            for alone, together in zip(*found.values(), strict=True)
        ]  # fmt: skip
        walls = [b.wall / a.wall for a, b in zip(*found.values(), strict=True)]
        print(f"{line} | {median(walls):.2f} times by the clock, {median(ratios):.2f} by cpu")


def main() -> None:
    """All subjects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--temperature", type=float, default=0.8)
    asked = parser.parse_args()
    with TemporaryDirectory() as place:
        toy = write_random(Path(place) / "toy", layers=8, seed=1)
        for name, path in {"built-in": None, "toy": toy}.items():
            engine = mlx_engine.load(path)
            print(f"{name}, {asked.chats} chats of {asked.tokens} tokens:")
            compare(engine, asked.chats, asked.tokens, asked.turns, asked.temperature)
            engine.close()


if __name__ == "__main__":
    main()
