"""What rounds leave in memory over a long answer, and the operations one of them writes down."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.bench.lazy_graph import primitives
from mlx_engine.bench.peers import Graph, MlxLm
from mlx_engine.bench.report import MemoryReport, MemorySample, OpsRow, Plan
from mlx_engine.bench.subject import GREEDY, SEED, asked, long_prompt, open_answer, pinned
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.recurrent import RecurrentSnapshot
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.decoding.verify import Asked, State, verify
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.sources import Drafting
from mlx_engine.engine import Engine
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import RoundStats

SAMPLES = 16
DEPTH = 3  # of the long answer
DEPTHS = (0, 3)  # of the graphs
CONTEXT = 32
REPEATS = 5


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


def count_own_ops(engine: Engine) -> tuple[OpsRow, ...]:
    """A round without and with a draft, the latter only where there are heads."""
    depths = DEPTHS if engine.parts.model.heads else DEPTHS[:1]
    return tuple(_row("headstart", depth, partial(own_graph, engine, depth)) for depth in depths)


def count_peer_ops(engine: Engine) -> OpsRow:
    """A decoding step of mlx-lm, in the types we compute in."""
    path = Path(engine.description.path)
    peer = MlxLm(path, GREEDY, as_float32=not computes_on_gpu())
    prompt = long_prompt(engine, CONTEXT)
    return _row(peer.name, 0, lambda: peer.graph(prompt))


def own_graph(engine: Engine, depth: int) -> Graph:
    """What a round after a short prompt writes down before anything is computed."""
    model = engine.parts.model
    prompt = long_prompt(engine, CONTEXT)
    sequence = TokenSequence(model)
    Drafting(engine.parts.drafting, engine.fresh_learned()).begin(sequence, pinned(depth))
    caches = sequence.caches
    sequence.commit(prompt[:-1], model.forward(mx.array([prompt[:-1]]), caches))
    sequence.mark()
    sampler = Sampler(GREEDY, model.vocabulary, SEED)
    last = mx.array(prompt[-1:], dtype=mx.int32)
    state = State(model, caches, sequence.source, sampler, last)
    started = perf_counter()
    draft = state.source.propose(Proposal(depth, last, CONTEXT), sampler)
    (verified,) = verify([Asked(state, draft.tokens, CONTEXT)])
    built = 1000 * (perf_counter() - started)
    caches.keep(depth + 1)
    outputs = [draft.tokens, verified.picked]
    return Graph([*outputs, *caches.arrays(), *sequence.source.arrays()], built)


def _row(engine: str, depth: int, build: Callable[[], Graph]) -> OpsRow:
    graphs = [build() for _ in range(REPEATS)]
    nodes = primitives(*graphs[0].outputs).total()
    return OpsRow(engine, depth, nodes, min(graph.build_ms for graph in graphs))
