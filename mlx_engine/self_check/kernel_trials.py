"""Kernels tried on this machine: against their references, and by the clock against stock MLX."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import (
    ALL_ROWS,
    KERNELS,
    NO_KERNELS,
    KernelName,
    Kernels,
    Verdict,
    Work,
    trial_name,
)
from metal_kernels.kernel import Launcher, MetalLauncher
from metal_kernels.key_value_formats import form_name
from metal_kernels.stock import computes_on_gpu
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.self_check.kernel_record import KernelRecord, typed, wrong_here
from mlx_engine.self_check.trial_cases import CASES, TIMED_CASES, Case, Run
from mlx_engine.values.options import AskedNumerics
from mlx_engine.values.words import Words

FEWER = (1, 3)
"""Rows of passes that must have the bits of the longest, which is compared with the reference."""

ROUNDING = {mx.float32: 1e-5, mx.float16: 1e-3, mx.bfloat16: 8e-3}
TOLERANCE = 4
"""Steps of rounding, of the largest value, that kernel and reference may differ by."""

COLD_BYTES = 256e6
"""Weights that are read in turn, more than any cache holds, as the layers of a model are."""

FEWEST_COPIES, MOST_COPIES = 2, 16
REPEATS = 3
WORTH_IT = 0.97
"""Time of the kernel over that of stock MLX, below which it counts as faster."""

MOST_TIMED = 2**25
"""Weights of a matrix that is timed for few rows: all sizes above take as long for each weight."""

MOST_TIMED_OF_PROMPTS = 2**23
"""The same for the many rows of a prompt, whose products take a hundred times as long."""

WHOLE, OUTPUTS = 512, 46
"""A check has a model's own row length, up to whole blocks and groups of every format; and few
outputs, no whole number of what a SIMD-group takes.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One kernel with one format. checked: sizes to check it at; timed: sizes to time it at, None
    where stock MLX has nothing to set against it.
    """

    kernel: KernelName
    checked: Work
    timed: Work | None = None

    @property
    def name(self) -> str:
        """What verdicts are kept by."""
        return trial_name(self.kernel, self.checked)

    def case(self, dtype: mx.Dtype, launcher: Launcher) -> Case:
        """A small one to check."""
        return CASES[self.kernel](self.checked, dtype, 1, launcher)


def _trials() -> Iterator[Trial]:
    for form in (*(f"affine{bits}" for bits in (2, 3, 4, 5, 6, 8)), "mxfp4", "nvfp4", "dense"):
        yield Trial("products", Work(form, 45, 192), Work(form, 8192, 4096))
    for form in BLOCK_FORMS:
        yield Trial("products", Work(form, 45, 512))
        yield Trial("prompt-products", Work(form, 45, 512), Work(form, 2048, 4096))
    yield Trial("prompt-experts", Work("q6_k", 21, 512), Work("q6_k", 512, 2048))
    for form in ("affine4", "affine8", "dense"):
        yield Trial("gate-up", Work(form, 46, 192), Work(form, 24576, 4096))
        yield Trial("product-add", Work(form, 43, 192), Work(form, 4096, 12288))
        yield Trial("experts", Work(form, 21, 192), Work(form, 512, 2048))
        yield Trial("mtp-input", Work(form, 33, 256), Work(form, 4096, 8192))
        yield Trial("pick", Work(form, 333, 192), Work(form, 32768, 4096))
    for work in (
        *(Work("", size, size, 8) for size in (64, 128, 256)),
        *(Work(form_name(bits), 128, 128, 8) for bits in (8, 4)),
        *(Work(form_name(bits, of_latents=True), 512, 64, 20) for bits in (16, 8, 4)),
    ):
        yield Trial("attention", work, work)
    yield Trial("delta", Work("", 40, 128), Work("", 128, 128))
    yield Trial("delta-inputs", Work("", 40, 48), Work("", 128, 128))
    for size in (128, 4096):
        yield Trial("norms", Work("", size, size), Work("", size, size))
    yield Trial("filtered-pick", Work("", 501, 0), Work("", 151936, 0))
    yield Trial("noise", Work("", 501, 0), Work("", 151936, 0))


TRIALS = tuple(_trials())
"""Every kernel, in the formats that models have most: for the doctor and for tests."""


def trial_of(kernel: KernelName, work: Work) -> Trial:
    """A trial for a model's own work: checked at its row length, timed at its own size."""
    if kernel == "attention":
        return Trial(kernel, work, work)
    checked, most = work._replace(outputs=min(work.outputs, 512)), MOST_TIMED
    if work.form:
        checked = Work(work.form, OUTPUTS, -(-work.inputs // WHOLE) * WHOLE)
    if kernel in ("prompt-products", "prompt-experts"):
        most = MOST_TIMED_OF_PROMPTS
    outputs = max(1, min(work.outputs, most // max(1, work.inputs)))
    is_timed = KERNELS[kernel].is_timed(work)
    return Trial(kernel, checked, work._replace(outputs=outputs) if is_timed else None)


def check(trial: Trial, launcher: Launcher, dtype: mx.Dtype) -> str:
    """What is wrong with a kernel beside its reference, and with rows beside fewer of them; "" for
    nothing. Raises whatever the kernel does.
    """
    case = trial.case(dtype, launcher)
    x = case.x(case.most)
    whole, right = case.ours(x), case.reference(x)
    whole = whole.reshape(right.shape)
    if case.is_exact:
        if not mx.array_equal(whole, right).item():
            return Words("its result is not that of its reference")
    else:
        apart = _apart(whole, right)
        if not apart <= TOLERANCE * ROUNDING[x.dtype]:
            return Words("it lies {apart:.1e} of the largest value off its reference", apart=apart)
    for rows in FEWER:
        few = case.ours(x[:rows]).reshape(rows, *right.shape[1:])
        if not mx.array_equal(few, whole[:rows]).item():
            more = case.most - rows
            return Words("a row of {rows} is another beside {more} more", rows=rows, more=more)
    return ""


def _apart(one: mx.array, other: mx.array) -> float:
    wide, right = one.astype(mx.float32), other.astype(mx.float32)
    return float(mx.abs(wide - right).max() / mx.abs(right).max())


def against_stock(
    work: Work, make: Callable[[int], Case], clock: Callable[[], float] = perf_counter
) -> Verdict:
    """By the clock: the counts of rows at which a kernel that is right beats stock MLX.

    make: builds a case of this work by a seed. Counts between those timed go with the nearest.
    """
    first = make(0)
    weights = max(1, work.outputs * work.inputs) * max(1, max(first.timed) // 8)
    copies = min(MOST_COPIES, max(FEWEST_COPIES, round(COLD_BYTES / weights)))
    cases = [first, *map(make, range(1, copies))]
    shares = {rows: _share_of_time(cases, rows, clock) for rows in first.timed}
    nearest = {rows: min(shares, key=lambda timed: abs(timed - rows)) for rows in ALL_ROWS}
    faster = frozenset(rows for rows, timed in nearest.items() if shares[timed] < WORTH_IT)
    return Verdict("", faster, shares[min(shares)])


def _share_of_time(cases: list[Case], rows: int, clock: Callable[[], float]) -> float:
    """The kernel's time over that of stock MLX: taken in turns, the fastest of each counts, and the
    first turn compiles and warms up.
    """
    ours = stock = float("inf")
    for repeat in range(REPEATS + 1):
        mine = _chain([case.ours for case in cases], cases[0].x(rows), clock)
        theirs = _chain([case.stock for case in cases], cases[0].x(rows), clock)
        if repeat:
            ours, stock = min(ours, mine), min(stock, theirs)
    return ours / stock


def _chain(steps: list[Run], x: mx.array, clock: Callable[[], float]) -> float:
    """Seconds of calls that wait for one another, each with weights of its own."""
    mx.eval(x)
    began = clock()
    for step in steps:
        x = x + (step(x).reshape(-1)[:1] * 0).astype(x.dtype)
    mx.eval(x)
    return clock() - began


class Tried(NamedTuple):
    """A trial and the verdict to go by in this load. trouble: what is wrong with the kernel, or why
    it could not be timed, "" for nothing.
    """

    trial: Trial
    verdict: Verdict
    trouble: str = ""


def check_kernel(trial: Trial, launcher: Launcher, dtype: mx.Dtype, record: KernelRecord) -> Tried:
    """Check a kernel, on record meanwhile.

    What it raises holds for this load alone, and is tried again at the next: memory may be full.
    """
    name = typed(trial.name, dtype)
    known = record.trials.pop(name, Verdict())
    try:
        with record.trying(name):
            verdict = known._replace(wrong=check(trial, launcher, dtype))
            record.trials[name] = verdict
    except Exception as error:
        verdict = Verdict(Words("it does not run ({error})", error=ascii(error)[:160]))
    return Tried(trial, verdict, verdict.wrong)


def time_kernel(trial: Trial, launcher: Launcher, dtype: mx.Dtype, record: KernelRecord) -> Tried:
    """Time one that was found to be right, on record meanwhile."""
    work, name, make = trial.timed, typed(trial.name, dtype), TIMED_CASES[trial.kernel]
    assert work is not None
    try:
        with record.trying(name):
            verdict = against_stock(work, lambda seed: make(work, dtype, seed, launcher))
            record.trials[name] = verdict
    except Exception as error:
        trouble = Words("it cannot be timed ({error})", error=ascii(error)[:160])
        return Tried(trial, record.trials[name], trouble)
    return Tried(trial, verdict)


def try_all(
    launcher: Launcher, record: KernelRecord, trials: Iterable[Trial] = TRIALS
) -> Iterator[Tried]:
    """Check and time every kernel anew, whatever the record says by now."""
    dtype = usual_dtype()
    record.trials.clear()
    for trial in trials:
        tried = check_kernel(trial, launcher, dtype, record)
        if trial.timed and not tried.trouble:
            tried = time_kernel(trial, launcher, dtype, record)
        yield tried


def usual_dtype() -> mx.Dtype:
    """The type of activations on this machine, but for models that need another."""
    return mx.bfloat16 if computes_on_gpu() else mx.float32


def launcher_here() -> Launcher | None:
    """Of the GPU; None without Metal."""
    return MetalLauncher() if mx.metal.is_available() else None


def kernels_here(
    launcher: Launcher | None, numerics: AskedNumerics, record: KernelRecord | None
) -> Kernels:
    """Stock MLX without a launcher; else all that `record` does not know to be wrong.

    Nothing is used before it was tried with the model's own type (see ModelTrials), but for what
    stock MLX cannot do at all: it is tried with the usual type as soon as a layer asks for it.
    """
    if launcher is None or record is None:
        return NO_KERNELS
    dtype = usual_dtype()
    wrong = {name: verdict for name, verdict in record.known(dtype).items() if verdict.wrong}
    kernels = Kernels(launcher, numerics != "fast", verdicts=wrong)

    def try_now(name: KernelName, work: Work) -> None:
        ModelTrials(kernels, record, dtype).run(trial_of(name, work))

    kernels.try_now = try_now
    return kernels


class ModelTrials:
    """Trials of what a loaded model's layers asked for, with its own type and row lengths.

    dtype: of its activations. What is found counts from the next pass on.
    """

    def __init__(self, kernels: Kernels, record: KernelRecord, dtype: mx.Dtype) -> None:
        assert kernels.launcher is not None
        self._kernels, self._record, self._dtype = kernels, record, dtype
        self._how = kernels.launcher, dtype, record
        kernels.learn(record.known(dtype))

    def pending(self) -> list[Trial]:
        """Those that were not run yet, or not timed."""
        asked = self._asked(self._kernels.may_serve)
        return [trial for trial in asked if not self._is_known(trial) or self._waits(trial)]

    def steps(self) -> Iterator[Tried]:
        """Run those that are pending, one a step; and time those that are right."""
        for trial in self.pending():
            yield self.run(trial)
            if self._waits(trial):
                yield self._learn(time_kernel(trial, *self._how))

    def run(self, trial: Trial) -> Tried:
        """Check it, unless that was done before."""
        if self._is_known(trial):
            verdict = self._record.trials[typed(trial.name, self._dtype)]
            return self._learn(Tried(trial, verdict, verdict.wrong))
        return self._learn(check_kernel(trial, *self._how))

    def blame(self, error: Exception) -> bool:
        """Switch off what may have raised this in a pass: kernels in use that fail their trial now,
        else all of them; whether there were any.

        MLX tells what went wrong in a command buffer or a compiler, seldom in which kernel.
        """
        used = self._asked(lambda name, work: bool(self._kernels.rows(name, work)))
        tried = [self._learn(check_kernel(trial, *self._how)) for trial in used]
        if used and not any(one.trouble for one in tried):
            self._kernels.stop(
                Words(
                    "a pass failed with it in use, and no kernel fails alone ({error})",
                    error=ascii(error)[:160],
                )
            )
        return bool(used)

    def _learn(self, tried: Tried) -> Tried:
        name = tried.trial.name
        self._kernels.learn({name: wrong_here(name, tried.verdict)})
        return tried

    def _is_known(self, trial: Trial) -> bool:
        return typed(trial.name, self._dtype) in self._record.trials

    def _waits(self, trial: Trial) -> bool:
        return trial.timed is not None and self._kernels.waits_for_clock(trial.kernel, trial.timed)

    def _asked(self, wanted: Callable[[KernelName, Work], object]) -> list[Trial]:
        """One for each kernel and format that layers asked for, the widest of each."""
        found = dict[str, Trial]()
        for name in KERNELS:
            for work in sorted(self._kernels.asked.get(name, ()), key=lambda work: work.inputs):
                if wanted(name, work):
                    trial = trial_of(name, work)
                    found[trial.name] = trial
        return list(found.values())
