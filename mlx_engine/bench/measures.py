"""Measurements of packed keys and values, of several chats at once, and of long answers."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mlx_engine.bench.arms import DraftSetting, draft_settings
from mlx_engine.bench.report import CacheRow, ChatsRow, MemoryReport, Plan
from mlx_engine.bench.runs import (
    GREEDY,
    PLAIN,
    SEED,
    answer_settings,
    chat_prompt,
    in_turns,
    long_prompt,
    nine_kinds,
    open_answer,
)
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import Generation, RoundFinished
from mlx_engine.values.options import CacheBits, CacheOptions, DraftOptions, SamplingOptions

SAMPLED = SamplingOptions(temperature=0.8, seed=SEED)
PINNED = DraftOptions(depth=3)
CHATS = 3

Prompts = Sequence[Sequence[int]]


def measure_cache_bits(engine: Engine, prompts: Prompts, plan: Plan) -> tuple[CacheRow, ...]:
    """Measure how keys and values in 16, 8 and 4 bits change logits, against 16 bits."""
    limit = plan.short_tokens
    answers = [engine.generate(prompt, limit, SAMPLED, PLAIN).tokens for prompt in prompts]
    texts = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    exact = [engine.logits(text) for text in texts]
    bits: tuple[CacheBits, ...] = get_args(CacheBits)
    return tuple(_cache_row(engine, prompts, texts, exact, limit, CacheOptions(n, n)) for n in bits)


def _cache_row(
    engine: Engine,
    prompts: Prompts,
    texts: Prompts,
    exact: Sequence[NDArray[np.float32]],
    limit: int,
    cache: CacheOptions,
) -> CacheRow:
    pairs = list(zip(exact, (engine.logits(text, cache) for text in texts), strict=True))
    plain = [engine.generate(prompt, limit, SAMPLED, PLAIN, cache=cache) for prompt in prompts]
    made = [engine.generate(prompt, limit, SAMPLED, PINNED, cache=cache) for prompt in prompts]
    drafted = sum(answer.stats.drafted for answer in made)
    accepted = sum(answer.stats.accepted for answer in made)
    return CacheRow(
        bits=cache.bits,
        bytes_per_token=engine.description.cache_bytes(cache),
        difference=float(np.concatenate([np.abs(a - b).max(-1) for a, b in pairs]).mean()),
        divergence=float(np.concatenate([_divergence(a, b) for a, b in pairs]).mean()),
        likeliest=float(np.concatenate([a.argmax(-1) == b.argmax(-1) for a, b in pairs]).mean()),
        accepted=accepted / drafted if drafted else None,
        is_same=[answer.tokens for answer in made] == [answer.tokens for answer in plain],
    )


def _divergence(exact: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Kullback-Leibler divergence of rows of logits [T, V], in nats, [T]."""
    logs = [
        logits - np.logaddexp.reduce(logits, -1, keepdims=True)
        for logits in (exact.astype(np.float64), other.astype(np.float64))
    ]
    rows: NDArray[np.float64] = (np.exp(logs[0]) * (logs[0] - logs[1])).sum(-1)
    return rows


class _ChatsRun(NamedTuple):
    """One run of several chats: texts, tokens per second, passes of the weights per token."""

    texts: tuple[tuple[int, ...], ...]
    speed: float
    passes: float


def measure_chats(engine: Engine, plan: Plan) -> tuple[ChatsRow, ...]:
    """Measure several chats answered one by one and at once, in turns; one row a draft setting."""
    room = engine.parts.context_length - plan.short_tokens
    every = (chat_prompt(engine, kind.question) for kind in nine_kinds())
    prompts = [prompt for prompt in every if len(prompt) < room][:CHATS]
    arms = [arm for arm in draft_settings(engine, plan) if isinstance(arm, DraftSetting)]
    return tuple(_chats_row(engine, prompts, plan, arm) for arm in arms)


def _chats_row(engine: Engine, prompts: Prompts, plan: Plan, arm: DraftSetting) -> ChatsRow:
    limit, sampling, eos = plan.short_tokens, plan.sampling, plan.ignore_eos

    def at_once() -> list[Generation]:
        return engine.generate_many(prompts, limit, sampling, arm.draft, ignore_eos=eos)

    def one_by_one() -> list[Generation]:
        return [
            engine.generate(prompt, limit, sampling, arm.draft, ignore_eos=eos)
            for prompt in prompts
        ]

    ways: list[Callable[[], list[Generation]]] = [at_once, one_by_one]
    runs: dict[Callable[[], list[Generation]], list[_ChatsRun]] = {way: [] for way in ways}
    for way in in_turns(ways, plan.repeats + 1):
        runs[way].append(_timed(engine, way))
    together, alone = runs[at_once][1:], runs[one_by_one][1:]
    return ChatsRow(
        arm=arm.name,
        chats=len(prompts),
        alone=median(run.speed for run in alone),
        at_once=median(run.speed for run in together),
        ratio=median(a.speed / b.speed for a, b in zip(together, alone, strict=True)),
        alone_passes=alone[-1].passes,
        passes=together[-1].passes,
        is_same=len({run.texts for way in ways for run in runs[way]}) == 1,
    )


def _timed(engine: Engine, answer: Callable[[], list[Generation]]) -> _ChatsRun:
    shared, started = engine.parts.batch.shared, perf_counter()
    made = answer()
    seconds = perf_counter() - started
    passes = sum(each.stats.passes for each in made) - engine.parts.batch.shared + shared
    tokens = max(1, sum(each.stats.generated_tokens for each in made))
    return _ChatsRun(tuple(each.tokens for each in made), tokens / seconds, passes / tokens)


def measure_memory(engine: Engine, plan: Plan) -> MemoryReport:
    """Measure memory and round times of a long answer to a long prompt, as far as they fit."""
    room = engine.parts.context_length - 1
    share = min(1.0, room / (plan.memory_prompt + plan.memory_tokens))
    prompt = long_prompt(engine, int(plan.memory_prompt * share))
    answer = open_answer(
        engine, prompt, answer_settings(GREEDY, PINNED, int(plan.memory_tokens * share))
    )
    rounds = [event.stats for event in answer.events() if isinstance(event, RoundFinished)]
    tenth = max(1, len(rounds) // 10)
    return MemoryReport(
        prompt_tokens=len(prompt),
        generated_tokens=sum(r.emitted for r in rounds),
        peak_bytes=answer.tally.peak_memory_bytes,
        conversation_bytes=answer.sequence.nbytes,
        first_round_ms=median(r.total_ms for r in rounds[:tenth]),
        last_round_ms=median(r.total_ms for r in rounds[-tenth:]),
    )
