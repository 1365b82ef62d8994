"""Memory of one long answer and of many chats: what stays after each, less what it should hold.

    python tests/speed/memory_over_time.py [TOKENS] [CHATS]

First an answer of TOKENS (20,000), drafted, by the built-in model whose context is taken as long as
that: bytes in use beside weights and caches, every tenth of it. Then CHATS (200) are opened, asked
and closed one after the other: bytes in use after every tenth of them.
"""

import gc
import sys
from dataclasses import replace

import mlx.core as mx

import mlx_engine
from mlx_engine import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    RoundFinished,
    SamplingOptions,
)

SAMPLING = SamplingOptions(temperature=0.8, seed=3)


def long_answer(engine: mlx_engine.Engine, tokens: int) -> None:
    engine._parts = replace(engine.parts, context_length=tokens + 100)
    limits = GenerationOptions(max_tokens=tokens, ignore_eos=True)
    session = engine.session(sampling=SAMPLING, draft=DraftOptions(depth=2), generation=limits)
    made, step, first = 0, tokens // 10, 0
    for event in session.send("Count."):
        if isinstance(event, RoundFinished):
            made += event.stats.emitted
            if made >= step:
                step += tokens // 10
                session._sequence.settle()
                beside = mx.get_active_memory() - session.nbytes
                first = first or beside
                print(
                    f"{made:6} tokens: conversation {session.nbytes / 1e6:7.2f} MB, all else "
                    f"{beside / 1e6:7.2f} MB ({(beside - first) / 1e6:+.2f})",
                    flush=True,
                )


def many_chats(engine: mlx_engine.Engine, count: int) -> None:
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


def main() -> None:
    tokens, chats = map(int, [*sys.argv[1:], 20_000, 200][:2])
    engine = mlx_engine.load(options=LoadOptions(prompt_cache_bytes=20_000_000))
    many_chats(engine, chats)
    long_answer(engine, tokens)


if __name__ == "__main__":
    main()
