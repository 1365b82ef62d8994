"""All checks in order: machine, kernels, rows of stock products, the built-in model's words."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import mlx.core as mx

import mlx_engine
from metal_kernels.choice import KERNELS, MOST_ROWS, Measured
from metal_kernels.kernel import Launcher
from metal_kernels.stock import computes_on_gpu
from metal_kernels.trials import TRIALS, Trial
from mlx_engine.self_check import Finding, State
from mlx_engine.self_check.kernel_record import verdict_here
from mlx_engine.self_check.kernel_trials import Tried
from mlx_engine.self_check.kernels_here import launcher_here, try_all
from mlx_engine.self_check.machine import (
    check_backend,
    check_memory,
    check_packages,
    check_plan,
    check_python,
    this_machine,
)
from mlx_engine.self_check.numerics import MAY_COST
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import DraftOptions, SamplingOptions

PASS_ROWS = 8
SHAPES = ((1024, 512), (512, 1536))
"""Inputs and outputs of the tested matrices."""

Product = Callable[[mx.array], mx.array]
"""Of rows [M, K]."""
OfWeights = Callable[[mx.array], Product]
"""By weights [N, K], which it may pack, once."""
Check = Callable[[], Iterable[Finding]]

PROMPT = "Hello"
LENGTH = 24
DEPTH = 2
GREEDY = SamplingOptions(temperature=0)


def examine(kernel_verdict: Path | None = None, model: str | None = None) -> Iterator[Finding]:
    """Findings as they are made. kernel_verdict: where to write which are sound and fast. model:
    whose memory is planned.
    """
    yield from run_checks(checks(kernel_verdict, model))


def run_checks(checks: dict[str, Check]) -> Iterator[Finding]:
    """A check that raises fails under its own name and does not end the others."""
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
    verdict = verdict_here(kernel_verdict)
    for one in try_all(launcher, verdict, every, timed=timed):
        tried.append(one)
        yield _finding(one)
    if timed:
        yield exact_rows_finding(tried)
    wrong = sum(bool(one.wrong) for one in tried)
    words = f"{len(tried) - wrong} of {len(tried)} right on this GPU"
    is_kept = verdict.write()
    kept = "remembered in" if is_kept else "not remembered: nothing can be written to"
    state: State = "ok" if is_kept and not wrong else "warn"
    yield Finding("kernels", state, f"{words}; {kept} {verdict.file}")


def _finding(one: Tried) -> Finding:
    name = one.trial.words
    if one.wrong:
        return Finding(name, "warn", f"switched off, stock MLX does its work: {one.wrong}")
    speeds = "; ".join(_speed(measured) for measured in one.measured)
    return Finding(name, "ok", f"right, each row by itself; {speeds}" if speeds else "right")


def _speed(measured: Measured) -> str:
    rows = sorted(measured.rows)
    size = _size(measured)
    at_one = f" ({measured.at_one:.2f} of its time at one)"
    if not rows:
        return f"{size}: stock MLX is as fast{at_one}"
    if len(rows) == MOST_ROWS:
        return f"{size}: faster than stock MLX throughout{at_one}"
    counts = ", ".join(str(row) for row in rows)
    return f"{size}: faster than stock MLX at {counts} rows{at_one}"


def _size(measured: Measured) -> str:
    work = measured.work
    return f"{work.outputs} x {work.inputs}" if work.inputs else f"{work.outputs}"


def exact_rows_finding(tried: Iterable[Tried]) -> Finding:
    """Where kernels that exact rows need cost more than they may, beside stock MLX at one row.

    What is the default for a model its own passes decide (numerics.py).
    """
    needed = [one for one in tried if KERNELS[one.trial.kernel].is_exact and one.measured]
    costs = {one.trial.words: max(part.at_one for part in one.measured) - 1 for one in needed}
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
    activations = mx.bfloat16 if computes_on_gpu() else mx.float32
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
