"""Operations of one round's graph, ours and the peer's, and the time to build it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import mlx.core as mx

from mlx_engine.bench.answers import GREEDY, SEED
from mlx_engine.bench.graph import Graph, count_nodes
from mlx_engine.bench.mlx_lm_peer import MlxLm
from mlx_engine.bench.prompts import long_prompt
from mlx_engine.bench.report import OpsRow
from mlx_engine.bench.subject import Subject, pinned
from mlx_engine.decoding.track import Track
from mlx_engine.decoding.verify import pick, verify
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.sources import make_source, why_no_model
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
    options, kit = pinned(depth), subject.parts.drafting
    source = make_source(options, kit, has_model=why_no_model(options, kit) is None)
    track = Track(adapter, source)
    track.commit(prompt[:-1], adapter.forward(mx.array([prompt[:-1]]), track.caches))
    track.mark()
    sampler = Sampler(GREEDY, adapter.vocabulary, SEED)
    started = perf_counter()
    draft = track.source.propose(Proposal(depth, prompt[-1], CONTEXT), sampler)
    verified = verify(adapter, track.caches, prompt[-1], draft.tokens)
    outputs = [draft.tokens, *pick(adapter, verified, sampler, CONTEXT, draft.tokens)]
    built = 1000 * (perf_counter() - started)
    track.caches.keep(depth + 1)
    return Graph([*outputs, *track.caches.arrays(), *track.source.arrays()], built)


def _row(engine: str, depth: int, build: Callable[[], Graph]) -> OpsRow:
    graphs = [build() for _ in range(REPEATS)]
    nodes = count_nodes(graphs[0].outputs)
    return OpsRow(engine, depth, nodes, min(graph.build_ms for graph in graphs))
