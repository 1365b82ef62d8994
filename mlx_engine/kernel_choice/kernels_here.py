"""The kernels a load may use on this machine, by the stored verdict or by a quick check."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import KERNELS, NO_KERNELS, KernelName, Kernels, Measured, this_chip
from metal_kernels.kernel import Launcher, MetalLauncher
from metal_kernels.trials import TRIALS, Trial
from mlx_engine.kernel_choice.try_kernels import FEWER, check, faster
from mlx_engine.kernel_choice.verdict import (
    Circumstances,
    Verdict,
    circumstances,
    read_verdict,
    write_verdict,
)
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.options import Numerics


class Tried(NamedTuple):
    """A kernel that was checked: what is wrong, "" for nothing; and what was timed, if it was."""

    trial: Trial
    wrong: str
    measured: tuple[Measured, ...] = ()


def launcher_here() -> Launcher | None:
    """Of the GPU; None without Metal."""
    return MetalLauncher() if mx.metal.is_available() else None


def try_all(
    launcher: Launcher, trials: Iterable[Trial] = TRIALS, *, timed: bool
) -> Iterator[Tried]:
    """Check every kernel, and time those that are right if `timed`, one by one."""
    dtype = mx.bfloat16 if mx.metal.is_available() else mx.float32
    for trial in trials:
        wrong = check(trial, launcher, dtype, FEWER if timed else FEWER[:1])
        works = trial.timed if timed and not wrong else ()
        measured = tuple(faster(trial, work, launcher, dtype) for work in works)
        yield Tried(trial, wrong, measured)


def verdict_of(tried: Iterable[Tried]) -> Verdict:
    """A kernel is off as soon as it is wrong with one format."""
    off: dict[str, str] = {}
    measured: dict[KernelName, tuple[Measured, ...]] = {}
    for one in tried:
        name = one.trial.kernel
        if one.wrong:
            off.setdefault(name, f"on this GPU {one.trial.words} is wrong: {one.wrong}")
        measured[name] = measured.get(name, ()) + one.measured
    return Verdict(off, measured)


def kernels_here(
    launcher: Launcher | None,
    numerics: Numerics,
    stored: Path | None,
    trials: Iterable[Trial] = TRIALS,
) -> Kernels:
    """Stock MLX without a launcher. stored: where the verdict lies, or is to be put."""
    if launcher is None:
        return NO_KERNELS
    here = circumstances()
    verdict = None if stored is None else read_verdict(stored, here)
    if verdict is None:
        verdict = verdict_of(try_all(launcher, trials, timed=False))
        if stored is not None:
            _remember(stored, verdict, here)
    is_exact = numerics == "exact"
    return Kernels(launcher, is_exact, this_chip(), verdict.off, verdict.measured)


def _remember(file: Path, verdict: Verdict, here: Circumstances) -> None:
    try:
        write_verdict(file, verdict, here)
    except OSError:
        return  # the next load checks again


def kernel_states(kernels: Kernels) -> tuple[KernelState, ...]:
    """Every kernel: used by the model that was built with these kernels, or why not."""
    return tuple(
        KernelState(name, kernel.words, kernels.why_unused(name))
        for name, kernel in KERNELS.items()
    )
