"""What an engine finds out about its model between answers, and tells in its description."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

import mlx.core as mx

from metal_kernels.few_row_matvec import MOST_ROWS
from mlx_engine.decoding.config import computes_beside
from mlx_engine.decoding.device_memory import translate_oom
from mlx_engine.drafting.drafter import DEEPEST
from mlx_engine.drafting.round_costs import PassCosts
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model
from mlx_engine.self_check.cost_meter import CostMeter, pass_timer
from mlx_engine.self_check.kernel_record import KernelRecord, RowsFound
from mlx_engine.self_check.kernel_states import kernel_states
from mlx_engine.self_check.kernel_trials import ModelTrials
from mlx_engine.self_check.numerics import (
    ROWS_PENDING,
    compare_rows,
    costs_too_much,
    exact_cost,
    rows_that_differ,
    rows_unknown,
    with_numerics,
)
from mlx_engine.self_check.teacher_forced import with_head_check
from mlx_engine.values.errors import EngineError, NumericsError, Reason, is_out_of_memory
from mlx_engine.values.options import MAX_DEPTH, LoadOptions

T = TypeVar("T")
R = TypeVar("R")

A_LITTLE_S = 0.5
"""Seconds after an answer for what need not delay one."""


class SelfCheck:
    """Kernels tried, rows compared, passes timed and heads checked: one step after the other, on
    the engine's thread, left and taken up again between any two steps.

    description: of the model, as it is known by now; it stays when the model is let go.
    is_awaited: whether something else is to be done on this thread than `go_on`.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        options: LoadOptions,
        record: KernelRecord | None = None,
        timer_of: Callable[[Model], Callable[[int], float]] = pass_timer,
    ) -> None:
        """record: what is known of this machine; None: there are no kernels to find out about, and
        rows are compared at once. timer_of: times passes of a model.
        """
        self._loaded, self._asked, self._record = loaded, options.numerics, record
        self._timer_of = timer_of
        self.is_awaited: Callable[[], bool] = lambda: False
        self._meter = CostMeter(
            loaded.model, loaded.read_heads, self.deepest, on_host=not computes_beside()
        )
        self.costs_now, self.go_deep = self._meter.costs_now, self._meter.go_deep
        self._checks_heads = options.check_heads and len(loaded.model.heads) > 0
        self._trouble: Reason | None = None
        self._rows: RowsFound | Reason = RowsFound()
        self._steps: Iterator[None] = iter(())
        self._is_done = True
        if record is not None:
            self._trials = ModelTrials(loaded.kernels, record, dtype_of(loaded.model))
            self._begin(record)
        elif self._asked != "fast":
            context = loaded.description.context_length
            self._rows = RowsFound(rows_that_differ(loaded.model, context))
        self.description = loaded.description
        self.tell()

    def let_go(self) -> None:
        """Nothing more is found out."""
        del self._loaded, self._meter, self._steps, self.costs_now, self.go_deep

    def tell(self) -> None:
        """Have kernels and numerics in the description as they are now."""
        kernels = self._loaded.kernels
        described = with_numerics(self.description, self._asked, self._rows, kernels)
        self.description = replace(described, kernels=kernel_states(kernels))

    def tell_trouble(self, trouble: Reason | None) -> None:
        """Have this in the description in place of the last trouble; None: there is none now."""
        if trouble != self._trouble:
            others = (reason for reason in self.description.declined if reason != self._trouble)
            new = () if trouble is None else (trouble,)
            self.description = replace(self.description, declined=(*others, *new))
            self._trouble = trouble

    def deepest(self) -> int:
        """Drafts at most: as many as rows are compared of, or exact kernels take."""
        return MAX_DEPTH if self._has_kernels and self.description.numerics == "exact" else DEEPEST

    def most_rows(self) -> int:
        """Of a pass of several conversations: exact kernels read the weights once for so many."""
        return MOST_ROWS if self._has_kernels else DEEPEST + 1

    @property
    def _has_kernels(self) -> bool:
        return self._loaded.kernels.launcher is not None

    def use_heads(self) -> None:
        """Bring the MTP heads into memory; the first time, check whether they fit."""
        self._meter.use_heads()
        if self._checks_heads:
            self._checks_heads = False
            self.description = with_head_check(self._loaded, self.description)

    def measure(self, stop: Callable[[], bool], *, heads: bool = False) -> PassCosts | None:
        """What passes cost; None where stop() ended it too early, or where a kernel failed and
        stock MLX has its work now. Kernels that were never tried on this machine are tried first.
        """
        with translate_oom():
            if not self._try_kernels(stop):
                return None
            try:
                if heads:
                    self._meter.use_heads()
                return self._meter.measure(stop)
            except Exception as error:
                if not self.can_retry(error):
                    raise
                return None

    def go_on(self) -> None:
        """Find out what is wanted, for a little while, or until something else is awaited."""
        end = perf_counter() + A_LITTLE_S
        work = self.measure if self._meter.is_wanted else self._try_kernels
        work(lambda: perf_counter() > end or self.is_awaited())

    def can_retry(self, error: Exception) -> bool:
        """Whether a pass that ended so is worth another, because kernels that may have been the
        reason are off from now on, which the description says at once. What then holds of rows is
        found out anew. Raises NumericsError with the name of the file where that is to blame.
        """
        is_told = isinstance(error, EngineError) and not isinstance(error, NumericsError)
        may_be_a_kernel = self._record is not None and not is_told and not is_out_of_memory(error)
        if may_be_a_kernel and self._record is not None and self._trials.blame(error):
            self._loaded.kernels.want(exact=self._asked != "fast")
            self._begin(self._record)
            self.tell()
            return True
        if isinstance(error, NumericsError):
            raise NumericsError(
                "{path}: {error}", path=self.description.path, error=error.args[0]
            ) from error
        return False

    def _begin(self, record: KernelRecord) -> None:
        """Begin the steps, but for what is remembered."""
        died = record.trials.get(self._passes)
        if died is not None:
            self._loaded.kernels.stop(f"{died.wrong}, in {self._passes}")
        known = None if self._trials.pending() else record.rows.get(self._name)
        if known is not None:
            self._settle(known)
        else:
            self._rows, self._steps = ROWS_PENDING, self._everything(record)
        self._is_done = known is not None

    def _try_kernels(self, stop: Callable[[], bool]) -> bool:
        """Until kernels are tried and rows compared, or stop(), asked before every step; whether
        all is done.

        What goes wrong here ends the steps of this load, and no answer; the description says so.
        """
        while not self._is_done and not stop():
            try:
                self._is_done = next(self._steps, self) is self
            except Exception as error:
                self._is_done = True
                self._rows = rows_unknown(error)
            self.tell()
        return self._is_done

    def _everything(self, record: KernelRecord) -> Iterator[None]:
        loaded = self._loaded
        for _ in self._trials.steps():
            yield
        if self._asked == "fast":
            return
        differ, cost = "", 0.0
        context = loaded.description.context_length
        for differ in self._recorded(compare_rows(loaded.model, context), record):
            yield
            if differ:
                break
        if not differ and self._asked == "auto":
            passes = exact_cost(loaded.kernels, self._timer_of(loaded.model))
            cost = yield from self._recorded(passes, record)
        found = record.rows[self._name] = RowsFound(differ, cost)
        record.write()
        self._settle(found)

    def _recorded(
        self, passes: Generator[T, None, R], record: KernelRecord
    ) -> Generator[T, None, R]:
        """The same steps; one that ends the program is not begun again with our kernels."""
        while True:
            with record.trying(self._passes):
                try:
                    done = next(passes)
                except StopIteration as end:
                    result: R = end.value
                    return result
            yield done

    def _settle(self, found: RowsFound) -> None:
        """Decide by what is known of the rows whether they stay exact."""
        self._rows = found
        if costs_too_much(found, self._asked):
            self._loaded.kernels.want(exact=False)

    @property
    def _name(self) -> str:
        """What is found of rows holds for models of these sizes, forms and kernels."""
        used = [state.name for state in kernel_states(self._loaded.kernels) if state.in_use]
        return f"{self._sizes}, {self._asked}: {', '.join(used)}"

    @property
    def _passes(self) -> str:
        """The first passes of models of these sizes, as a trial."""
        return f"passes of {self._sizes}"

    @property
    def _sizes(self) -> str:
        model = self._loaded.description
        sizes = f"{model.layers} x {model.hidden_size}, {model.parameters} parameters"
        return f"{model.architecture}, {sizes}, {model.quantisation}"


def dtype_of(model: Model) -> mx.Dtype:
    """The type of a model's activations; nothing is computed."""
    token = mx.zeros((1, 1), dtype=mx.int32)
    return model.forward(token, model.make_caches()).dtype
