"""Checks of this machine and installation: versions, memory, kernels, the built-in model."""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mlx.core as mx

import mlx_engine
from metal_kernels.choice import KERNELS, MOST_ROWS, Verdict, Work
from metal_kernels.kernel import Launcher
from mlx_engine.built_in_model import built_in_model
from mlx_engine.decoding.device_memory import gpu_bytes, memory_bytes, usable_bytes
from mlx_engine.loading.describe import inspect_remote
from mlx_engine.self_check import Finding, State
from mlx_engine.self_check.kernel_record import record_here
from mlx_engine.self_check.kernel_trials import (
    TRIALS,
    Trial,
    Tried,
    launcher_here,
    try_all,
    usual_dtype,
)
from mlx_engine.self_check.numerics import MAY_COST
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.options import DraftOptions, SamplingOptions

OLDEST = (3, 11)
NEWEST = (3, 13)
NEEDED = ("mlx", "mlx-lm", "tokenizers", "jinja2", "numpy", "gguf")
WINDOW_NEEDS = "PySide6-Essentials"

SMALL_MEMORY = 8_000_000_000


PASS_ROWS = 8
SHAPES = ((1024, 512), (512, 1536))
"""Inputs and outputs of the tested matrices."""

PROMPT, LENGTH, DEPTH = "Hello", 24, 2
GREEDY = SamplingOptions(temperature=0)

Product = Callable[[mx.array], mx.array]
"""Of rows [M, K]."""
OfWeights = Callable[[mx.array], Product]
"""By weights [N, K], which it may pack, once."""
Check = Callable[[], Iterable[Finding]]


def examine(kernel_verdict: Path | None = None, model: str | None = None) -> Iterator[Finding]:
    """Findings as they are made. kernel_verdict: the file that remembers which kernels are sound
    and fast. model: the one whose memory is planned.
    """
    yield from run_checks(checks(kernel_verdict, model))


def run_checks(checks: dict[str, Check]) -> Iterator[Finding]:
    """Run all: a check that raises fails under its own name and does not end the others."""
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            yield Finding(name, "fail", f"{type(error).__name__}: {error}")


def checks(kernel_verdict: Path | None, model: str | None = None) -> dict[str, Check]:
    """By name, in order; the built-in model comes last and uses the kernels found to be sound."""
    asked = [] if model is None else [model]
    return {
        "python": lambda: [check_python()],
        "packages": check_packages,
        "backend": lambda: [check_backend(this_machine())],
        "memory": lambda: [check_memory(this_machine())],
        "plan": lambda: map(check_plan, asked),
        "kernels": lambda: check_kernels(launcher_here(), kernel_verdict),
        "rows": check_rows,
        "built-in": lambda: check_built_in_model(
            partial(mlx_engine.load, kernel_verdict=kernel_verdict)
        ),
    }


def check_python(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """Whether this Python is one of the tested versions."""
    here = f"{found[0]}.{found[1]} on {platform.system()} {platform.release()}"
    if OLDEST <= found <= NEWEST:
        return Finding("python", "ok", here)
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    return Finding("python", "fail", f"{here}: install Python {oldest} to {newest}")


def check_packages() -> Iterator[Finding]:
    """What the engine needs, then what the window needs."""
    for name in NEEDED:
        yield check_package(name, "fail", "the engine needs it: install Headstart again")
    yield check_package(WINDOW_NEEDS, "warn", "there is no window without it, only the terminal")


def check_package(name: str, missing: State, why: str) -> Finding:
    """Its version; `missing` and `why` when it is not installed."""
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, missing, f"not installed: {why}")


@dataclass(frozen=True, slots=True)
class Machine:
    """chip: empty where MLX does not name it. gpu_bytes: what the GPU may hold, 0 without one."""

    backend: str
    chip: str
    memory_bytes: int
    gpu_bytes: int


def this_machine() -> Machine:
    """Ask MLX and the system."""
    if not mx.metal.is_available():
        return Machine("CPU", "", memory_bytes(), 0)
    return Machine("Metal", str(mx.device_info()["device_name"]), memory_bytes(), gpu_bytes())


def backend_words() -> str:
    """ "Metal, Apple M4 Max", or "CPU"."""
    machine = this_machine()
    return f"{machine.backend}, {machine.chip}" if machine.chip else machine.backend


def check_backend(machine: Machine) -> Finding:
    """Metal is what the engine is made for; the CPU gives the same words, slowly."""
    if machine.backend == "Metal":
        return Finding("backend", "ok", f"Metal on {machine.chip}")
    return Finding("backend", "warn", "no Metal here: MLX computes on the CPU, which is slow")


def check_memory(machine: Machine) -> Finding:
    """How much there is for a model."""
    words = f"{machine.memory_bytes / 1e9:.1f} GB"
    if machine.gpu_bytes:
        words += f", {machine.gpu_bytes / 1e9:.1f} GB of it for the GPU"
    if machine.memory_bytes < SMALL_MEMORY:
        return Finding("memory", "warn", f"{words}: only small models fit")
    return Finding("memory", "ok", words)


PLANNED: dict[Fit, State] = {"fits": "ok", "tight": "warn", "too-large": "fail"}


def check_plan(model: str) -> Finding:
    """Whether a model fits, told from its headers."""
    try:
        told = inspect_remote(model, built_in_model()).on(metal=mx.metal.is_available())
    except EngineError as error:
        return Finding("plan", "fail", str(error))
    memory = told.memory_fit(usable_bytes(), gpu_bytes=gpu_bytes())
    return Finding("plan", PLANNED[memory.fit], f"{told.name}: {memory.words}")


def check_kernels(
    launcher: Launcher | None, kernel_verdict: Path | None, trials: Iterable[Trial] = TRIALS
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
    done = []
    record = record_here(kernel_verdict)
    for tried in try_all(launcher, record, every):
        done.append(tried)
        yield _of_trial(tried)
    yield exact_rows_finding(done)
    wrong = sum(bool(tried.trouble) for tried in done)
    words = f"{len(done) - wrong} of {len(done)} right on this GPU"
    is_kept = record.write()
    kept = "remembered in" if is_kept else "not remembered: nothing can be written to"
    state: State = "ok" if is_kept and not wrong else "warn"
    yield Finding("kernels", state, f"{words}; {kept} {record.file}")


def _of_trial(tried: Tried) -> Finding:
    trial, verdict, trouble = tried
    if trouble:
        words = f"switched off, stock MLX does its work: {trouble}"
        return Finding(trial.name, "warn", words)
    if trial.timed is None or verdict.faster is None:
        return Finding(trial.name, "ok", "right")
    return Finding(trial.name, "ok", f"right, each row by itself; {_speed(trial.timed, verdict)}")


def _speed(work: Work, verdict: Verdict) -> str:
    rows = sorted(verdict.faster or ())
    size = f"{work.outputs} x {work.inputs}" if work.inputs else f"{work.outputs}"
    share = f" ({verdict.share:.2f} of its time at one)"
    if not rows:
        return f"{size}: stock MLX is as fast{share}"
    if len(rows) == MOST_ROWS:
        return f"{size}: faster than stock MLX throughout{share}"
    counts = ", ".join(str(row) for row in rows)
    return f"{size}: faster than stock MLX at {counts} rows{share}"


def exact_rows_finding(tried: Iterable[Tried]) -> Finding:
    """Where kernels that exact rows need cost more than they may, beside stock MLX at one row.

    What is the default for a model its own passes decide (numerics.py).
    """
    costs = {
        trial.name: verdict.share - 1
        for trial, verdict, _ in tried
        if KERNELS[trial.kernel].is_exact and verdict.faster is not None
    }
    dear = [f"{name} {100 * cost:+.0f} %" for name, cost in costs.items() if cost > MAY_COST]
    if not costs:
        return Finding("exact rows", "ok", "their cost was not timed")
    dearest = max(costs, key=lambda name: costs[name])
    if dear:
        words = f"cost time where models lean on {', '.join(dear)}: fast is the default there"
        return Finding("exact rows", "warn", words)
    words = f"cost at most {100 * max(0.0, costs[dearest]):.0f} % here ({dearest}): the default"
    return Finding("exact rows", "ok", words)


def check_rows() -> Iterator[Finding]:
    """Whether a row of a product depends on the rows beside it, with stock MLX on this machine.

    Drafting verifies k+1 rows in one pass; where a row depends on them, the same text with drafting
    on and off takes more than the stock kernels. One finding for each way of storing weights, with
    activations of the type that models use here.
    """
    activations = usual_dtype()
    yield rows_finding("rows float32", lambda weights: lambda rows: rows @ weights.T, mx.float32)
    for bits in (8, 4):
        yield rows_finding(f"rows {bits}-bit", partial(_quantised, bits=bits), activations)


def rows_finding(name: str, by: OfWeights, dtype: mx.Dtype) -> Finding:
    """Warn when a product's rows depend on their number."""
    dependent = {count for shape in SHAPES for count in dependent_rows(by, shape, dtype)}
    if not dependent:
        return Finding(name, "ok", f"bit-equal in passes of 1 to {PASS_ROWS} rows")
    counts = ", ".join(map(str, sorted(dependent)))
    return Finding(name, "warn", f"a row changes in passes of {counts} rows, with stock kernels")


def dependent_rows(by: OfWeights, shape: tuple[int, int], dtype: mx.Dtype) -> list[int]:
    """Row counts up to 8 at which some row differs, in any bit, from that row alone."""
    inputs, outputs = shape
    rows = mx.random.normal((PASS_ROWS, inputs), key=mx.random.key(7)).astype(dtype)
    product = by(mx.random.normal((outputs, inputs), key=mx.random.key(11)).astype(dtype))
    alone = mx.concatenate([product(rows[i : i + 1]) for i in range(PASS_ROWS)])
    return [
        count
        for count in range(2, PASS_ROWS + 1)
        if not mx.array_equal(product(rows[:count]), alone[:count]).item()
    ]


def _quantised(weights: mx.array, *, bits: int) -> Product:
    packed = mx.quantize(weights, group_size=64, bits=bits)
    return lambda rows: mx.quantized_matmul(rows, *packed, transpose=True, group_size=64, bits=bits)


def check_built_in_model(load: Callable[[], "mlx_engine.Engine"]) -> list[Finding]:
    """Fail when it cannot be loaded or says nothing; warn when drafting changes its words."""
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
    return Finding("same words", "ok", f"drafting changes none; {counts} drafted tokens accepted")
