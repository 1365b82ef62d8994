"""Qt without a screen, and an end for its objects on the thread they live on."""

import gc
from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

MUCH = 20_000
"""Objects that have come up since the last collection."""


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["tests", "-platform", "offscreen"]


@pytest.fixture(scope="module", autouse=True)
def _no_collection_on_other_threads() -> Iterator[None]:
    """As app.start has it: a window in a cycle must not end on the thread of a download."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def _collection_between_tests(_no_collection_on_other_threads: None) -> Iterator[None]:
    yield
    if gc.get_count()[0] > MUCH:
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _python_outlives_the_clipboard() -> Iterator[None]:
    """Qt crashes when it destroys an object made in Python after Python has gone."""
    yield
    if QApplication.instance() is not None:
        QApplication.clipboard().clear()
