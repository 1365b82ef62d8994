"""The doctor checks the installation: Python, packages, memory, kernels, built-in model."""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mlx.core as mx

import mlx_engine
from metal_kernels.choice import MOST_ROWS
from metal_kernels.kernel import Launcher, pipeline_count
from mlx_engine.built_in_model import built_in_model
from mlx_engine.decoding.config import gpu_bytes, memory_bytes, usable_bytes
from mlx_engine.loading.describe import inspect_remote
from mlx_engine.self_check import Finding, State
from mlx_engine.self_check.kernel_record import open_kernel_record
from mlx_engine.self_check.kernel_trials import TRIALS, Trial, metal_launcher, try_all_kernels
from mlx_engine.values.errors import EngineError
from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.options import DraftOptions, SamplingOptions

OLDEST = (3, 11)
NEWEST = (3, 13)
NEEDED = ("mlx", "mlx-lm", "tokenizers", "jinja2", "numpy", "gguf")
WINDOW_NEEDS = "PySide6-Essentials"

SMALL_MEMORY = 8_000_000_000
PROMPT, LENGTH = "Hello", 24
GREEDY = SamplingOptions(temperature=0)

PLANNED: dict[Fit, State] = {"fits": "ok", "tight": "warn", "too-large": "fail"}
Check = Callable[[], Iterable[Finding]]


def examine_installation(
    kernel_verdict: Path | None = None, model: str | None = None
) -> Iterator[Finding]:
    """Run all checks of the installation; yields findings as they are made.

    kernel_verdict: the file that keeps verdicts on kernels. model: path or hub id of a model whose
    memory is planned.
    """
    checks: dict[str, Check] = {
        "python": check_python,
        "packages": check_packages,
        "machine": lambda: check_machine(this_machine()),
        "plan": lambda: () if model is None else check_memory_plan(model),
        "kernels": lambda: check_kernels(metal_launcher(), kernel_verdict),
        "built-in": lambda: check_built_in_model(
            partial(mlx_engine.load, kernel_verdict=kernel_verdict)
        ),
    }
    yield from run_checks(checks)


def run_checks(installation_checks: dict[str, Check]) -> Iterator[Finding]:
    """Run the given checks, yielding findings; one that raises fails and the others still run."""
    for name, check in installation_checks.items():
        try:
            yield from check()
        except EngineError as error:
            yield Finding(name, "fail", str(error))
        except Exception as error:
            yield Finding(name, "fail", f"{type(error).__name__}: {error}")


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Iterator[Finding]:
    """Report whether the running Python is one of the tested versions."""
    here = f"{version[0]}.{version[1]} on {platform.system()} {platform.release()}"
    if OLDEST <= version <= NEWEST:
        yield Finding("python", "ok", here)
    else:
        oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
        yield Finding("python", "fail", f"{here}: install Python {oldest} to {newest}")


def check_packages(names: Iterable[str] = (*NEEDED, WINDOW_NEEDS)) -> Iterator[Finding]:
    """Check the packages that the engine needs, then the one that the window needs."""
    for name in names:
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            if name == WINDOW_NEEDS:
                words = "not installed: there is no window without it, only the terminal"
                yield Finding(name, "warn", words)
            else:
                words = "not installed: the engine needs it, install Headstart again"
                yield Finding(name, "fail", words)


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


def check_machine(machine: Machine) -> Iterator[Finding]:
    """Report the MLX backend and the memory; warn where there is no Metal or little memory."""
    if machine.backend == "Metal":
        yield Finding("backend", "ok", f"Metal on {machine.chip}")
    else:
        yield Finding("backend", "warn", "no Metal here: MLX computes on the CPU, which is slow")
    words = f"{machine.memory_bytes / 1e9:.1f} GB"
    if machine.gpu_bytes:
        words += f", {machine.gpu_bytes / 1e9:.1f} GB of it for the GPU"
    if machine.memory_bytes < SMALL_MEMORY:
        yield Finding("memory", "warn", f"{words}: only small models fit")
    else:
        yield Finding("memory", "ok", words)


def check_memory_plan(model: str) -> Iterator[Finding]:
    """Report whether a model fits into memory, by the headers of its files. Raises EngineError."""
    described = inspect_remote(model, built_in_model()).with_machine(
        has_metal=mx.metal.is_available()
    )
    memory = described.memory_fit(usable_bytes(), gpu_bytes=gpu_bytes())
    yield Finding("plan", PLANNED[memory.fit_in_memory], f"{described.name}: {memory.words}")


def check_kernels(
    launcher: Launcher | None, kernel_verdict: Path | None, trials: Sequence[Trial] = TRIALS
) -> Iterator[Finding]:
    """Try all Metal kernels: a finding for each, and one for all together."""
    if launcher is None:
        words = (
            f"no Metal here: {len(trials)} kernels checked by the emulator in tests; MLX's own "
            "operations are used"
        )
        yield Finding("kernels", "ok", words)
        return
    record, wrong = open_kernel_record(kernel_verdict), 0
    for trial, verdict, trouble in try_all_kernels(launcher, record, trials):
        wrong += bool(trouble)
        words = f"switched off, stock MLX does its work: {trouble}" if trouble else "correct"
        if not trouble and verdict.faster is not None:
            counts = f"faster than stock MLX at {len(verdict.faster)} of {MOST_ROWS} row counts"
            words += f"; {counts} ({verdict.share:.2f} of its time at the fewest rows)"
        yield Finding(trial.name, "warn" if trouble else "ok", words)
    words = f"{len(trials) - wrong} of {len(trials)} correct on this GPU"
    is_kept = record.write_record()
    kept = "results are kept in" if is_kept else "results are not kept: cannot write"
    state: State = "ok" if is_kept and not wrong else "warn"
    yield Finding("kernels", state, f"{words}; {kept} {record.file}")


def check_built_in_model(load: Callable[[], "mlx_engine.Engine"]) -> Iterator[Finding]:
    """Run the built-in model; fail when it says nothing, warn when drafts change text.

    With Metal kernels in use, tells how many were compiled before the first answer and in answers.
    Raises EngineError where it does not load.
    """
    with closing(load()) as engine:
        while not engine.warm_up(lambda: False):  # a kernel failed and is off now
            pass
        engine.measure_costs(lambda: False)  # else costs come in between the two texts
        model, warm = engine.description, pipeline_count()
        plain, drafted = (
            engine.generate(PROMPT, LENGTH, GREEDY, DraftOptions(depth=depth)) for depth in (0, 2)
        )
    if not plain.text.strip():
        yield Finding("built-in", "fail", "the built-in model loaded but said nothing")
        return
    speed = f"{plain.stats.tokens_per_second:.0f} tok/s without drafting"
    yield Finding(
        "built-in",
        "ok",
        f"loads and answers, {speed}; numerics {model.numerics}, {model.activations}",
    )
    if any(state.is_in_use for state in model.kernels):
        late = pipeline_count() - warm
        words = f"{warm} kernels compiled before the first answer, {late} in answers"
        yield Finding("cold start", "warn" if late else "ok", words)
    counts = f"{drafted.stats.accepted} of {drafted.stats.drafted} drafted tokens accepted"
    if plain.text != drafted.text:
        yield Finding("same words", "warn", "the text with drafting differs from the plain text")
    elif not drafted.stats.drafted:
        yield Finding("same words", "warn", "nothing was drafted, so there is nothing to compare")
    else:
        yield Finding("same words", "ok", f"drafting changes no word; {counts}")
