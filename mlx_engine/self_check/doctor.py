"""The doctor checks the installation: Python, packages, memory, kernels, built-in model."""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mlx.core as mx

import mlx_engine
from metal_kernels.choice import KERNELS, MOST_ROWS, KernelWork, Verdict
from metal_kernels.kernel import Launcher
from mlx_engine.built_in_model import built_in_model
from mlx_engine.decoding.device_memory import gpu_bytes, memory_bytes, usable_bytes
from mlx_engine.loading.describe import inspect_remote
from mlx_engine.self_check import Finding, State
from mlx_engine.self_check.kernel_record import record_here
from mlx_engine.self_check.kernel_trials import (
    TRIALS,
    Trial,
    TrialResult,
    launcher_here,
    try_all,
)
from mlx_engine.self_check.numerics import MOST_COST
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.options import DraftOptions, SamplingOptions

OLDEST = (3, 11)
NEWEST = (3, 13)
NEEDED = ("mlx", "mlx-lm", "tokenizers", "jinja2", "numpy", "gguf")
WINDOW_NEEDS = "PySide6-Essentials"

SMALL_MEMORY = 8_000_000_000


PROMPT, LENGTH, DEPTH = "Hello", 24, 2
GREEDY = SamplingOptions(temperature=0)

Check = Callable[[], Iterable[Finding]]


def examine(kernel_verdict: Path | None = None, model: str | None = None) -> Iterator[Finding]:
    """Run all checks of the installation; yields findings as they are made.

    kernel_verdict: the file that keeps verdicts on kernels. model: path or hub id of a model whose
    memory is planned.
    """
    yield from run_checks(checks(kernel_verdict, model))


def run_checks(checks: dict[str, Check]) -> Iterator[Finding]:
    """Run the given checks, yielding findings; one that raises fails and the others still run."""
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            yield Finding(name, "fail", f"{type(error).__name__}: {error}")


def checks(kernel_verdict: Path | None, model: str | None = None) -> dict[str, Check]:
    """Return the installation checks by name, in order; the built-in model runs last."""
    return {
        "python": lambda: [check_python()],
        "packages": check_packages,
        "backend": lambda: [check_backend(this_machine())],
        "memory": lambda: [check_memory(this_machine())],
        "plan": lambda: [] if model is None else [check_plan(model)],
        "kernels": lambda: check_kernels(launcher_here(), kernel_verdict),
        "built-in": lambda: check_built_in_model(
            partial(mlx_engine.load, kernel_verdict=kernel_verdict)
        ),
    }


def check_python(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """Report whether the running Python is one of the tested versions."""
    here = f"{found[0]}.{found[1]} on {platform.system()} {platform.release()}"
    if OLDEST <= found <= NEWEST:
        return Finding("python", "ok", here)
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    return Finding("python", "fail", f"{here}: install Python {oldest} to {newest}")


def check_packages() -> Iterator[Finding]:
    """Check the packages that the engine needs, then those that the window needs."""
    for name in NEEDED:
        yield check_package(name, "fail", "the engine needs it: install Headstart again")
    yield check_package(WINDOW_NEEDS, "warn", "there is no window without it, only the terminal")


def check_package(name: str, missing: State, why: str) -> Finding:
    """Report a package's version; state `missing` and `why` when it is not installed."""
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, missing, f"not installed: {why}")


@dataclass(frozen=True, slots=True)
class Machine:
    """MLX backend and memory of this computer. chip: "" without Metal. gpu_bytes: 0 without."""

    backend: str
    chip: str
    memory_bytes: int
    gpu_bytes: int

    @property
    def words(self) -> str:
        """Backend and chip of this computer: "Metal, Apple M4 Max", or "CPU"."""
        return f"{self.backend}, {self.chip}" if self.chip else self.backend


def this_machine() -> Machine:
    """Ask MLX and the system for this computer's backend and memory."""
    if not mx.metal.is_available():
        return Machine("CPU", "", memory_bytes(), 0)
    return Machine("Metal", str(mx.device_info()["device_name"]), memory_bytes(), gpu_bytes())


def check_backend(machine: Machine) -> Finding:
    """Report the MLX backend; warn that without Metal the CPU gives the same text, slowly."""
    if machine.backend == "Metal":
        return Finding("backend", "ok", f"Metal on {machine.chip}")
    return Finding("backend", "warn", "no Metal here: MLX computes on the CPU, which is slow")


def check_memory(machine: Machine) -> Finding:
    """Report this computer's memory; warn where only small models fit."""
    words = f"{machine.memory_bytes / 1e9:.1f} GB"
    if machine.gpu_bytes:
        words += f", {machine.gpu_bytes / 1e9:.1f} GB of it for the GPU"
    if machine.memory_bytes < SMALL_MEMORY:
        return Finding("memory", "warn", f"{words}: only small models fit")
    return Finding("memory", "ok", words)


PLANNED: dict[Fit, State] = {"fits": "ok", "tight": "warn", "too-large": "fail"}


def check_plan(model: str) -> Finding:
    """Report whether a model fits into memory, by the headers of its files."""
    try:
        told = inspect_remote(model, built_in_model()).on(metal=mx.metal.is_available())
    except EngineError as error:
        return Finding("plan", "fail", str(error))
    memory = told.memory_fit(usable_bytes(), gpu_bytes=gpu_bytes())
    return Finding("plan", PLANNED[memory.fit], f"{told.name}: {memory.words}")


def check_kernels(
    launcher: Launcher | None, kernel_verdict: Path | None, trials: Iterable[Trial] = TRIALS
) -> Iterator[Finding]:
    """Try all Metal kernels: a finding for each, for exact rows, and for all together."""
    trials = list(trials)
    if launcher is None:
        words = (
            f"no Metal here: {len(trials)} kernels checked by the emulator in tests; MLX's own "
            "operations are used"
        )
        yield Finding("kernels", "ok", words)
        return
    done = []
    record = record_here(kernel_verdict)
    for tried in try_all(launcher, record, trials):
        done.append(tried)
        yield _kernel_finding(tried)
    yield exact_rows_finding(done)
    wrong = sum(bool(tried.trouble) for tried in done)
    words = f"{len(done) - wrong} of {len(done)} correct on this GPU"
    is_kept = record.write()
    kept = "results are kept in" if is_kept else "results are not kept: cannot write"
    state: State = "ok" if is_kept and not wrong else "warn"
    yield Finding("kernels", state, f"{words}; {kept} {record.file}")


def _kernel_finding(tried: TrialResult) -> Finding:
    trial, verdict, trouble = tried
    if trouble:
        words = f"switched off, stock MLX does its work: {trouble}"
        return Finding(trial.name, "warn", words)
    if trial.timed is None or verdict.faster is None:
        return Finding(trial.name, "ok", "correct")
    return Finding(trial.name, "ok", f"correct; {_speed(trial.timed, verdict)}")


def _speed(work: KernelWork, verdict: Verdict) -> str:
    rows = sorted(verdict.faster or ())
    size = f"{work.outputs} x {work.inputs}" if work.inputs else f"{work.outputs}"
    share = f" ({verdict.share:.2f} of its time at one row)"
    if not rows:
        return f"{size}: stock MLX is as fast{share}"
    where = (
        "at all row counts" if len(rows) == MOST_ROWS else f"at {', '.join(map(str, rows))} rows"
    )
    return f"{size}: faster than stock MLX {where}{share}"


def exact_rows_finding(tried: Iterable[TrialResult]) -> Finding:
    """Warn where a Metal kernel for exact rows is too slow beside stock MLX at one row.

    For a loaded model its own passes decide (numerics.py).
    """
    costs = {
        trial.name: verdict.share - 1
        for trial, verdict, _ in tried
        if KERNELS[trial.kernel].is_exact and verdict.faster is not None
    }
    dear = [f"{name} {100 * cost:+.0f} %" for name, cost in costs.items() if cost > MOST_COST]
    if not costs:
        return Finding("exact rows", "ok", "their cost was not timed")
    dearest = max(costs, key=lambda name: costs[name])
    if dear:
        words = f"cost time where models lean on {', '.join(dear)}: fast is the default there"
        return Finding("exact rows", "warn", words)
    words = f"cost at most {100 * max(0.0, costs[dearest]):.0f} % here ({dearest}): the default"
    return Finding("exact rows", "ok", words)


def check_built_in_model(load: Callable[[], "mlx_engine.Engine"]) -> list[Finding]:
    """Load and run the built-in model; fail when it says nothing, warn when drafts change text."""
    try:
        engine = load()
        try:
            engine.measure_costs(lambda: False)  # else kernels come in between the two texts
            plain = _generate(engine, 0)
            drafted = _generate(engine, DEPTH)
        finally:
            engine.close()
    except EngineError as error:
        return [Finding("built-in", "fail", str(error))]
    return [_answers(plain), _same_words(plain, drafted)]


def _generate(engine: "mlx_engine.Engine", depth: int) -> Generation:
    draft = DraftOptions(depth=depth)
    return engine.generate(PROMPT, max_tokens=LENGTH, sampling=GREEDY, draft=draft)


def _answers(plain: Generation) -> Finding:
    if not plain.text.strip():
        return Finding("built-in", "fail", "the built-in model loaded but said nothing")
    speed = plain.stats.tokens_per_second
    return Finding("built-in", "ok", f"loads and answers, {speed:.0f} tok/s without drafting")


def _same_words(plain: Generation, drafted: Generation) -> Finding:
    if plain.text != drafted.text:
        return Finding("same words", "warn", "the text with drafting differs from the plain text")
    if not drafted.stats.drafted:
        return Finding("same words", "warn", "nothing was drafted, so there is nothing to compare")
    counts = f"{drafted.stats.accepted} of {drafted.stats.drafted}"
    return Finding(
        "same words", "ok", f"drafting changes no word; {counts} drafted tokens accepted"
    )
