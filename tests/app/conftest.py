"""An end for the objects of Qt, on the thread they live on."""

import gc
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    pass

MUCH = 20_000
"""Objects that have come up since the last collection."""


@pytest.fixture(scope="session", autouse=True)
def _english_system():
    """Whoever runs the tests: texts and figures that follow the system are English."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C.UTF-8")
        yield


PATIENCE_MS = 60_000
"""Longest wait of `waitUntil` and `waitSignal`: a busy machine needs more than pytest-qt's 5 s."""


@pytest.fixture
def qtbot(qapp, request):
    """pytest-qt's, with waits that end late where nothing else is said."""
    from pytestqt.qtbot import QtBot

    class PatientBot(QtBot):
        def waitUntil(self, callback, *, timeout=PATIENCE_MS):  # noqa: N802
            super().waitUntil(callback, timeout=timeout)

        def waitSignal(self, signal, *, timeout=PATIENCE_MS, **more):  # noqa: N802
            return super().waitSignal(signal, timeout=timeout, **more)

    return PatientBot(request)


@pytest.fixture
def speaking(qapp):
    """Has what is made from now on in a language, for this test."""
    from PySide6.QtCore import QLocale, QTranslator

    from app.window.language import speak

    usual = QLocale()
    yield lambda language: speak(qapp, language)
    for translator in qapp.findChildren(QTranslator):
        qapp.removeTranslator(translator)
        translator.deleteLater()
    QLocale.setDefault(usual)


@pytest.fixture(scope="module", autouse=True)
def _no_collection_on_other_threads():
    """As app.start has it: a window in a cycle must not end on the thread of a download."""
    gc.disable()
    yield
    gc.enable()


PAUSES = {
    ("app.window.controls.fields", "SETTLED_MS"): 50,
    ("app.control.rest", "KEPT_AFTER_MS"): 50,
    ("app.state.drafts", "SAVED_AFTER_MS"): 50,
    ("app.state.answers", "TICK_MS"): 50,
}
"""Of those, in which a core had nothing to do, a test at a time."""


@pytest.fixture(scope="module", autouse=True)
def _short_pauses():
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), short in PAUSES.items():
            if module in sys.modules:
                patch.setattr(sys.modules[module], name, short)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Widgets that pytest-qt closed are gone at once: Qt dresses all there are, closed or not."""
    core = sys.modules.get("PySide6.QtCore")
    if core is not None and core.QCoreApplication.instance() is not None:
        core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete)


@pytest.fixture(autouse=True)
def _collection_between_tests(_no_collection_on_other_threads):
    """And widgets that have no parent are gone: each is dressed whenever another one is. Not beside
    a window that stays, which may be making parts of itself.
    """
    yield
    widgets = sys.modules.get("PySide6.QtWidgets")
    if widgets is not None:
        alone = [one for one in widgets.QApplication.topLevelWidgets() if one.parent() is None]
        if not any(one.property("stays") for one in alone):
            for widget in alone:
                widget.deleteLater()
    if gc.get_count()[0] > MUCH:
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _python_outlives_the_clipboard():
    """Qt crashes when it destroys an object made in Python after Python has gone."""
    yield
    widgets = sys.modules.get("PySide6.QtWidgets")
    if widgets is not None and widgets.QApplication.instance() is not None:
        widgets.QApplication.clipboard().clear()
