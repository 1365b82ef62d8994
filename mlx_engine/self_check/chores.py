"""What is found out about a loaded model behind its answers: one step after the other."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import mlx.core as mx

from metal_kernels.choice import KERNELS
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model
from mlx_engine.self_check.kernel_record import Verdict
from mlx_engine.self_check.kernel_states import kernel_states
from mlx_engine.self_check.kernels_here import TrialsOfModel
from mlx_engine.self_check.numerics import (
    ROWS_PENDING,
    ExactCost,
    Found,
    compare_rows,
    pass_timer,
    rows_that_differ,
    rows_unknown,
    with_numerics,
)
from mlx_engine.values.errors import EngineError, NumericsError, Reason, is_out_of_memory
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import AskedNumerics

T = TypeVar("T")
TimerOf = Callable[[Model], Callable[[int], float]]


class Chores:
    """On the engine's thread, left and taken up again between any two steps.

    verdict: what is known of this machine; None where there are no kernels to find out about: rows
    are then compared at once. timer_of: times passes of a model. news: something that the
    description tells has changed.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        asked: AskedNumerics,
        verdict: Verdict | None,
        timer_of: TimerOf = pass_timer,
    ) -> None:
        self._loaded, self._asked, self._timer_of = loaded, asked, timer_of
        self._verdict = verdict
        self._rows: Found | Reason = ROWS_PENDING
        self._steps: Iterator[None] = iter(())
        self._is_done = self.news = False
        if verdict is not None:
            self._trials = TrialsOfModel(loaded.kernels, verdict, dtype_of(loaded.model))
            self._begin(verdict)
        elif asked != "fast":
            context = loaded.description.context_length
            self._rows = Found(rows_that_differ(loaded.model, context))

    def _begin(self, verdict: Verdict) -> None:
        """What is remembered need not be found out."""
        why = verdict.tried.get(self._passes, "")
        for name in KERNELS if why else ():
            self._loaded.kernels.switch_off(name, f"{why}, in {self._passes}")
        if not self._trials.pending() and self._name in verdict.rows:
            self._settle(Found.of_words(verdict.rows[self._name]))
        else:
            self._rows, self._steps = ROWS_PENDING, self._all(verdict)
        self._is_done = False

    def go_on(self, stop: Callable[[], bool]) -> bool:
        """Until all is done or stop(), asked before every step; whether all is done.

        What goes wrong here ends the chores of this load, and no answer; the description says so.
        """
        while not self._is_done and not stop():
            try:
                self._is_done = next(self._steps, self) is self
            except Exception as error:
                self._is_done = self.news = True
                self._rows = rows_unknown(error)
        return self._is_done

    def survives(self, error: Exception) -> bool:
        """Whether a pass that ended so is worth another, because kernels that may have been the
        reason are off from now on; what then holds of rows is found out anew.
        """
        is_told = isinstance(error, EngineError) and not isinstance(error, NumericsError)
        if self._verdict is None or is_told or is_out_of_memory(error):
            return False
        if not self._trials.blame(error):
            return False
        self._loaded.kernels.want(exact=self._asked != "fast")
        self._begin(self._verdict)
        self.news = True
        return True

    def told(self, description: ModelDescription) -> ModelDescription:
        """The description as it is now."""
        self.news = False
        described = with_numerics(description, self._asked, self._rows, self._loaded.kernels)
        return replace(described, kernels=kernel_states(self._loaded.kernels))

    def _all(self, verdict: Verdict) -> Iterator[None]:
        loaded = self._loaded
        for _ in self._trials.steps():
            self.news = True
            yield
        if self._asked == "fast":
            return
        differ = ""
        compared = compare_rows(loaded.model, loaded.description.context_length)
        for differ in self._watched(compared, verdict):
            yield
            if differ:
                break
        found = Found(differ)
        if not differ and self._asked == "auto":
            timing = ExactCost(loaded.kernels, self._timer_of(loaded.model))
            yield from self._watched(timing.steps(), verdict)
            found = Found("", timing.share)
        verdict.note_rows(self._name, found.as_words())
        self._settle(found)
        self.news = True

    def _watched(self, passes: Iterator[T], verdict: Verdict) -> Iterator[T]:
        """The same steps; one that ends the program is not begun again, with our kernels."""
        while True:
            verdict.begin(self._passes)
            try:
                done = next(passes)
            except StopIteration:
                return
            finally:
                verdict.end(None)
            yield done

    def _settle(self, found: Found) -> None:
        """What is known of the rows decides whether they stay exact."""
        self._rows = found
        if found.costs_too_much(self._asked):
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
        its = self._loaded.description
        sizes = f"{its.layers} x {its.hidden_size}, {its.parameters} parameters, {its.quantisation}"
        return f"{its.architecture}, {sizes}"


def dtype_of(model: Model) -> mx.Dtype:
    """Of activations; nothing is computed."""
    token = mx.zeros((1, 1), dtype=mx.int32)
    return model.forward(token, model.make_caches()).dtype
