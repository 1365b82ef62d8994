"""Ctrl-C means here what it means in a terminal, however the tests were started."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _interrupted_by_control_c() -> Iterator[None]:
    """A shell starts programs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
