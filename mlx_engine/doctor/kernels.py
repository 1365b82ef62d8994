"""Whether each kernel is right on this GPU, and where it beats stock MLX; remembered for loads."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from metal_kernels.choice import MOST_ROWS, Measured
from metal_kernels.kernel import Launcher
from metal_kernels.trials import TRIALS, Trial
from mlx_engine.doctor.finding import Finding, State
from mlx_engine.kernel_choice.kernels_here import Tried, try_all, verdict_of
from mlx_engine.kernel_choice.verdict import circumstances, write_verdict


def check_kernels(
    launcher: Launcher | None,
    kernel_verdict: Path | None,
    trials: Iterable[Trial] = TRIALS,
    *,
    timed: bool = True,
) -> Iterator[Finding]:
    """A finding for each kernel that was tried, and one for what loads will make of them."""
    every = list(trials)
    if launcher is None:
        words = (
            f"no Metal here: {len(every)} kernels checked by the emulator in tests; stock plain "
            "ops in use"
        )
        yield Finding("kernels", "ok", words)
        return
    tried = []
    for one in try_all(launcher, every, timed=timed):
        tried.append(one)
        yield _finding(one)
    yield _remembered(tried, kernel_verdict)


def _finding(one: Tried) -> Finding:
    name = one.trial.words
    if one.wrong:
        return Finding(name, "warn", f"switched off, stock MLX does its work: {one.wrong}")
    speeds = "; ".join(_speed(measured) for measured in one.measured)
    return Finding(name, "ok", f"right, each row by itself; {speeds}" if speeds else "right")


def _speed(measured: Measured) -> str:
    work, rows = measured.work, sorted(measured.rows)
    size = f"{work.outputs} x {work.inputs}" if work.inputs else f"{work.outputs}"
    if not rows:
        return f"{size}: stock MLX is as fast"
    if len(rows) == MOST_ROWS:
        return f"{size}: faster than stock MLX throughout"
    return f"{size}: faster than stock MLX at {', '.join(str(row) for row in rows)} rows"


def _remembered(tried: list[Tried], file: Path | None) -> Finding:
    wrong = sum(bool(one.wrong) for one in tried)
    words = f"{len(tried) - wrong} of {len(tried)} right on this GPU"
    state: State = "warn" if wrong else "ok"
    if file is None:
        return Finding("kernels", state, f"{words}; not remembered, each load checks them anew")
    try:
        write_verdict(file, verdict_of(tried), circumstances())
    except OSError as error:
        return Finding("kernels", "warn", f"{words}; not remembered: {error}")
    return Finding("kernels", state, f"{words}; remembered in {file}")
