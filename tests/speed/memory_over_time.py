"""Memory of long answers and of many chats: what stays, less what conversations should hold.

    python tests/speed/memory_over_time.py [--tokens N] [--chats N] [NAME ...]

CHATS (200) of the built-in model are opened, asked and closed one after the other: bytes in use
beside weights and what is kept, after every tenth of them. Then an answer of TOKENS (20,000),
drafted, by each of the models named, whose context is taken as long as that: bytes in use and at
most, at some places of it. Models are random toys of all kinds of caches, which take minutes, and
the built-in one.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import mlx.core as mx

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    RoundFinished,
    SamplingOptions,
)

SAMPLING = SamplingOptions(temperature=0.8, seed=3)
PLACES = (0.05, 0.25, 0.5, 0.75, 1.0)
"""Where a long answer is looked at, as parts of it."""


class Case(NamedTuple):
    """A model, written into a folder where it is no other, and how it drafts."""

    write: Callable[[Path], Path] | None
    draft: DraftOptions


CASES: Mapping[str, Case] = {
    "states": Case(write_tiny_qwen3_5, DraftOptions(depth=2)),
    "states, auto": Case(write_tiny_qwen3_5, DraftOptions()),
    "windows": Case(lambda folder: write_stack(folder, "mimo_v2_flash"), DraftOptions(depth=3)),
    "built-in": Case(None, DraftOptions()),
}


def long_answer(name: str, tokens: int) -> None:
    case = CASES[name]
    with TemporaryDirectory() as folder:
        path = None if case.write is None else case.write(Path(folder) / "model")
        engine = mlx_engine.load(path)
    engine._parts = replace(engine.parts, context_length=tokens + 100)
    limits = GenerationOptions(max_tokens=tokens, ignore_eos=True)
    session = engine.session(sampling=SAMPLING, draft=case.draft, generation=limits)
    places = [int(part * tokens) for part in PLACES]
    made = first = 0
    for event in session.send("Count."):
        if isinstance(event, RoundFinished):
            made += event.stats.emitted
            if made >= places[0]:
                del places[0]
                session._sequence.evaluate()
                beside = mx.get_active_memory() - session.nbytes
                first = first or beside
                print(
                    f"{name}, {made:6} tokens: in use {mx.get_active_memory() / 1e6:7.2f} MB, "
                    f"conversation {session.nbytes / 1e6:7.2f}, all else {beside / 1e6:7.2f} "
                    f"({(beside - first) / 1e6:+.2f}); at most {mx.get_peak_memory() / 1e6:7.2f}",
                    flush=True,
                )
                if not places:
                    break
    stats = session.stats
    print(f"{name}: {stats.accepted} of {stats.drafted} drafts accepted", flush=True)
    engine.close()


def many_chats(count: int) -> None:
    engine = mlx_engine.load(options=LoadOptions(prompt_cache_bytes=20_000_000))
    limits = GenerationOptions(max_tokens=12, ignore_eos=True)
    first = 0
    for number in range(count):
        session = engine.session(sampling=SAMPLING, draft=DraftOptions(depth=2), generation=limits)
        for _ in session.send(f"Question {number}?"):
            pass
        del session
        if number % (count // 10) == count // 10 - 1:
            gc.collect()
            mx.clear_cache()
            kept = engine.parts.prompts.nbytes
            beside = mx.get_active_memory() - kept
            first = first or beside
            told = f"kept to be read on {kept / 1e6:7.2f} MB, all else {beside / 1e6:7.2f} MB"
            print(f"{number + 1:4} chats: {told} ({(beside - first) / 1e6:+.2f})", flush=True)
    engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--chats", type=int, default=200)
    asked = parser.parse_args()
    if asked.chats:
        many_chats(asked.chats)
    for name in asked.names or CASES:
        long_answer(name, asked.tokens)


if __name__ == "__main__":
    main()
