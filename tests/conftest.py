"""pytest-qt where Qt loads; elsewhere the window's tests are skipped, and one loud line says so."""

import gc
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder

import pytest
from hypothesis import settings

from app.start.qt_libraries import why_no_qt

WHY_NOT = why_no_qt()
QT_OPTIONS = ("qt_log_level_fail", "qt_log_ignore")
"""What pyproject.toml sets for pytest-qt."""

settings.register_profile("no clock", settings(), deadline=None)  # machines are busy now and then
settings.load_profile("no clock")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads wait for one another, busily
if sys.platform == "linux":  # there mlx-lm's compiled functions go through g++, a second each
    os.environ.setdefault("MLX_DISABLE_COMPILE", "1")


class NoQt(MetaPathFinder):
    """Whatever imports Qt is skipped."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in ("PySide6", "pytestqt"):
            pytest.skip(WHY_NOT, allow_module_level=True)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """pytest-qt is told not to load by itself, as it ends the whole run where it cannot."""
    if not WHY_NOT:
        pluginmanager.import_plugin("pytestqt.plugin")
        return
    sys.meta_path.insert(0, NoQt())
    for name in QT_OPTIONS:
        parser.addini(name, "Of pytest-qt, which is not loaded.")


def pytest_configure() -> None:
    """Each worker stays on a core of its own.

    MLX computes in a thread that its caller waits for, hundreds of times a second: to wake it on
    another core takes up to a sixth of the time of tests that decode.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if WHY_NOT:
        words = f"THE WINDOW WAS NOT TESTED. {WHY_NOT}"
        terminalreporter.write_line(words, red=True, bold=True)


@pytest.fixture(scope="module", autouse=True)
def _what_there_is_stays() -> None:
    """Imports alone are 600,000 objects, and more come with every file of tests: no search for
    garbage looks through them again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _passes_are_timed_once() -> Iterator[None]:
    """Not five times behind the first answer of every engine: no test asks how fast passes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlx_engine.drafting.depth.cost_meter.REPEATS", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def usual_rows() -> Iterator[dict[str, tuple[int, ...]]]:
    """Of passes that are compared at every load; here few are, else they were most of its time."""
    from mlx_engine import numerics

    few = {"STOCK_ROWS": (2,), "KEYS": (40,)}
    with pytest.MonkeyPatch.context() as patch:
        usual = {name: getattr(numerics, name) for name in few}
        for name, value in few.items():
            patch.setattr(numerics, name, value)
        yield usual


@pytest.fixture(scope="module")
def rows_compared(usual_rows: dict[str, tuple[int, ...]]) -> Iterator[None]:
    """For files that ask what numerics are: they are found out as for a user."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in usual_rows.items():
            patch.setattr(f"mlx_engine.numerics.{name}", value)
        yield


@pytest.fixture
def compiling() -> Iterator[None]:
    """MLX traces and compiles what it is told to, as on a Mac."""
    import mlx.core as mx

    mx.enable_compile()
    yield
    if "MLX_DISABLE_COMPILE" in os.environ:
        mx.disable_compile()


@pytest.fixture
def needs_window() -> None:
    """For a test that starts the window as a process of its own."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    """Qt without a screen."""
    return ["tests", "-platform", "offscreen"]
