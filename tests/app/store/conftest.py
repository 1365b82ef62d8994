"""A store of its own for every test."""

import pytest
from chat_stores import Clock

from app.store.session_store import open_store


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    store = open_store(tmp_path / "store" / "chats.db", clock)
    yield store
    store.close()
