"""Runs the parts that were asked for, once drafted text is known to equal plain text."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from mlx_engine.bench.drafting import check_agreement, measure_acceptance, measure_drafting
from mlx_engine.bench.footprint import count_own_ops, count_peer_ops, measure_memory
from mlx_engine.bench.plain import compare_with_peers
from mlx_engine.bench.report import BenchReport, OpsRow, PeerComparison, Plan
from mlx_engine.bench.subject import chat_prompts
from mlx_engine.doctor.machine import backend_words, this_machine
from mlx_engine.engine import Engine, open_engine
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import LoadOptions

T = TypeVar("T")
Say = Callable[[str], None]
NEEDS_HEADS = ("drafting", "acceptance")
ROOM_FOR_TWO = 0.8
"""Share of the memory that our copy of a model and the peer's may take together."""


def run_bench(
    model: Engine | str | Path | None,
    plan: Plan | None = None,
    *,
    options: LoadOptions | None = None,
    say: Say = lambda _: None,
) -> BenchReport:
    """Measure a loaded engine, or the model at a path (None: the built-in one).

    options: how the path is opened. say: told what is being measured. Raises EngineError where
    loading or generating does; what only a part cannot do is declined in the report.
    """
    if model is None or isinstance(model, str | Path):
        engine = open_engine(model, options or LoadOptions())
        try:
            return _Bench(engine, plan or Plan(), say).report()
        finally:
            engine.close()
    return _Bench(model, plan or Plan(), say).report()


class _Bench:
    def __init__(self, engine: Engine, plan: Plan, say: Say) -> None:
        self._engine = engine
        self._plan = plan
        self._say = say
        self._declined: list[Reason] = []

    def report(self) -> BenchReport:
        engine, plan = self._engine, self._plan
        self._say("Trying kernels and timing passes")
        engine.measure_costs(lambda: False)  # else they change between one text and the next
        self._say("Checking that drafted text equals plain text")
        prompts = chat_prompts(engine, plan.agreement_prompts)
        empty = BenchReport(
            model=engine.description.name,
            quantisation=engine.description.quantisation,
            numerics=engine.description.numerics,
            backend=backend_words(),
            mlx=version("mlx"),
            quick=plan.is_quick,
            agreement=check_agreement(engine, prompts, plan.agreement_tokens),
        )
        if not empty.agreement.is_green:
            words = f"Drafted text is not plain text ({empty.agreement.difference}): no figures."
            return replace(empty, declined=(Reason("text-differs", words),))
        return replace(
            empty,
            plain=self._part("plain", self._plain),
            drafting=self._part("drafting", lambda: measure_drafting(engine, plan)),
            acceptance=self._part("acceptance", lambda: measure_acceptance(engine, plan)),
            memory=self._part("memory", lambda: measure_memory(engine, plan)),
            ops=self._part("ops", self._ops),
            declined=tuple(self._declined),
        )

    def _part(self, name: str, measure: Callable[[], T]) -> T | None:
        if name not in self._plan.parts:
            return None
        if name in NEEDS_HEADS and self._engine.parts.model.mtp_depth == 0:
            self._declined.append(
                self._engine.description.mtp or Reason("no-heads", "This model has no MTP heads.")
            )
            return None
        self._say(f"Measuring {name}")
        return measure()

    def _plain(self) -> tuple[PeerComparison, ...] | None:
        return self._with_peer(lambda: compare_with_peers(self._engine, self._plan))

    def _ops(self) -> tuple[OpsRow, ...]:
        peer = self._with_peer(lambda: count_peer_ops(self._engine))
        return (*count_own_ops(self._engine), *((peer,) if peer else ()))

    def _with_peer(self, measure: Callable[[], T]) -> T | None:
        """None, with the reason, where mlx-lm cannot run this model beside us."""
        description, machine = self._engine.description, this_machine()
        if 2 * description.nbytes > ROOM_FOR_TWO * (machine.gpu_bytes or machine.memory_bytes):
            self._decline("peer-no-room", "Memory does not hold this model twice: no comparison.")
            return None
        try:
            return measure()
        except (OSError, ValueError, KeyError) as error:
            self._decline("peer-cannot", f"mlx-lm cannot open this model: {error}")
            return None

    def _decline(self, code: str, words: str) -> None:
        reason = Reason(code, words)
        if reason not in self._declined:
            self._declined.append(reason)
