"""Check Metal kernels against references and time them against stock MLX."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import (
    ALL_ROWS,
    DECAYS_BY_CHANNEL,
    KERNELS,
    NO_KERNELS,
    KernelName,
    Kernels,
    KernelWork,
    Verdict,
    trial_name,
)
from metal_kernels.kernel import Launcher, MetalLauncher
from metal_kernels.key_value_formats import cache_format_name
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.loading.arrays import gpu_architecture, half_dtype
from mlx_engine.self_check.kernel_cases import CASES, TIMED_CASES, Run, TrialInputs
from mlx_engine.self_check.kernel_record import KernelRecord, name_trial_in_reason, record_key
from mlx_engine.values.options import AskedActivations, AskedNumerics
from mlx_engine.values.words import Words

FEWER_ROWS = (1, 3)
"""Row counts of passes whose rows must have the same bits as those of the longest pass."""

ROUNDING = {mx.float32: 1e-5, mx.float16: 1e-3, mx.bfloat16: 8e-3}
TOLERANCE = 4
"""Steps of rounding, of the largest value, that kernel and reference may differ by."""

COLD_BYTES = 256e6
"""Bytes of weights read by turns in one timing: more than a cache holds, as a model's layers."""

FEWEST_COPIES, MOST_COPIES = 2, 16
REPEATS = 3
FASTER_SHARE = 0.97
"""Time of the kernel over that of stock MLX below which the kernel counts as faster."""

MOST_TIMED, MOST_TIMED_OF_PROMPTS = 2**25, 2**23
"""Weights of the largest matrix that is timed, for few rows and for the many of a prompt."""

WHOLE, OUTPUTS = 512, 46
"""Inputs of a checked matrix are a multiple of WHOLE, so of every block and group. OUTPUTS is no
multiple of what a SIMD-group computes.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One Metal kernel with one weight or cache format, to check and to time.

    checked: sizes to check at. timed: sizes to time at; None where stock MLX cannot do the work.
    """

    kernel: KernelName
    checked: KernelWork
    timed: KernelWork | None = None

    @property
    def name(self) -> str:
        """Kernel and format, the key of the kernel's verdict: "products affine4"."""
        return trial_name(self.kernel, self.checked)

    def make_trial_inputs(self, dtype: mx.Dtype, launcher: Launcher) -> TrialInputs:
        """Make the inputs and reference that the Metal kernel is checked with."""
        return CASES[self.kernel](self.checked, dtype, 1, launcher)


def _standard_trials() -> Iterator[Trial]:
    for form in (*(f"affine{bits}" for bits in (2, 3, 4, 5, 6, 8)), "mxfp4", "nvfp4", "dense"):
        yield Trial("products", KernelWork(form, 45, 192), KernelWork(form, 8192, 4096))
    for form in BLOCK_FORMS:
        yield Trial("products", KernelWork(form, 45, 512))
        yield Trial("prompt-products", KernelWork(form, 45, 512), KernelWork(form, 2048, 4096))
    for form in ("affine4", "mxfp4", "q6_k"):
        yield Trial("tiles", KernelWork(form, 45, 512), KernelWork(form, 8192, 4096))
    yield Trial("prompt-experts", KernelWork("q6_k", 21, 512), KernelWork("q6_k", 512, 2048))
    yield Trial("embedding", KernelWork("q6_k", 45, 512), KernelWork("q6_k", 2048, 4096))
    for form in ("affine4", "affine8", "dense"):
        yield Trial("gate-up", KernelWork(form, 46, 192), KernelWork(form, 24576, 4096))
        yield Trial("product-add", KernelWork(form, 43, 192), KernelWork(form, 4096, 12288))
        yield Trial("experts", KernelWork(form, 21, 192), KernelWork(form, 512, 2048))
        yield Trial("mtp-input", KernelWork(form, 33, 256), KernelWork(form, 4096, 8192))
        yield Trial("pick", KernelWork(form, 333, 192), KernelWork(form, 32768, 4096))
    for work in (
        *(KernelWork("", size, size, 8) for size in (64, 128, 256)),
        *(KernelWork(cache_format_name(bits), 128, 128, 8) for bits in (8, 4)),
        *(KernelWork(cache_format_name(bits, is_latent=True), 512, 64, 20) for bits in (16, 8, 4)),
    ):
        yield Trial("attention", work, work)
    for form in ("", DECAYS_BY_CHANNEL):
        yield Trial("delta", KernelWork(form, 40, 128), KernelWork(form, 128, 128))
    yield Trial("delta-inputs", KernelWork("", 40, 48), KernelWork("", 128, 128))
    for size in (128, 4096):
        yield Trial("norms", KernelWork("", size, size), KernelWork("", size, size))
    yield Trial("exchange", KernelWork("", 4, 4), KernelWork("", 4, 4))
    yield Trial("filtered-pick", KernelWork("", 501, 0), KernelWork("", 151936, 0))
    yield Trial("noise", KernelWork("", 501, 0), KernelWork("", 151936, 0))


TRIALS = tuple(_standard_trials())
"""Every kernel, in the formats that most models have: for the doctor and for tests."""


def trial_of(kernel: KernelName, work: KernelWork) -> Trial:
    """Make a kernel trial of a layer's work: checked at its row length, timed at its size."""
    if kernel == "attention":
        return Trial(kernel, work, work)
    checked, most = work._replace(outputs=min(work.outputs, 512)), MOST_TIMED
    if work.form and kernel != "delta":
        checked = KernelWork(work.form, OUTPUTS, -(-work.inputs // WHOLE) * WHOLE)
    if kernel in ("prompt-products", "prompt-experts"):
        most = MOST_TIMED_OF_PROMPTS
    outputs = max(1, min(work.outputs, most // max(1, work.inputs)))
    is_timed = KERNELS[kernel].has_alternative(work)
    return Trial(kernel, checked, work._replace(outputs=outputs) if is_timed else None)


def check_kernel(trial: Trial, launcher: Launcher, dtype: mx.Dtype) -> str:
    """Compare a Metal kernel with its reference, and each row with itself beside fewer others.

    Return what is wrong, "" for nothing. Raises whatever the kernel raises.
    """
    case = trial.make_trial_inputs(dtype, launcher)
    x = case.x(case.most)
    whole, right = case.kernel(x), case.reference(x)
    whole = whole.reshape(right.shape)
    if case.is_exact:
        if not mx.array_equal(whole, right).item():
            return Words("its result is not that of its reference")
    else:
        wide, exact = whole.astype(mx.float32), right.astype(mx.float32)
        apart = float(mx.abs(wide - exact).max() / mx.abs(exact).max())
        if not apart <= TOLERANCE * ROUNDING[right.dtype]:
            return Words("it lies {apart:.1e} of the largest value off its reference", apart=apart)
    for rows in FEWER_ROWS:
        few = case.kernel(x[:rows]).reshape(rows, *right.shape[1:])
        if not mx.array_equal(few, whole[:rows]).item():
            more = case.most - rows
            return Words("a row of {rows} is another beside {more} more", rows=rows, more=more)
    return ""


def trial_against_stock(
    work: KernelWork,
    make_inputs: Callable[[int], TrialInputs],
    read_clock: Callable[[], float] = perf_counter,
) -> Verdict:
    """Find the row counts at which a correct Metal kernel is faster than stock MLX.

    make_inputs: builds a case of this work from a seed. Row counts between those that are timed go
    by the nearest.
    """
    first = make_inputs(0)
    weights = max(1, work.outputs * work.inputs) * max(1, max(first.timed) // 8)
    copies = min(MOST_COPIES, max(FEWEST_COPIES, round(COLD_BYTES / weights)))
    cases = [first, *map(make_inputs, range(1, copies))]
    shares = {rows: _share_of_time(cases, rows, read_clock) for rows in first.timed}
    nearest = {rows: min(shares, key=lambda timed: abs(timed - rows)) for rows in ALL_ROWS}
    faster = frozenset(rows for rows, timed in nearest.items() if shares[timed] < FASTER_SHARE)
    return Verdict("", faster, shares[min(shares)])


def _share_of_time(
    trial_inputs: Sequence[TrialInputs], rows: int, read_clock: Callable[[], float]
) -> float:
    """The Metal kernel's time over that of the fastest other way: the best runs, by turns.

    The first turn, which compiles, does not count.
    """
    x = trial_inputs[0].x(rows)
    others = [case.other for case in trial_inputs if case.other is not None]
    kernel_s, stock_s = float("inf"), float("inf")
    for repeat in range(REPEATS + 1):
        kernel = _seconds_of_chain([case.kernel for case in trial_inputs], x, read_clock)
        ways = [[case.stock for case in trial_inputs], *([others] if others else [])]
        stock = min(_seconds_of_chain(way, x, read_clock) for way in ways)
        if repeat:
            kernel_s, stock_s = min(kernel_s, kernel), min(stock_s, stock)
    return kernel_s / stock_s


def _seconds_of_chain(steps: Sequence[Run], x: mx.array, read_clock: Callable[[], float]) -> float:
    """Seconds that a chain of dependent kernel calls takes, each with weights of its own."""
    mx.eval(x)
    began = read_clock()
    for step in steps:
        x = x + (step(x).reshape(-1)[:1] * 0).astype(x.dtype)
    mx.eval(x)
    return read_clock() - began


class TrialResult(NamedTuple):
    """Result of checking and timing one Metal kernel.

    trouble: what is wrong with the kernel, or why it could not be timed; "" for nothing.
    """

    trial: Trial
    verdict: Verdict
    trouble: str = ""


def try_kernel(
    trial: Trial,
    launcher: Launcher,
    dtype: mx.Dtype,
    record: KernelRecord,
    *,
    with_timing: bool = True,
) -> TrialResult:
    """Check a Metal kernel and time it against stock MLX, except for what is on record.

    A kernel that raises is off for this load alone and is tried again at the next, as memory may
    have been full.
    """
    name, verdict = record_key(trial.name, dtype), None
    try:
        verdict = record.trials.get(name)
        if verdict is None:
            with record.claim_trial(name):
                verdict = record.trials[name] = Verdict(check_kernel(trial, launcher, dtype))
        work = trial.timed
        if with_timing and work is not None and not verdict.wrong and verdict.faster is None:
            make_case = TIMED_CASES[trial.kernel]
            with record.claim_trial(name):
                verdict = record.trials[name] = trial_against_stock(
                    work, lambda seed: make_case(work, dtype, seed, launcher)
                )
    except Exception as error:
        words = ascii(error)[:160]
        if verdict is not None:
            why = Words("it cannot be timed ({error})", error=words)
            return TrialResult(trial, verdict, why)
        verdict = Verdict(Words("it does not run ({error})", error=words))
    return TrialResult(trial, verdict, verdict.wrong)


def try_all_kernels(
    launcher: Launcher, record: KernelRecord, trials: Iterable[Trial] = TRIALS
) -> Iterator[TrialResult]:
    """Check and time every Metal kernel anew, whatever verdicts are recorded."""
    record.trials.clear()
    for trial in trials:
        yield try_kernel(trial, launcher, usual_dtype(), record)


def usual_dtype(requested_dtype: AskedActivations = "auto") -> mx.Dtype:
    """The dtype of activations on this machine, of models not stored in another 16-bit type."""
    return half_dtype(requested_dtype, gpu_architecture()) or mx.bfloat16


def metal_launcher() -> Launcher | None:
    """The object that launches Metal kernels on this machine's GPU; None without Metal."""
    return MetalLauncher() if mx.metal.is_available() else None


def make_kernels(
    launcher: Launcher | None,
    numerics: AskedNumerics,
    record: KernelRecord | None,
    requested_dtype: AskedActivations = "auto",
) -> Kernels:
    """Make the Metal kernels for a model: none without a launcher, else all not known as wrong.

    Layers use no kernel before ModelTrials has tried it with the model's own type. Work that stock
    MLX cannot do is the exception: as soon as a layer asks for it, it is checked with the usual
    type.
    """
    if launcher is None or record is None:
        return NO_KERNELS
    dtype = usual_dtype(requested_dtype)
    wrong = {
        name: verdict for name, verdict in record.known_verdicts(dtype).items() if verdict.wrong
    }
    kernels = Kernels(launcher, numerics != "fast", verdicts=wrong)

    def try_kernel_now(name: KernelName, work: KernelWork) -> None:
        ModelTrials(kernels, record, dtype).run_trial(trial_of(name, work), with_timing=False)

    kernels.try_now = try_kernel_now
    return kernels


class ModelTrials:
    """Trials of the Metal kernels that a loaded model's layers asked for, at its sizes.

    dtype: of the model's activations. Verdicts count from the next pass on.
    """

    def __init__(self, kernels: Kernels, record: KernelRecord, dtype: mx.Dtype) -> None:
        assert kernels.launcher is not None
        self._kernels, self._record, self._dtype = kernels, record, dtype
        self._launcher = kernels.launcher
        kernels.add_trial_verdicts(record.known_verdicts(dtype))

    def pending_trials(self) -> list[Trial]:
        """List the kernel trials that were not run, or not timed."""
        asked = self._trials_asked_for(self._kernels.may_run_kernel)
        return [
            trial for trial in asked if not self._is_trial_known(trial) or self._needs_timing(trial)
        ]

    def run_trial(self, trial: Trial, *, with_timing: bool = True) -> TrialResult:
        """Check and time the kernel of a trial, except for what is on record; return the result."""
        tried = try_kernel(
            trial, self._launcher, self._dtype, self._record, with_timing=with_timing
        )
        self._kernels.add_trial_verdicts(
            {trial.name: name_trial_in_reason(trial.name, tried.verdict)}
        )
        return tried

    def disable_suspects(self, error: Exception) -> bool:
        """Switch off Metal kernels that may have raised `error`; return whether any was in use.

        Those are the kernels in use that fail their check now, or all if none fails. MLX names what
        went wrong in a command buffer or a compiler, but seldom the kernel.
        """
        used = self._trials_asked_for(lambda name, work: bool(self._kernels.row_counts(name, work)))
        tried = [self._recheck_trial(trial) for trial in used]
        if used and not any(found.trouble for found in tried):
            self._kernels.disable_all_kernels(
                Words(
                    "a pass failed with it in use, and no kernel fails alone ({error})",
                    error=ascii(error)[:160],
                )
            )
        return bool(used)

    def _recheck_trial(self, trial: Trial) -> TrialResult:
        key = record_key(trial.name, self._dtype)
        timed = self._record.trials.pop(key, None)
        tried = self.run_trial(trial, with_timing=False)
        if timed is not None and not tried.trouble:
            self._record.trials[key] = timed
            self._kernels.add_trial_verdicts({trial.name: timed})
        return tried

    def _is_trial_known(self, trial: Trial) -> bool:
        return record_key(trial.name, self._dtype) in self._record.trials

    def _needs_timing(self, trial: Trial) -> bool:
        return trial.timed is not None and self._kernels.needs_timing(trial.kernel, trial.timed)

    def _trials_asked_for(
        self, is_wanted_trial: Callable[[KernelName, KernelWork], object]
    ) -> list[Trial]:
        """Trials of each kernel and format that layers asked for, at the widest size of each."""
        found = dict[str, Trial]()
        for name in KERNELS:
            for work in sorted(self._kernels.asked.get(name, ()), key=lambda work: work.inputs):
                if is_wanted_trial(name, work):
                    trial = trial_of(name, work)
                    found[trial.name] = trial
        return list(found.values())
