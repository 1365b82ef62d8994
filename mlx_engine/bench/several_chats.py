"""Several chats answered at once, beside the same ones one after the other: speed and passes."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.bench.arms import OwnDraft, own_drafts
from mlx_engine.bench.report import ChatsRow, Plan
from mlx_engine.bench.rows import in_turn
from mlx_engine.bench.subject import chat_prompt, nine_kinds
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import Generation
from mlx_engine.values.options import DraftOptions

CHATS = 3
Prompts = Sequence[Sequence[int]]
_Way = Callable[[Engine, Prompts, Plan, DraftOptions], list[Generation]]


class _Run(NamedTuple):
    """Of all chats: their words, tokens a second by the clock and by processor time, and passes of
    the weights for each token.
    """

    words: tuple[tuple[int, ...], ...]
    by_clock: float
    by_processor: float
    passes: float


def measure_chats(engine: Engine, plan: Plan) -> tuple[ChatsRow, ...]:
    """A row for each way to draft, those that this model has. The two ways to answer take turns,
    there and back, behind one of each that does not count.
    """
    room = engine.parts.context_length - plan.acceptance_tokens
    every = (chat_prompt(engine, kind.question) for kind in nine_kinds())
    prompts = [prompt for prompt in every if len(prompt) < room][:CHATS]
    rows = []
    for name, draft in (one for one in own_drafts(engine, plan) if isinstance(one, OwnDraft)):
        ways = [_at_once, _one_by_one]
        runs: dict[_Way, list[_Run]] = {way: [] for way in ways}
        for way in in_turn(ways, plan.repeats + 1):
            runs[way].append(_run(engine, prompts, plan, draft, way))
        rows.append(_row(name, runs[_one_by_one], runs[_at_once]))
    return tuple(rows)


def _row(name: str, alone: Sequence[_Run], at_once: Sequence[_Run]) -> ChatsRow:
    counted = list(zip(alone[1:], at_once[1:], strict=True))
    return ChatsRow(
        arm=name,
        chats=len(alone[0].words),
        alone=median(run.by_clock for run, _ in counted),
        at_once=median(run.by_clock for _, run in counted),
        ratio=median(its.by_clock / one.by_clock for one, its in counted),
        processor_ratio=median(its.by_processor / one.by_processor for one, its in counted),
        alone_passes=alone[-1].passes,
        passes=at_once[-1].passes,
        is_same=len({run.words for run in (*alone, *at_once)}) == 1,
    )


def _run(
    engine: Engine,
    prompts: Prompts,
    plan: Plan,
    draft: DraftOptions,
    answer: _Way,
) -> _Run:
    shared = engine.parts.together.shared
    wall, cpu = perf_counter(), process_time()
    made = answer(engine, prompts, plan, draft)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    passes = sum(one.stats.passes for one in made) - engine.parts.together.shared + shared
    tokens = max(1, sum(one.stats.generated_tokens for one in made))
    return _Run(tuple(one.tokens for one in made), tokens / wall, tokens / cpu, passes / tokens)


def _one_by_one(
    engine: Engine, prompts: Prompts, plan: Plan, draft: DraftOptions
) -> list[Generation]:
    limit, how = plan.acceptance_tokens, plan.sampling
    return [engine.generate(one, limit, how, draft, ignore_eos=plan.ignore_eos) for one in prompts]


def _at_once(engine: Engine, prompts: Prompts, plan: Plan, draft: DraftOptions) -> list[Generation]:
    limit, how = plan.acceptance_tokens, plan.sampling
    return engine.generate_many(prompts, limit, how, draft, ignore_eos=plan.ignore_eos)
