"""Runs the parts that were asked for: tables are shown as they come, with the time that is left."""

import os
import platform
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import mlx.core as mx
from rich.console import RenderableType

from mlx_engine.bench import card
from mlx_engine.bench.acceptance import measure_acceptance, measure_formats
from mlx_engine.bench.arms import Arm, cannot, own_arm, own_arms, peer_arms
from mlx_engine.bench.footprint import measure_memory
from mlx_engine.bench.peers import PEER_ERRORS
from mlx_engine.bench.report import (
    BenchReport,
    Conditions,
    DraftingReport,
    Part,
    Plan,
)
from mlx_engine.bench.rows import Answers, agreement, in_turn, total_rows
from mlx_engine.bench.several_chats import measure_chats
from mlx_engine.bench.subject import PLAIN, Run, chat_prompt, long_prompt, nine_kinds, pinned
from mlx_engine.engine import Engine, open_engine
from mlx_engine.self_check.machine import backend_words
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import LoadOptions

Say = Callable[[str], None]
Show = Callable[[RenderableType], None]
LEAST_ROOM = 8
"""Tokens that must fit behind a prompt."""

WARM_UP = 8
"""Tokens of an answer before any is timed."""


def run_bench(
    model: Engine | str | Path | None,
    plan: Plan | None = None,
    *,
    options: LoadOptions | None = None,
    say: Say = lambda _: None,
    show: Show = lambda _: None,
) -> BenchReport:
    """Measure a loaded engine, or the model at a path (None: the built-in one).

    options: how the path is opened. say: told what is being measured and how long the rest takes.
    show: given each table once it is measured. Ctrl-C ends it with what there is by then. Raises
    EngineError where loading or generating does; what only a part cannot do is declined.
    """
    options, plan = options or LoadOptions(), plan or Plan()
    if isinstance(model, Engine):
        return _Bench(model, plan, options.heads, say, show).report()
    engine = open_engine(model, options)
    try:
        return _Bench(engine, plan, options.heads, say, show).report()
    finally:
        engine.close()


def conditions(engine: Engine, plan: Plan) -> Conditions:
    """Of a run that begins now."""
    here = f"{backend_words()}, {platform.system()} {platform.machine()}"
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
        self, engine: Engine, plan: Plan, heads: Path | None, say: Say, show: Show
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._heads = heads
        self._say = say
        self._show = show
        self._declined: list[Reason] = []
        self._planned = self._done = 0
        self._begun = 0.0
        say("Trying kernels and timing passes")
        self._costs = engine.pass_costs  # else they change between one text and the next
        self._found = BenchReport(conditions(engine, plan))

    def report(self) -> BenchReport:
        """All that was asked for, or what there is at Ctrl-C."""
        self._show(card.heading(self._found.conditions))
        try:
            self._measure()
        except KeyboardInterrupt:
            self._found = replace(self._found, is_interrupted=True)
        self._found = replace(self._found, declined=tuple(dict.fromkeys(self._declined)))
        self._show(card.ending(self._found))
        return self._found

    def _measure(self) -> None:
        engine, plan = self._engine, self._plan
        prompts = self._prompts()
        if "drafting" in plan.parts or "prompt" in plan.parts:
            self._against_peers(prompts)
            mx.clear_cache()  # the peers are gone before memory is looked at
        difference = self._found.agreement.difference
        if difference is not None:
            words = f"Drafted text is not plain text ({difference}): no figures behind it."
            if self._found.conditions.numerics == "fast":
                words += " Rows round differently here: --numerics exact keeps texts the same."
            self._declined.append(Reason("text-differs", words))
            return
        by_length = sorted((prompt.tokens for prompt in prompts), key=len)
        short = by_length[: plan.acceptance_prompts]  # all logits are kept
        if self._is_asked("chats"):
            chats = measure_chats(engine, plan)
            self._keep(card.chats_table(chats), chats=chats)
        if self._is_asked("acceptance") and self._has_heads():
            acceptance = measure_acceptance(engine, short, plan)
            self._keep(card.acceptance_table(acceptance), acceptance=acceptance)
        if self._is_asked("cache") and self._has_formats():
            formats = measure_formats(engine, short, plan)
            self._keep(card.cache_table(formats), cache=formats)
        if self._is_asked("memory"):
            memory = measure_memory(engine, plan)
            self._keep(card.memory_table(memory), memory=memory)

    def _keep(self, table: RenderableType, **found: Any) -> None:
        """A part of the report, by its field, and as it is shown."""
        self._found = replace(self._found, **found)
        self._show(table)

    def _is_asked(self, part: Part) -> bool:
        is_asked = part in self._plan.parts
        if is_asked:
            self._say(f"Measuring {part}")
        return is_asked

    def _has_heads(self) -> bool:
        """If not, the reason is kept."""
        if self._engine.parts.model.heads:
            return True
        no_heads = Reason("no-heads", "This model has no MTP heads.")
        self._declined.append(self._engine.description.mtp or no_heads)
        return False

    def _has_formats(self) -> bool:
        """Of keys and values; if there is one alone, the reason is kept."""
        why = self._engine.description.packed_cache
        self._declined += [why] if why else []
        return why is None

    def _prompts(self) -> list[_Prompt]:
        """Those that the context holds."""
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
            self._say("Opening other programs")
            peers = self._here(peer_arms(engine, plan, self._heads, longest, stack))
            if self._is_asked("drafting"):
                self._drafting(prompts, [*self._here(own_arms(engine, plan)), *peers])
            if self._is_asked("prompt"):
                self._reading(peers)

    def _here(self, found: Iterable[Arm | Reason]) -> list[Arm]:
        """Arms that can run; why others cannot is kept."""
        arms = []
        for one in found:
            if isinstance(one, Arm):
                arms.append(one)
            else:
                self._declined.append(one)
        return arms

    def _drafting(self, prompts: list[_Prompt], arms: list[Arm]) -> None:
        """Whatever ends it, what there is by then is kept and shown."""
        self._expect(len(arms) + len(prompts) * (1 + self._plan.repeats * len(arms)))
        peers = frozenset(arm.name for arm in arms if arm.is_peer)
        done: list[Answers] = []
        try:
            if prompts:
                self._warm_up(arms, prompts[0].tokens, WARM_UP)
            for number, (kind, prompt) in enumerate(prompts, 1):
                self._tick(f"{kind}, reference")
                reference = arms[0].play(prompt, self._plan.tokens).tokens
                runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
                done.append(Answers(kind, len(prompt), reference, peers, runs))
                try:
                    self._all_answer(
                        arms,
                        done[-1],
                        prompt,
                        self._plan.repeats,
                        self._plan.tokens,
                        is_backwards=number % 2 == 0,
                    )
                finally:
                    if any(runs.values()):
                        self._show(card.kind_table(done[-1].rows(), number, len(prompts)))
        finally:
            kinds = tuple(answers.rows() for answers in done if any(answers.runs.values()))
            if kinds:
                total = total_rows(done)
                found = DraftingReport(kinds, total, self._costs.verify_ms, self._costs.draft_ms)
                self._keep(card.total_table(found), drafting=found, agreement=agreement(kinds))

    def _reading(self, peers: list[Arm]) -> None:
        """A long prompt, of which one token is asked."""
        engine, plan = self._engine, self._plan
        prompt = long_prompt(engine, min(plan.prompt, engine.parts.context_length - LEAST_ROOM))
        arms = [own_arm(engine, plan, "without heads", PLAIN), *peers]
        if engine.parts.model.heads:
            arms.insert(1, own_arm(engine, plan, "with heads", pinned(1)))
        answers = Answers("prompt", len(prompt), (), frozenset(), {arm.name: [] for arm in arms})
        self._expect(len(arms) * (1 + plan.repeats))
        self._warm_up(arms, prompt, 1)
        self._all_answer(arms, answers, prompt, plan.repeats, 1)
        rows = answers.prompt_rows()
        self._keep(card.prompt_table(rows), prompt=rows)

    def _warm_up(self, arms: list[Arm], prompt: list[int], tokens: int) -> None:
        """An answer that does not count: kernels are compiled at their first call."""
        runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
        answers = Answers("warming up", len(prompt), (0,) * tokens, frozenset(), runs)
        self._all_answer(arms, answers, prompt, 1, tokens)

    def _all_answer(
        self,
        arms: list[Arm],
        answers: Answers,
        prompt: list[int],
        repeats: int,
        tokens: int,
        *,
        is_backwards: bool = False,
    ) -> None:
        """There and back; a peer that fails is left out from then."""
        exactly = max(1, len(answers.reference))
        for arm in in_turn(arms, repeats, is_backwards=is_backwards):
            self._tick(f"{answers.kind}, {arm.name}")
            try:
                run = arm.play(prompt, exactly if arm.is_peer else tokens)
                answers.runs[arm.name].append(run)
            except PEER_ERRORS as error:
                if not arm.is_peer:
                    raise
                self._declined.append(cannot(arm.name, error))
                arms.remove(arm)
                del answers.runs[arm.name]

    def _expect(self, answers: int) -> None:
        """So many answers are to come."""
        self._planned, self._done, self._begun = answers, 0, perf_counter()

    def _tick(self, what: str) -> None:
        """One of them begins."""
        left = ""
        if self._done:
            seconds = (perf_counter() - self._begun) * (self._planned / self._done - 1)
            left = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
            left = f", about {left} left"
        self._done += 1
        self._say(f"{what} ({self._done} of {self._planned}){left}")
