"""pytest-qt where Qt loads; elsewhere the window's tests are skipped, and one loud line says so."""

import gc
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder

import pytest

from app.start.qt_libraries import why_no_qt

WHY_NOT = why_no_qt()
QT_OPTIONS = ("qt_log_level_fail", "qt_log_ignore")
"""What pyproject.toml sets for pytest-qt."""

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads wait for one another, busily


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


def pytest_collection_finish() -> None:
    """What was imported stays, 600,000 objects: no search for garbage looks through them again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if WHY_NOT:
        words = f"THE WINDOW WAS NOT TESTED. {WHY_NOT}"
        terminalreporter.write_line(words, red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def _passes_are_timed_once() -> Iterator[None]:
    """Not five times behind the first answer of every engine: no test asks how fast passes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlx_engine.drafting.depth.cost_meter.REPEATS", 1)
        yield


@pytest.fixture
def needs_window() -> None:
    """For a test that starts the window as a process of its own."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    """Qt without a screen."""
    return ["tests", "-platform", "offscreen"]
