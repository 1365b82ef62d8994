"""Operations of one round's graph, ours and the peer's, and the time to build it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import mlx.core as mx

from mlx_engine.bench.answers import GREEDY, SEED, learned
from mlx_engine.bench.graph import Graph, count_nodes
from mlx_engine.bench.mlx_lm_peer import MlxLm
from mlx_engine.bench.prompts import long_prompt
from mlx_engine.bench.report import OpsRow
from mlx_engine.bench.subject import Subject, pinned
from mlx_engine.decoding.round import verify
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler

CONTEXT = 32
DEPTHS = (0, 3)
REPEATS = 5


def count_own_ops(subject: Subject) -> tuple[OpsRow, ...]:
    """A round without and with a draft, the latter only where there are heads."""
    depths = DEPTHS if subject.parts.adapter.mtp_depth else DEPTHS[:1]
    return tuple(_row("headstart", depth, partial(own_graph, subject, depth)) for depth in depths)


def count_peer_ops(subject: Subject) -> OpsRow:
    """A decoding step of mlx-lm, in the types we compute in."""
    peer = MlxLm(Path(subject.description.path), as_float32=not mx.metal.is_available())
    prompt = long_prompt(subject, CONTEXT)
    return _row(peer.name, 0, lambda: peer.graph(prompt))


def own_graph(subject: Subject, depth: int) -> Graph:
    """What a round after a short prompt writes down before anything is computed."""
    adapter = subject.parts.adapter
    prompt = long_prompt(subject, CONTEXT)
    sequence = TokenSequence(adapter)
    Drafting(subject.parts.drafting, learned(subject)).begin(sequence, pinned(depth))
    caches = sequence.caches
    sequence.commit(prompt[:-1], adapter.forward(mx.array([prompt[:-1]]), caches))
    sequence.mark()
    sampler = Sampler(GREEDY, adapter.vocabulary, SEED)
    wanted = Proposal(depth, prompt[-1], CONTEXT)
    started = perf_counter()
    draft = sequence.source.propose(wanted, sampler)
    verified = verify(sequence, wanted, draft.tokens, sampler)
    built = 1000 * (perf_counter() - started)
    caches.keep(depth + 1)
    outputs = [draft.tokens, verified.picked, verified.finite]
    return Graph([*outputs, *caches.arrays(), *sequence.source.arrays()], built)


def _row(engine: str, depth: int, build: Callable[[], Graph]) -> OpsRow:
    graphs = [build() for _ in range(REPEATS)]
    nodes = count_nodes(graphs[0].outputs)
    return OpsRow(engine, depth, nodes, min(graph.build_ms for graph in graphs))
