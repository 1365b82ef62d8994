"""What rounds leave in memory over a long answer."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.bench.report import MemoryReport, MemorySample, Plan
from mlx_engine.bench.subject import GREEDY, asked, long_prompt, open_answer
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.recurrent import RecurrentSnapshot
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import RoundStats

SAMPLES = 16
DEPTH = 3


def measure_memory(engine: Engine, plan: Plan) -> MemoryReport:
    """A prompt and an answer as long as the plan says, or as the context holds."""
    room = engine.parts.context_length - 1
    share = min(1.0, room / (plan.memory_prompt + plan.memory_tokens))
    prompt = long_prompt(engine, int(plan.memory_prompt * share))
    wanted = int(plan.memory_tokens * share)
    draft = DraftOptions(depth=DEPTH)
    answer = open_answer(engine, prompt, asked(GREEDY, draft, wanted))
    samples: list[MemorySample] = []
    rounds: list[RoundStats] = []
    held = Held(0, 0)
    tokens = 0
    for event in answer.events():
        if not isinstance(event, RoundFinished):
            continue
        rounds.append(event.stats)
        tokens += event.stats.emitted
        held = max(held, held_for_replay(answer.sequence.caches))
        if tokens >= len(samples) * wanted / SAMPLES:
            answer.sequence.settle()
            samples.append(MemorySample(tokens, mx.get_active_memory(), answer.sequence.nbytes))
    return MemoryReport(
        prompt_tokens=len(prompt),
        generated_tokens=tokens,
        samples=tuple(samples),
        growth_bytes=growth(samples),
        peak_bytes=answer.tally.peak_memory_bytes,
        replay_bytes=held.replay,
        state_bytes=held.state,
        first_round_ms=_round_ms(rounds[: max(1, len(rounds) // 10)]),
        last_round_ms=_round_ms(rounds[-max(1, len(rounds) // 10) :]),
    )


class Held(NamedTuple):
    """Bytes of inputs kept for replay, and of the recurrent states they belong to."""

    replay: int
    state: int


def held_for_replay(caches: LayerCaches) -> Held:
    """Sums over the recurrent layers."""
    snapshots = [layer.snapshot() for layer in caches.layers]
    recurrent = [s for s in snapshots if isinstance(s, RecurrentSnapshot)]
    steps = [array for s in recurrent if s.replay is not None for array in s.replay.arrays()]
    return Held(sum(a.nbytes for a in steps), sum(s.state.nbytes for s in recurrent))


def growth(samples: Sequence[MemorySample]) -> int:
    """Active bytes gained between samples, less what the conversation gained.

    The first sample is left out: there a checkpoint and the caches still share their states, and
    the conversation counts them twice.
    """
    first, last = samples[min(1, len(samples) - 1)], samples[-1]
    return (last.active_bytes - first.active_bytes) - (last.track_bytes - first.track_bytes)


def _round_ms(rounds: Sequence[RoundStats]) -> float:
    return median(r.total_ms for r in rounds)
