"""pytest-qt where Qt loads; elsewhere the window's tests are skipped, and one loud line says so."""

import gc
import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
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
        # it reads the source of all that is imported, for features that nobody here asks for
        import_module("PySide6.support.feature")._mod_uses_pyside = lambda module: False
        return
    sys.meta_path.insert(0, NoQt())
    for name in QT_OPTIONS:
        parser.addini(name, "Of pytest-qt, which is not loaded.")


def pytest_configure() -> None:
    """Each worker stays on a core of its own, and looks for no garbage while it imports.

    MLX computes in a thread that is woken for every operation and that its caller waits for: to
    wake it on another core takes up to a sixth of the time of tests that decode, and to let it in
    at once, instead of when its caller waits, a third.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    gc.disable()


def pytest_collection_finish() -> None:
    """Of what is imported nothing is garbage, and to look for it took a fifth of the imports."""
    gc.enable()


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
def _apps_leave_nothing_out_of_collections() -> Iterator[None]:
    """They come and go here, and all of them would be kept."""
    its = sys.modules.get("app.app")
    with pytest.MonkeyPatch.context() as patch:
        if its is not None:
            kind = its.Collector
            patch.setattr(its, "Collector", type("Collector", (kind,), {"settle": lambda _: None}))
        yield


@pytest.fixture(scope="session", autouse=True)
def _nobody_pulls_the_plug() -> Iterator[None]:
    """What is written is not waited for: a program that is killed loses none of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


ROWS_COMPARED = {
    "mlx_engine.self_check.numerics.STOCK_ROWS": (2,),
    "mlx_engine.self_check.numerics.KEY_COUNTS": (40,),
}
"""Of the passes that say at every load whether rows depend on one another: else most of a load."""

_METER = "mlx_engine.self_check.pass_costs"
PASSES_TIMED = {f"{_METER}.FEW_ROWS": (1, 2, 9), f"{_METER}.QUEUED": 3}
"""Of those that are timed behind the first answer of every engine: else a quarter of its work."""


@pytest.fixture(scope="session", autouse=True)
def usually() -> Iterator[dict[str, object]]:
    """Little is found out of the machine again and again, as but for some files no test asks: what
    a user has instead.
    """
    usual: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, few in {**ROWS_COMPARED, **PASSES_TIMED, f"{_METER}.REPEATS": 1}.items():
            usual[name] = pkgutil.resolve_name(name)
            patch.setattr(name, few)
        yield usual


@pytest.fixture(scope="session", autouse=True)
def _templates_are_compiled_once() -> Iterator[None]:
    """Tiny models share a handful of chat templates: to compile one is a third of their load."""
    from mlx_engine.text.template_sandbox import TemplateSandbox

    compile_source = TemplateSandbox.compile_source
    with pytest.MonkeyPatch.context() as patch:
        of_source = lru_cache(lambda source: compile_source(TemplateSandbox(), source))
        patch.setattr(TemplateSandbox, "compile_source", lambda sandbox, source: of_source(source))
        yield


@pytest.fixture(scope="module")
def rows_compared(usually: dict[str, object]) -> Iterator[None]:
    """For files that ask what numerics are."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ROWS_COMPARED:
            patch.setattr(name, usually[name])
        yield


@pytest.fixture(scope="module")
def passes_timed(usually: dict[str, object]) -> Iterator[None]:
    """For files that ask what passes cost, or have all their kernels compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PASSES_TIMED:
            patch.setattr(name, usually[name])
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
def qapp_cls() -> type:
    """The application is ours, whichever test of a window comes first."""
    from app.start.outside import Application

    return Application


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    """Qt without a screen."""
    return ["tests", "-platform", "offscreen"]
