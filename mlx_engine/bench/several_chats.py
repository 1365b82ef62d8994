"""Several chats answered at once, beside the same ones one after the other: speed and passes."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.bench.report import OFF, PEERS, ChatsRow, Plan, arm_words, draft_of
from mlx_engine.bench.subject import chat_prompt, nine_kinds
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import Generation
from mlx_engine.values.options import DraftOptions, DraftSourceName

CHATS = 3
Prompts = Sequence[Sequence[int]]


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
    source: DraftSourceName = "mtp" if engine.parts.drafting.small is None else "model"
    rows = []
    for name in dict.fromkeys((OFF, *plan.arms)):
        draft = None if name in PEERS else draft_of(name, source)
        if draft is None or (name != OFF and engine.session(draft=draft).why_not_drafting):
            continue
        ways = (_one_by_one, _at_once)
        runs: tuple[list[_Run], list[_Run]] = ([], [])
        for turn in range(plan.repeats + 1):
            for number in (0, 1) if turn % 2 else (1, 0):
                runs[number].append(_run(engine, prompts, plan, draft, ways[number]))
        rows.append(_row(arm_words(name), *runs))
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
    answer: Callable[[Engine, Prompts, Plan, DraftOptions], list[Generation]],
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
