"""Qt without a screen."""

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["tests", "-platform", "offscreen"]


@pytest.fixture(scope="session", autouse=True)
def _python_outlives_the_clipboard() -> Iterator[None]:
    """Qt crashes when it destroys an object made in Python after Python has gone."""
    yield
    if QApplication.instance() is not None:
        QApplication.clipboard().clear()
