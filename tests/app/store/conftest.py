"""A store of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_stores import Clock

from app.store.session_store import SessionStore, open_store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SessionStore]:
    store = open_store(tmp_path / "store" / "chats.db", clock)
    yield store
    store.close()
