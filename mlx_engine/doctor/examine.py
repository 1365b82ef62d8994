"""All checks in order; what one of them raises is its finding."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import mlx_engine
from mlx_engine.doctor import Finding
from mlx_engine.doctor.machine import (
    check_backend,
    check_memory,
    check_packages,
    check_python,
    this_machine,
)
from mlx_engine.doctor.results import check_built_in_model, check_kernels, check_rows
from mlx_engine.kernel_choice.kernels_here import launcher_here

Check = Callable[[], Iterable[Finding]]


def examine(kernel_verdict: Path | None = None) -> Iterator[Finding]:
    """Findings as they are made. kernel_verdict: where to write which are sound and fast."""
    yield from run_checks(checks(kernel_verdict))


def run_checks(checks: dict[str, Check]) -> Iterator[Finding]:
    """A check that raises fails under its own name and does not end the others."""
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            yield Finding(name, "fail", f"{type(error).__name__}: {error}")


def checks(kernel_verdict: Path | None) -> dict[str, Check]:
    """By name, in order; the built-in model comes last and uses the kernels found to be sound."""
    return {
        "python": lambda: [check_python()],
        "packages": check_packages,
        "backend": lambda: [check_backend(this_machine())],
        "memory": lambda: [check_memory(this_machine())],
        "kernels": lambda: check_kernels(launcher_here(), kernel_verdict),
        "rows": check_rows,
        "built-in": lambda: check_built_in_model(
            partial(mlx_engine.load, kernel_verdict=kernel_verdict)
        ),
    }
