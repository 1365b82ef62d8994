"""Runs a bench: measures the parts of a plan, shows tables and the time left."""

import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import Progress, TextColumn, TimeRemainingColumn

from mlx_engine.bench import tables
from mlx_engine.bench.arms import (
    PEER_ERRORS,
    Arm,
    BenchQuestion,
    DraftSetting,
    draft_arm,
    draft_settings,
    long_questions,
    peer_arms,
    peer_failure,
    questions,
)
from mlx_engine.bench.report import (
    AnswerFigures,
    BenchPlan,
    BenchReport,
    ChatsRow,
    DraftingReport,
    KindRows,
    figures_by_arm,
    sum_over_kinds,
)
from mlx_engine.decoding.config import gpu_bytes
from mlx_engine.decoding.state import shared_prefix
from mlx_engine.engine import Engine
from mlx_engine.self_check.doctor import this_machine
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import Reason

Show = Callable[[RenderableType], None]
T = TypeVar("T")

LEAST_ROOM = 8
"""Tokens that must fit after a prompt."""

WARM_UP = 8
"""Tokens of an answer before any is timed."""

CHATS = 3


def bench_progress(console: Console) -> Progress:
    """Make a terminal's progress line with the bench's present measurement and time left.

    It is drawn between answers, so that drawing does not disturb the timing.
    """
    return Progress(
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal or console.is_dumb_terminal,
    )


def run_bench(
    engine: Engine,
    plan: BenchPlan,
    *,
    heads: Path | None = None,
    show: Show = lambda _: None,
    progress: Progress | None = None,
) -> BenchReport:
    """Run a bench on a loaded engine.

    heads: a file of MTP heads beside the model, for llama.cpp. show: called with each table.
    progress: see bench_progress. Ctrl-C ends the run with the figures so far. Raises EngineError
    where generating does; what is not possible is declined in the report.
    """
    with progress or Progress(disable=True) as bar:
        bench = _Bench(engine, plan, heads, show, bar)
        show(tables.report_heading(bench.report))
        try:
            bench.measure()
        except KeyboardInterrupt:
            bench.report = replace(bench.report, is_interrupted=True)
    report = replace(bench.report, declined=tuple(dict.fromkeys(bench.declined)))
    show(tables.report_ending(report))
    return report


def arms_in_turns(arms: MutableSequence[T], repeats: int) -> Iterator[T]:
    """Yield a bench's arms in the order A B C C B A; one removed from `arms` has no later turns."""
    for turn in range(repeats):
        yield from arms[:: -1 if turn % 2 else 1]


class _Bench:
    """A bench under way: the report so far, and reasons why something is left out."""

    def __init__(
        self, engine: Engine, plan: BenchPlan, heads: Path | None, show: Show, progress: Progress
    ) -> None:
        self._engine, self._plan, self._heads = engine, plan, heads
        self._show, self._progress = show, progress
        self._task = progress.add_task("", total=None)
        self.declined: list[Reason] = []
        self._show_progress("Trying kernels and timing passes")
        self._costs = engine.pass_costs  # else they change between one text and the next
        described = engine.description
        here = f"{this_machine().words}, {platform.system()} {platform.machine()}"
        self.report = BenchReport(
            model=described.name,
            quantisation=described.quantisation,
            numerics=described.numerics,
            machine=f"{here}, {os.cpu_count()} processors",
            mlx=version("mlx"),
            headstart=version("headstart"),
            date=datetime.now().astimezone().isoformat(timespec="seconds"),
            plan=plan,
        )

    def measure(self) -> None:
        """Measure all parts of the plan, one after the other."""
        asked = self._questions()
        settings = self._runnable_only(draft_settings(self._engine, self._plan))
        if "drafting" in self._plan.parts and asked:
            with ExitStack() as stack:
                self._measure_drafting(asked, settings, stack)
        if self.report.text_difference is not None:
            words = (
                f"Drafting changed the text ({self.report.text_difference}): nothing more measured."
            )
            if self.report.numerics == "fast":
                words += " Numerics are fast here: --numerics exact keeps texts the same."
            self.declined.append(Reason("text-differs", words))
        elif "chats" in self._plan.parts and not self._plan.contexts:
            self._show_progress("Measuring chats")
            rows = tuple(_measure_chats(self._engine, self._plan, asked, arm) for arm in settings)
            self.report = replace(self.report, chats=rows)
            self._show(tables.chats_table(rows))

    def _show_progress(self, words: str, answers: int | None = None) -> None:
        """Show in the progress line what is done now; answers: how many it takes."""
        self._progress.update(
            self._task, description=words, completed=0, total=answers, refresh=True
        )

    def _questions(self) -> list[BenchQuestion]:
        """Return the plan's questions that fit into the context; decline the others."""
        found, contexts = [], self._plan.contexts
        every = long_questions(self._engine, contexts) if contexts else questions(self._engine)
        for question in every if contexts else every[: self._plan.kinds]:
            if len(question.tokens) + LEAST_ROOM <= self._engine.parts.context_length:
                found.append(question)
            else:
                words = f"The context is too short for the prompt {question.kind!r}."
                self.declined.append(Reason("context-short", words))
        return found

    def _runnable_only(self, settings_or_reasons: Iterable[T | Reason]) -> list[T]:
        """Collect the settings and programs that can run; note why the others cannot."""
        runnable = []
        for item in settings_or_reasons:
            if isinstance(item, Reason):
                self.declined.append(item)
            else:
                runnable.append(item)
        return runnable

    def _measure_drafting(
        self,
        asked_questions: list[BenchQuestion],
        settings: list[DraftSetting],
        exit_stack: ExitStack,
    ) -> None:
        """Have every draft setting and program answer every question; Ctrl-C keeps whole kinds."""
        engine, plan = self._engine, self._plan
        self._show_progress("Opening other programs")
        longest = max(len(question.tokens) for question in asked_questions) + plan.tokens
        peers = self._runnable_only(peer_arms(engine, plan, self._heads, longest, exit_stack))
        arms = [*(draft_arm(engine, plan, setting) for setting in settings), *peers]
        names, done = {arm.name for arm in peers}, list[dict[str, list[AnswerFigures]]]()
        self._show_progress(
            "Measuring drafting", len(arms) * (1 + len(asked_questions) * plan.repeats)
        )
        self._answer_in_turns(asked_questions[0]._replace(kind="warming up"), arms, 1, WARM_UP)
        for number, question in enumerate(asked_questions, 1):
            done.append(self._answer_in_turns(question, arms, plan.repeats, plan.tokens))
            length = len(question.tokens)
            memory = engine.description.memory_needed(length + plan.tokens, gpu_bytes=gpu_bytes())
            rows = KindRows(question.kind, length, figures_by_arm(done[-1], names), memory)
            kinds = (*self.report.drafting.kinds, rows) if self.report.drafting else (rows,)
            everything = figures_by_arm(sum_over_kinds(done), names)
            found = DraftingReport(kinds, everything, self._costs.verify_ms, self._costs.draft_ms)
            self.report = replace(self.report, drafting=found)
            self._show(tables.kind_table(rows, number, len(asked_questions)))

    def _answer_in_turns(
        self, question: BenchQuestion, arms: list[Arm], repeats: int, tokens: int
    ) -> dict[str, list[AnswerFigures]]:
        """Measure settings and peer programs in turns, plain decoding first; drop a failed peer."""
        runs: dict[str, list[AnswerFigures]] = defaultdict(list)
        reference: tuple[int, ...] | None = None
        for arm in arms_in_turns(arms, repeats):
            task = self._progress.tasks[0]
            words = f"{question.kind}, {arm.name} ({task.completed + 1:.0f} of {task.total:.0f})"
            self._progress.update(self._task, description=words, refresh=True)
            most = tokens if reference is None or not arm.is_peer else max(1, len(reference))
            try:
                run = arm.answer(question, most)
            except PEER_ERRORS as error:
                if not arm.is_peer:
                    raise
                self.declined.append(peer_failure(arm.name, error))
                arms.remove(arm)
                runs.pop(arm.name, None)
                continue
            reference = run.tokens if reference is None else reference
            equal = shared_prefix(run.tokens, reference)
            runs[arm.name].append(replace(run, equal=equal, reference=len(reference)))
            self._progress.advance(self._task)
        return runs


def _measure_chats(
    engine: Engine, plan: BenchPlan, asked_questions: list[BenchQuestion], setting: DraftSetting
) -> ChatsRow:
    """Measure several chats answered one by one and at once, in turns; the first turn warms up."""
    room = engine.parts.context_length - plan.chat_tokens
    prompts = [question.tokens for question in asked_questions if len(question.tokens) < room][
        :CHATS
    ]
    limits = (plan.chat_tokens, plan.sampling, setting.draft)
    eos = plan.ignore_eos

    def answer_at_once() -> list[Generation]:
        return engine.generate_many(prompts, *limits, ignore_eos=eos)

    def answer_one_by_one() -> list[Generation]:
        return [engine.generate(prompt, *limits, ignore_eos=eos) for prompt in prompts]

    ways = [answer_at_once, answer_one_by_one]
    texts, speeds, passes = set[tuple[tuple[int, ...], ...]](), defaultdict(list), {}
    for way in arms_in_turns(ways, plan.repeats + 1):
        shared, started = engine.parts.batch.shared, perf_counter()
        made = way()
        seconds = perf_counter() - started
        read = sum(each.stats.passes for each in made) - engine.parts.batch.shared + shared
        tokens = max(1, sum(each.stats.generated_tokens for each in made))
        texts.add(tuple(each.tokens for each in made))
        speeds[way].append(tokens / seconds)
        passes[way] = read / tokens
    together, alone = speeds[answer_at_once][1:], speeds[answer_one_by_one][1:]
    return ChatsRow(
        arm=setting.name,
        chats=len(prompts),
        alone=median(alone),
        at_once=median(together),
        ratio=median(a / b for a, b in zip(together, alone, strict=True)),
        alone_passes=passes[answer_one_by_one],
        passes=passes[answer_at_once],
        is_same=len(texts) == 1,
    )
