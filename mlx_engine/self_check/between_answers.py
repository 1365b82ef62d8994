"""Check a loaded model between answers; the results go into the model's description."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import mlx.core as mx

from metal_kernels.few_row_matvec import MOST_ROWS
from metal_kernels.stock import computes_on_gpu
from mlx_engine.decoding.config import translate_oom
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.record import PassCosts
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.sampling.sampler import SamplerKernels
from mlx_engine.self_check.kernel_record import ExactRows, KernelRecord
from mlx_engine.self_check.kernel_states import kernel_states
from mlx_engine.self_check.kernel_trials import ModelTrials
from mlx_engine.self_check.numerics import (
    ROWS_PENDING,
    are_exact_rows_too_slow,
    compare_row_counts,
    comparison_failed_reason,
    exact_rows_cost,
    rows_that_differ,
    with_numerics,
)
from mlx_engine.self_check.pass_costs import CostMeter, pass_timer
from mlx_engine.self_check.teacher_forced import with_head_check
from mlx_engine.values.errors import EngineError, NumericsError, Reason, is_out_of_memory
from mlx_engine.values.options import MAX_DEPTH, CacheOptions, LoadOptions
from mlx_engine.values.words import Words

LONGEST_S = 0.5
"""Seconds of checks after an answer, at most."""

FLOAT16_OVERFLOWED = Reason(
    "float16-overflowed",
    Words(
        "This model's numbers outgrew float16, so it computes in bfloat16 now. To avoid the "
        "switch, load it with bfloat16 as its number format."
    ),
)


class SelfCheck:
    """Checks of a loaded model: kernels, exact rows, times of passes, and whether heads fit.

    They run step by step on the engine's thread and can pause between any two steps.

    description: of the model, with what is known by now; kept when the model is freed.
    is_awaited: whether other work waits for this thread.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        options: LoadOptions,
        record: KernelRecord | None = None,
        make_timer: Callable[[Model], Callable[[int], float]] = pass_timer,
    ) -> None:
        """Prepare the checks of a loaded model.

        record: verdicts on this machine's kernels; None where there are none, and then exact rows
        are checked at once. make_timer: makes the function that times passes of a model.
        """
        self._loaded, self._numerics, self._record = loaded, options.numerics, record
        self._timer_of = make_timer
        self.is_awaited: Callable[[], bool] = lambda: False
        self._meter = CostMeter(
            loaded.model,
            loaded.read_heads,
            self.deepest_draft,
            computes_on_host=not computes_on_gpu(),
            sampling=SamplerKernels.for_kernels(loaded.kernels, loaded.model.vocabulary),
        )
        self.current_costs, self.go_deep = self._meter.current_costs, self._meter.time_long_drafts
        self._checks_heads = options.check_heads and len(loaded.model.heads) > 0
        self._rows: ExactRows | Reason = ExactRows()
        self._steps: Iterator[None] | None = None  # of kernels and rows, until all is known
        self._is_warming = False
        if record is not None:
            self._trials = ModelTrials(loaded.kernels, record, activation_dtype(loaded.model))
            self._begin_checks(record)
        elif self._numerics != "fast":
            context = loaded.description.context_length
            self._rows = ExactRows(rows_that_differ(loaded.model, context))
        self.description = loaded.description
        self.update_description()

    def drop_model(self) -> None:
        """Free the checked model; no further check is possible."""
        del self._loaded, self._meter, self._steps, self.current_costs, self.go_deep

    def update_description(self) -> None:
        """Update kernels and numerics in the model's description."""
        kernels = self._loaded.kernels
        described = with_numerics(self.description, self._numerics, self._rows)
        self.description = replace(described, kernels=kernel_states(kernels))

    def deepest_draft(self) -> int:
        """Most tokens in a draft; with exact numerics limited by the rows of exact kernels."""
        return MAX_DEPTH if self._uses_kernels and self.description.numerics == "exact" else DEEPEST

    def most_shared_rows(self) -> int:
        """Most rows of a forward pass shared by chats; up to these, kernels read weights once."""
        return MOST_ROWS if self._uses_kernels else DEEPEST + 1

    @property
    def _uses_kernels(self) -> bool:
        return self._loaded.kernels.launcher is not None

    def use_heads(self) -> None:
        """Load the MTP heads' weights; the first time, check whether the heads fit the model."""
        self._meter.use_heads()
        if self._checks_heads:
            self._checks_heads = False
            self.description = with_head_check(self._loaded, self.description)

    def measure(self, stop: Callable[[], bool], *, heads: bool = False) -> PassCosts | None:
        """Try kernels that this machine has not tried, then time forward passes of the model.

        Return the costs; None where stop() ended it, or where a kernel failed and is off now.
        """
        with translate_oom():
            if not self._check_kernels_and_rows(stop):
                return None
            try:
                if heads:
                    self._meter.use_heads()
                return self._meter.measure(stop)
            except Exception as error:
                if not self.can_retry(error):
                    raise
                return None

    def warm_up(self, stop: Callable[[], bool], cache: CacheOptions) -> bool:
        """Compile the Metal kernels that an answer may run, whatever its drafts and its sampling.

        Heads are loaded if that is possible, kernels tried and passes timed with KV caches of these
        bits. Return whether all is done; stop() is asked before every step.
        """
        if self._record is None:
            return True
        if not self._is_warming:
            self._is_warming, self._meter.cache = True, cache
            model = self._loaded.model
            try:
                with translate_oom():
                    self.use_heads()
            except EngineError:  # the first answer that drafts tells it
                request_kernel_trials(model, (), cache)
            else:
                request_kernel_trials(model, model.heads, cache)
            if self._steps is None and self._trials.pending_trials():
                self._begin_checks(self._record)
        return self.measure(stop) is not None

    def run_a_while(self) -> None:
        """Run pending checks of the model for at most LONGEST_S seconds, or until work waits."""
        end = perf_counter() + LONGEST_S
        work = self.measure if self._meter.is_wanted else self._check_kernels_and_rows
        work(lambda: perf_counter() > end or self.is_awaited())

    def can_retry(self, error: Exception) -> bool:
        """Switch off Metal kernels that may have raised `error`; return whether to retry the pass.

        Rows are then compared anew. A model whose numbers outgrew float16 computes in bfloat16 from
        then on. Raises NumericsError, which names the model's file, where neither helps.
        """
        if isinstance(error, NumericsError) and self._loaded.model.switch_to_bfloat16():
            self._switch_to_bfloat16()
            return True
        is_told = isinstance(error, EngineError) and not isinstance(error, NumericsError)
        may_be_a_kernel = not is_told and not is_out_of_memory(error)
        if may_be_a_kernel and self._record is not None and self._trials.disable_suspects(error):
            self._loaded.kernels.set_exact_numerics(exact=self._numerics != "fast")
            self._begin_checks(self._record)
            self.update_description()
            return True
        if isinstance(error, NumericsError):
            raise NumericsError(
                "{path}: {error}", path=self.description.path, error=error.args[0]
            ) from error
        return False

    def _switch_to_bfloat16(self) -> None:
        """After a float16 overflow describe the model as bfloat16; have its kernels tried in it."""
        described = self.description
        declined = (*described.declined, FLOAT16_OVERFLOWED)
        self.description = replace(described, activations="bfloat16", declined=declined)
        if self._record is not None:
            self._trials = ModelTrials(self._loaded.kernels, self._record, mx.bfloat16)
            self._begin_checks(self._record)
        self.update_description()

    def _begin_checks(self, record: KernelRecord) -> None:
        """Begin to check kernels and exact rows, except where the record has both results."""
        died = record.trials.get(self._pass_costs_key)
        if died is not None:
            self._loaded.kernels.disable_all_kernels(f"{died.wrong}, in {self._pass_costs_key}")
        known = None if self._trials.pending_trials() else record.rows.get(self._exact_rows_key)
        if known is not None:
            self._apply_exact_rows(known)
        else:
            self._rows, self._steps = ROWS_PENDING, self._kernels_and_rows(record)

    def _check_kernels_and_rows(self, stop: Callable[[], bool]) -> bool:
        """Check kernels and exact rows until stop(); return whether all is known.

        stop is asked before every step. An error ends these checks until the next load, and no
        answer; the description tells it. A step that ends the program is not run again.
        """
        while self._steps is not None and self._record is not None and not stop():
            try:
                with self._record.claim_trial(self._pass_costs_key):
                    if next(self._steps, True):
                        self._steps = None
            except Exception as error:
                self._rows, self._steps = comparison_failed_reason(error), None
            self.update_description()
        return self._steps is None

    def _kernels_and_rows(self, record: KernelRecord) -> Iterator[None]:
        """Try kernels, compare rows bit for bit, and time exact against fast rows, in steps."""
        loaded = self._loaded
        for trial in self._trials.pending_trials():
            self._trials.run_trial(trial)
            yield
        if self._numerics == "fast":
            return
        differ, cost = "", 0.0
        for differ in compare_row_counts(loaded.model, loaded.description.context_length):
            yield
            if differ:
                break
        if not differ and self._numerics == "auto":
            cost = yield from exact_rows_cost(loaded.kernels, self._timer_of(loaded.model))
        found = record.rows[self._exact_rows_key] = ExactRows(differ, cost)
        self._apply_exact_rows(found)

    def _apply_exact_rows(self, exact_rows: ExactRows) -> None:
        """Take over whether rows are exact; switch to fast numerics where that costs too much."""
        self._rows, self._steps = exact_rows, None
        if are_exact_rows_too_slow(exact_rows, self._numerics):
            self._loaded.kernels.set_exact_numerics(exact=False)

    @property
    def _exact_rows_key(self) -> str:
        """Key of the model's exact rows in the record: sizes, formats and kernels."""
        used = [state.name for state in kernel_states(self._loaded.kernels) if state.is_in_use]
        return f"{self._model_sizes}, {self._numerics}: {', '.join(used)}"

    @property
    def _pass_costs_key(self) -> str:
        """Key in the record of kernels for the first passes of models of these sizes."""
        return f"passes of {self._model_sizes}"

    @property
    def _model_sizes(self) -> str:
        model = self._loaded.description
        sizes = f"{model.layers} x {model.hidden_size}, {model.parameters} parameters"
        return f"{model.architecture}, {sizes}, {model.quantisation}"


def activation_dtype(model: Model) -> mx.Dtype:
    """Return the dtype of a model's activations, without computing anything."""
    token = mx.zeros((1, 1), dtype=mx.int32)
    return model.forward(token, model.make_caches()).dtype


def request_kernel_trials(model: Model, heads: Sequence[MtpHead], cache: CacheOptions) -> None:
    """Have a model and its heads ask for their kernels, by passes that are never computed.

    cache: bits of their KV caches.
    """
    token = mx.zeros((1, 1), dtype=mx.int32)
    hidden = model.forward(token, model.make_caches(cache.bits))
    for head in heads:
        head.mtp_logits(head.mtp_forward(token, hidden, head.make_head_caches(cache.head_bits)))
