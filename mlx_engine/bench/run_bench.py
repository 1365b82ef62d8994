"""Runs a bench: measures the parts of a plan, shows tables and the time left."""

import os
import platform
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from rich.console import Console, RenderableType
from rich.progress import Progress, TextColumn, TimeRemainingColumn

from mlx_engine.bench import tables
from mlx_engine.bench.arms import (
    PEER_ERRORS,
    Arm,
    DraftSetting,
    draft_arm,
    draft_arms,
    peer_arms,
    peer_failure,
)
from mlx_engine.bench.measures import (
    measure_cache_bits,
    measure_chats,
    measure_memory,
)
from mlx_engine.bench.report import BenchReport, Conditions, DraftingReport, Part, Plan
from mlx_engine.bench.runs import (
    PLAIN,
    Answers,
    Run,
    agreement,
    chat_prompt,
    in_turns,
    long_prompt,
    nine_kinds,
    total_rows,
)
from mlx_engine.engine import Engine, open_engine
from mlx_engine.self_check.doctor import this_machine
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions, LoadOptions

Show = Callable[[RenderableType], None]
LEAST_ROOM = 8
"""Tokens that must fit after a prompt."""

WARM_UP = 8
"""Tokens of an answer before any is timed."""


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
    model: Engine | str | Path | None,
    plan: Plan | None = None,
    *,
    options: LoadOptions | None = None,
    show: Show = lambda _: None,
    progress: Progress | None = None,
) -> BenchReport:
    """Run a bench on a loaded engine, or the model at a path (None: the built-in one).

    options: for loading. show: called with each table. progress: see bench_progress. Ctrl-C ends
    the run with the figures so far. Raises EngineError where loading or generating does; a part
    that is not possible is declined in the report.
    """
    options, plan = options or LoadOptions(), plan or Plan()
    with ExitStack() as stack:
        bar = stack.enter_context(progress or Progress(disable=True))
        if not isinstance(model, Engine):
            loading = bar.add_task("Loading", total=None)
            bar.refresh()
            model = open_engine(model, options)
            stack.callback(model.close)
            bar.remove_task(loading)
        return _Bench(model, plan, options.heads, show, bar).report()


def conditions(engine: Engine, plan: Plan) -> Conditions:
    """Describe model, machine, versions and settings of a bench that begins now."""
    here = f"{this_machine().words}, {platform.system()} {platform.machine()}"
    return Conditions(
        model=engine.description.name,
        quantisation=engine.description.quantisation,
        numerics=engine.description.numerics,
        machine=f"{here}, {os.cpu_count()} processors",
        mlx=version("mlx"),
        headstart=version("headstart"),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        sampling=plan.sampling,
        tokens=plan.tokens,
        ignore_eos=plan.ignore_eos,
        repeats=plan.repeats,
        is_quick=plan.is_quick,
    )


class _Prompt(NamedTuple):
    kind: str
    tokens: list[int]


class _Bench:
    def __init__(
        self, engine: Engine, plan: Plan, heads: Path | None, show: Show, progress: Progress
    ) -> None:
        self._engine, self._plan, self._heads = engine, plan, heads
        self._show, self._progress = show, progress
        self._declined: list[Reason] = []
        self._begin_stage("Trying kernels and timing passes")
        self._costs = engine.pass_costs  # else they change between one text and the next
        self._found = BenchReport(conditions(engine, plan))

    def report(self) -> BenchReport:
        """Measure all parts of the plan, or until Ctrl-C; return the figures."""
        self._show(tables.heading(self._found.conditions))
        try:
            self._measure()
        except KeyboardInterrupt:
            self._found = replace(self._found, is_interrupted=True)
        self._found = replace(self._found, declined=tuple(dict.fromkeys(self._declined)))
        self._show(tables.ending(self._found))
        return self._found

    def _measure(self) -> None:
        engine, plan = self._engine, self._plan
        prompts = self._prompts()
        if "drafting" in plan.parts or "prompt" in plan.parts:
            self._against_peers(prompts)
            mx.clear_cache()  # the peers are gone before memory is looked at
        difference = self._found.agreement.difference
        if difference is not None:
            words = f"Drafting changed the text ({difference}), so nothing further is measured."
            if self._found.conditions.numerics == "fast":
                words += " Numerics are fast here: --numerics exact keeps texts the same."
            self._declined.append(Reason("text-differs", words))
            return
        by_length = sorted((prompt.tokens for prompt in prompts), key=len)
        short = by_length[: plan.short_prompts]  # all logits are kept
        if self._is_asked("chats"):
            chats = measure_chats(engine, plan)
            self._add_figures(tables.chats_table(chats), chats=chats)
        if self._is_asked("cache", engine.description.packed_cache):
            cache = measure_cache_bits(engine, short, plan)
            self._add_figures(tables.cache_table(cache), cache=cache)
        if self._is_asked("memory"):
            memory = measure_memory(engine, plan)
            self._add_figures(tables.memory_table(memory), memory=memory)

    def _begin_stage(self, words: str, answers: int | None = None) -> None:
        """Show a new part of the bench in the progress line; answers: how many it takes."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._task = self._progress.add_task(words, total=answers)
        self._progress.refresh()

    def _show_answer(self, words: str) -> None:
        """Show in the progress line which answer is generated next, and its number."""
        task = self._progress.tasks[0]
        number = f"{task.completed + 1:.0f} of {task.total:.0f}"
        self._progress.update(self._task, description=f"{words} ({number})", refresh=True)

    def _add_figures(self, table: RenderableType, **found: Any) -> None:
        """Put measured figures into fields of the bench report, and show their table."""
        self._found = replace(self._found, **found)
        self._show(table)

    def _is_asked(self, part: Part, why_not: Reason | None = None) -> bool:
        """Whether the plan has this part; why_not: the reason to decline it."""
        if part not in self._plan.parts:
            return False
        if why_not is not None:
            self._declined.append(why_not)
            return False
        self._begin_stage(f"Measuring {part}")
        return True

    def _prompts(self) -> list[_Prompt]:
        """Tokenize the bench's prompts that fit into the context; decline the others."""
        room = self._engine.parts.context_length - LEAST_ROOM
        prompts = []
        for kind in nine_kinds()[: self._plan.kinds]:
            tokens = chat_prompt(self._engine, kind.question)
            if len(tokens) <= room:
                prompts.append(_Prompt(kind.name, tokens))
            else:
                words = f"The context is too short for the prompt {kind.name!r}."
                self._declined.append(Reason("context-short", words))
        return prompts

    def _against_peers(self, prompts: list[_Prompt]) -> None:
        engine, plan = self._engine, self._plan
        longest = max([plan.prompt, *(len(prompt.tokens) for prompt in prompts)]) + plan.tokens
        with ExitStack() as stack:
            self._begin_stage("Opening other programs")
            peers = self._runnable(peer_arms(engine, plan, self._heads, longest, stack))
            if self._is_asked("drafting"):
                self._measure_drafting(prompts, [*self._runnable(draft_arms(engine, plan)), *peers])
            if self._is_asked("prompt"):
                self._measure_reading(peers)

    def _runnable(self, found: Iterable[Arm | Reason]) -> list[Arm]:
        """Collect the settings and programs that can run; note why the others cannot."""
        arms = []
        for arm in found:
            if isinstance(arm, Arm):
                arms.append(arm)
            else:
                self._declined.append(arm)
        return arms

    def _measure_drafting(self, prompts: list[_Prompt], arms: list[Arm]) -> None:
        """Answer every prompt with every draft setting and program, and add the figures.

        Ctrl-C keeps and shows what is complete.
        """
        plan, done = self._plan, list[Answers]()
        answers = len(arms) + len(prompts) * (1 + plan.repeats * len(arms))
        self._begin_stage("Measuring drafting", answers)
        try:
            if prompts:
                self._warm_up(arms, prompts[0].tokens, WARM_UP)
            for number, (kind, prompt) in enumerate(prompts, 1):
                self._show_answer(f"{kind}, reference")
                reference = arms[0].answer(prompt, plan.tokens).tokens
                self._progress.advance(self._task)
                done.append(_answers(kind, prompt, reference, arms))
                in_order = in_turns(arms, plan.repeats, is_backwards=number % 2 == 0)
                try:
                    self._answer(in_order, arms, done[-1], prompt, plan.tokens)
                finally:
                    if any(done[-1].runs.values()):
                        self._show(tables.kind_table(done[-1].rows(), number, len(prompts)))
        finally:
            kinds = tuple(answers.rows() for answers in done if any(answers.runs.values()))
            if kinds:
                total = total_rows(done)
                found = DraftingReport(kinds, total, self._costs.verify_ms, self._costs.draft_ms)
                self._add_figures(
                    tables.total_table(found), drafting=found, agreement=agreement(kinds)
                )

    def _measure_reading(self, peers: list[Arm]) -> None:
        """Time how each program reads a long prompt and generates one token."""
        engine, plan = self._engine, self._plan
        prompt = long_prompt(engine, min(plan.prompt, engine.parts.context_length - LEAST_ROOM))
        arms = [draft_arm(engine, plan, DraftSetting("without heads", PLAIN)), *peers]
        if engine.parts.model.heads:
            arms.insert(
                1, draft_arm(engine, plan, DraftSetting("with heads", DraftOptions(depth=1)))
            )
        answers = _answers("prompt", prompt, (), arms)
        self._begin_stage("Measuring prompt", len(arms) * (1 + plan.repeats))
        self._warm_up(arms, prompt, 1)
        self._answer(in_turns(arms, plan.repeats), arms, answers, prompt, 1)
        rows = answers.prompt_rows()
        self._add_figures(tables.prompt_table(rows), prompt=rows)

    def _warm_up(self, arms: list[Arm], prompt: list[int], tokens: int) -> None:
        """Have every arm of the bench give an answer that does not count, to compile kernels."""
        answers = _answers("warming up", prompt, (0,) * tokens, arms)
        self._answer(in_turns(arms, 1), arms, answers, prompt, tokens)

    def _answer(
        self,
        in_order: Iterable[Arm],
        arms: list[Arm],
        answers: Answers,
        prompt: list[int],
        tokens: int,
    ) -> None:
        """Collect answers of arms to a prompt; another program that fails is left out."""
        exactly = max(1, len(answers.reference))
        for arm in in_order:
            self._show_answer(f"{answers.kind}, {arm.name}")
            try:
                run = arm.answer(prompt, exactly if arm.is_peer else tokens)
                answers.runs[arm.name].append(run)
            except PEER_ERRORS as error:
                if not arm.is_peer:
                    raise
                self._declined.append(peer_failure(arm.name, error))
                arms.remove(arm)
                del answers.runs[arm.name]
            self._progress.advance(self._task)


def _answers(kind: str, prompt: list[int], reference: tuple[int, ...], arms: list[Arm]) -> Answers:
    peers = frozenset(arm.name for arm in arms if arm.is_peer)
    runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
    return Answers(kind, len(prompt), reference, peers, runs)
