"""What is found out about a loaded model behind its answers: one step after the other."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import mlx.core as mx

from mlx_engine.kernel_choice.kernels_here import TrialsOfModel, kernel_states
from mlx_engine.kernel_choice.verdict import Verdict
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model
from mlx_engine.numerics import (
    ROWS_PENDING,
    ExactCost,
    Found,
    compare_rows,
    pass_timer,
    rows_that_differ,
    rows_unknown,
    with_numerics,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import AskedNumerics

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
        self._rows: Found | Reason = ROWS_PENDING
        self._steps: Iterator[None] = iter(())
        self.news = False
        if verdict is not None:
            trials = TrialsOfModel(loaded.kernels, verdict, dtype_of(loaded.model))
            if not trials.pending() and self._name in verdict.rows:
                self._settle(Found.of_words(verdict.rows[self._name]))
            else:
                self._steps = self._all(trials, verdict)
        elif asked != "fast":
            context = loaded.description.context_length
            self._rows = Found(rows_that_differ(loaded.model, context))
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

    def told(self, description: ModelDescription) -> ModelDescription:
        """The description as it is now."""
        self.news = False
        described = with_numerics(description, self._asked, self._rows, self._loaded.kernels)
        return replace(described, kernels=kernel_states(self._loaded.kernels))

    def _all(self, trials: TrialsOfModel, verdict: Verdict) -> Iterator[None]:
        loaded = self._loaded
        for _ in trials.steps():
            self.news = True
            yield
        if self._asked == "fast":
            return
        differ = ""
        for differ in compare_rows(loaded.model, loaded.description.context_length):
            yield
            if differ:
                break
        found = Found(differ)
        if not differ and self._asked == "auto":
            timing = ExactCost(loaded.kernels, self._timer_of(loaded.model))
            yield from timing.steps()
            found = Found("", timing.share)
        verdict.note_rows(self._name, found.as_words())
        self._settle(found)
        self.news = True

    def _settle(self, found: Found) -> None:
        """What is known of the rows decides whether they stay exact."""
        self._rows = found
        if found.costs_too_much(self._asked):
            self._loaded.kernels.want(exact=False)

    @property
    def _name(self) -> str:
        """What is found of rows holds for models of these sizes, forms and kernels."""
        its, kernels = self._loaded.description, self._loaded.kernels
        used = [state.name for state in kernel_states(kernels) if state.in_use]
        sizes = f"{its.layers} x {its.hidden_size}, {its.parameters} parameters, {its.quantisation}"
        return f"{its.architecture}, {sizes}, {self._asked}: {', '.join(used)}"


def dtype_of(model: Model) -> mx.Dtype:
    """Of activations; nothing is computed."""
    token = mx.zeros((1, 1), dtype=mx.int32)
    return model.forward(token, model.make_caches()).dtype
