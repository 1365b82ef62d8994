"""One server of the built-in model for all tests of this room."""

import pytest
from live_server import live_server

import mlx_engine


@pytest.fixture(scope="package")
def served():
    with live_server(mlx_engine.load) as server:
        yield server
