"""All checks in order; what one of them raises is its finding."""

from collections.abc import Callable, Iterable, Iterator

import mlx_engine
from mlx_engine.doctor.built_in import check_built_in_model
from mlx_engine.doctor.finding import Finding
from mlx_engine.doctor.machine import check_backend, check_memory, this_machine
from mlx_engine.doctor.rows import check_rows
from mlx_engine.doctor.versions import check_packages, check_python

NO_KERNELS = "no custom kernels yet: stock MLX kernels in use"

Check = Callable[[], Iterable[Finding]]


def examine() -> Iterator[Finding]:
    """Findings as they are made."""
    yield from run_checks(CHECKS)


def run_checks(checks: dict[str, Check]) -> Iterator[Finding]:
    """A check that raises fails under its own name and does not end the others."""
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            yield Finding(name, "fail", f"{type(error).__name__}: {error}")


def _check_kernels() -> Finding:
    return Finding("kernels", "ok", NO_KERNELS)


CHECKS: dict[str, Check] = {
    "python": lambda: [check_python()],
    "packages": check_packages,
    "backend": lambda: [check_backend(this_machine())],
    "memory": lambda: [check_memory(this_machine())],
    "kernels": lambda: [_check_kernels()],
    "rows": check_rows,
    "built-in": lambda: check_built_in_model(mlx_engine.load),
}
