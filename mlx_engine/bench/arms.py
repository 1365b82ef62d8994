"""Who takes part in a bench: drafting off, ways to draft, and other programs on this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from metal_kernels.stock import computes_on_gpu
from mlx_engine.bench.peers import PEER_ERRORS, LlamaServer, MlxLm, llama_server
from mlx_engine.bench.report import LLAMA, MLX_LM, OFF, PEERS, Plan, arm_words, draft_of
from mlx_engine.bench.workload import Run, play, settings_of
from mlx_engine.engine import Engine
from mlx_engine.self_check.doctor import this_machine
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions, DraftSourceName

MEMORY_SHARE = 0.8
"""Share of the memory that all copies of a model may take together."""


@dataclass(frozen=True, slots=True)
class Arm:
    """play: answers a prompt with at most so many tokens (a peer: with exactly so many)."""

    name: str
    play: Callable[[Sequence[int], int], Run]
    is_peer: bool = False


class OwnDraft(NamedTuple):
    """A way of ours to draft, with its name in tables."""

    name: str
    draft: DraftOptions


def own_drafts(engine: Engine, plan: Plan) -> Iterator[OwnDraft | Reason]:
    """Drafting off, then the plan's ways to draft, or why this model cannot draft so."""
    source: DraftSourceName = "mtp" if engine.parts.drafting.small is None else "model"
    for name in dict.fromkeys((OFF, *plan.arms)):
        if name not in PEERS:
            draft = draft_of(name, source)
            why_not = engine.session(draft=draft).why_not_drafting if name != OFF else None
            yield why_not or OwnDraft(arm_words(name), draft)


def own_arm(engine: Engine, plan: Plan, own: OwnDraft) -> Arm:
    """The engine, drafting in one way."""

    def answer(prompt: Sequence[int], tokens: int) -> Run:
        settings = settings_of(plan.sampling, own.draft, tokens, ignore_eos=plan.ignore_eos)
        return play(engine, prompt, settings)

    return Arm(own.name, answer)


def own_arms(engine: Engine, plan: Plan) -> Iterator[Arm | Reason]:
    """The engine in each of its ways to draft."""
    for own in own_drafts(engine, plan):
        yield own if isinstance(own, Reason) else own_arm(engine, plan, own)


def peer_arms(
    engine: Engine, plan: Plan, heads: Path | None, context: int, stack: ExitStack
) -> Iterator[Arm | Reason]:
    """Other programs of the plan, or why they cannot run this model; `stack` ends them.

    heads: a file of MTP heads beside the model. context: tokens of the longest conversation.
    """
    path = Path(engine.description.path)
    openings: list[tuple[str, Callable[[], MlxLm | LlamaServer]]] = []
    if MLX_LM in plan.arms:
        as_float32 = not computes_on_gpu()  # the types we compute in
        openings.append((MLX_LM, partial(MlxLm, path, plan.sampling, as_float32=as_float32)))
    if LLAMA in plan.arms and plan.llama_server is not None:
        for drafts in (False, True) if engine.parts.model.heads else (False,):
            server = llama_server(
                plan.llama_server, path, context, plan.sampling, drafts=drafts, heads=heads
            )
            openings.append((LLAMA, partial(stack.enter_context, server)))
    machine = this_machine()
    room = MEMORY_SHARE * (machine.gpu_bytes or machine.memory_bytes)
    for copies, (name, opening) in enumerate(openings, 2):
        if copies * engine.description.nbytes > room:
            words = f"Memory does not hold this model {copies} times: no {name}."
            yield Reason("peer-no-room", words)
            continue
        try:
            peer = opening()
        except PEER_ERRORS as error:
            yield cannot(name, error)
        else:
            yield Arm(peer.name, peer.play, is_peer=True)


def cannot(name: str, error: Exception) -> Reason:
    """Why a peer does not take part."""
    return Reason("peer-cannot", f"{name} cannot run this model: {error}")
