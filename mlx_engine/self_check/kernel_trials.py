"""Tries kernels on this machine: against their references, and by the clock against stock MLX."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import ALL_ROWS, Measured, Work
from metal_kernels.kernel import Launcher
from metal_kernels.trial_cases import Case
from metal_kernels.trials import Trial
from mlx_engine.values.words import Words

FEWER = (1, 3)
"""Rows of passes that must have the bits of the longest, which is compared with the reference."""

ROUNDING = {mx.float32: 1e-5, mx.float16: 1e-3, mx.bfloat16: 8e-3}
TOLERANCE = 4
"""Steps of rounding, of the largest value, that kernel and reference may lie apart."""

TIMED_ROWS = (1, 2, 4, 8)
COLD_BYTES = 256e6
"""Weights that are walked through in turn, more than any cache holds, as a model's layers are."""

FEWEST_COPIES, MOST_COPIES = 2, 16
REPEATS = 3
WORTH_IT = 0.97
"""Time of the kernel over that of stock MLX, for it to count as faster."""


class Timed(NamedTuple):
    """Milliseconds of one call of the kernel and of stock MLX."""

    ours: float
    stock: float


class Tried(NamedTuple):
    """A kernel that was checked: what is wrong, "" for nothing; and what was timed, if it was.

    is_lasting: what is wrong will be wrong the next time too; whatever is raised may have passed
    by then (memory that was full, another program).
    """

    trial: Trial
    wrong: str = ""
    is_lasting: bool = True
    measured: tuple[Measured, ...] = ()


def check(trial: Trial, launcher: Launcher, dtype: mx.Dtype, fewer: Sequence[int] = FEWER) -> Tried:
    """Beside its reference, and rows beside fewer of them; every count of rows is built anew."""
    try:
        return Tried(trial, _check(trial.make(trial.checked, dtype, 1), launcher, fewer))
    except Exception as error:
        wrong = Words("it does not run ({error})", error=ascii(error)[:160])
        return Tried(trial, wrong, is_lasting=False)


def _check(case: Case, launcher: Launcher, fewer: Sequence[int]) -> str:
    x = case.x(case.most)
    whole, right = case.ours(x, launcher), case.reference(x)
    whole = whole.reshape(right.shape)
    if case.exact_reference:
        if not mx.array_equal(whole, right).item():
            return Words("its result is not that of its reference")
    else:
        apart = _apart(whole, right)
        if not apart <= TOLERANCE * ROUNDING[x.dtype]:
            return Words("it lies {apart:.1e} of the largest value off its reference", apart=apart)
    for rows in fewer:
        few = case.ours(x[:rows], launcher).reshape(rows, *right.shape[1:])
        if not mx.array_equal(few, whole[:rows]).item():
            more = case.most - rows
            return Words("a row of {rows} is another beside {more} more", rows=rows, more=more)
    return ""


def _apart(one: mx.array, other: mx.array) -> float:
    wide, right = one.astype(mx.float32), other.astype(mx.float32)
    return float(mx.abs(wide - right).max() / mx.abs(right).max())


def faster(
    trial: Trial,
    work: Work,
    launcher: Launcher,
    dtype: mx.Dtype,
    clock: Callable[[], float] = perf_counter,
) -> Measured:
    """The counts of rows at which the kernel beats stock MLX; those between go with the nearest."""
    copies = round(COLD_BYTES / max(1, work.outputs * work.inputs))
    copies = min(MOST_COPIES, max(FEWEST_COPIES, copies))
    cases = [(trial.make_timed or trial.make)(work, dtype, seed) for seed in range(copies)]
    times = {rows: _timed(cases, rows, launcher, clock) for rows in TIMED_ROWS}
    wins = {rows for rows, time in times.items() if time.ours < WORTH_IT * time.stock}
    nearest = {rows: min(TIMED_ROWS, key=lambda one: abs(one - rows)) for rows in ALL_ROWS}
    counts = frozenset(rows for rows, one in nearest.items() if one in wins)
    return Measured(work, counts, times[1].ours / times[1].stock)


def _timed(cases: list[Case], rows: int, launcher: Launcher, clock: Callable[[], float]) -> Timed:
    """Taken in turns, the fastest counts; the first turn builds and warms up."""
    ours = stock = float("inf")
    for repeat in range(REPEATS + 1):
        one = _chain([partial(case.ours, by=launcher) for case in cases], cases, rows, clock)
        other = _chain([case.stock for case in cases], cases, rows, clock)
        if repeat:
            ours, stock = min(ours, one), min(stock, other)
    return Timed(ours, stock)


def _chain(
    steps: list[Callable[[mx.array], mx.array]],
    cases: list[Case],
    rows: int,
    clock: Callable[[], float],
) -> float:
    """Milliseconds a call, each waiting for the one before, each with weights of its own."""
    x = cases[0].x(rows)
    mx.eval(x)
    began = clock()
    for step in steps:
        x = x + (step(x).reshape(-1)[:1] * 0).astype(x.dtype)
    mx.eval(x)
    return 1000 * (clock() - began) / len(steps)
