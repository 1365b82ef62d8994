"""Memory over one long answer: what lives must be the conversation, and rounds must not slow."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.bench.answers import GREEDY, open_answer
from mlx_engine.bench.plan import Plan
from mlx_engine.bench.prompts import long_prompt
from mlx_engine.bench.report import MemoryReport, MemorySample
from mlx_engine.bench.subject import Subject
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.cache.recurrent import RecurrentSnapshot
from mlx_engine.values.events import RoundFinished
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import RoundStats

SAMPLES = 16
DEPTH = 3


def measure_memory(subject: Subject, plan: Plan) -> MemoryReport:
    """A prompt and an answer as long as the plan says, or as the context holds."""
    room = subject.parts.context_length - 1
    share = min(1.0, room / (plan.memory_prompt + plan.memory_tokens))
    prompt = long_prompt(subject, int(plan.memory_prompt * share))
    wanted = int(plan.memory_tokens * share)
    draft = DraftOptions(depth=DEPTH)
    answer = open_answer(subject, prompt, wanted, GREEDY, draft, ignore_eos=True)
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
    replay = sum(s.replay.nbytes for s in recurrent if s.replay is not None)
    return Held(replay, sum(s.state.nbytes for s in recurrent))


def growth(samples: Sequence[MemorySample]) -> int:
    """Active bytes gained between samples, less what the conversation gained.

    The first sample is left out: there a checkpoint and the caches still share their states, and
    the conversation counts them twice.
    """
    first, last = samples[min(1, len(samples) - 1)], samples[-1]
    return (last.active_bytes - first.active_bytes) - (last.track_bytes - first.track_bytes)


def _round_ms(rounds: Sequence[RoundStats]) -> float:
    return median(r.total_ms for r in rounds)
