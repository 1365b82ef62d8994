"""The tiny model and an engine of it, anew for each file of tests."""

import pytest
from session_runs import tiny_folder
from tiny_stacks import write_stack

import mlx_engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model of each kind of memory."""
    base = tmp_path_factory.mktemp("models")
    return {
        "recurrent": tiny_folder(base / "recurrent", seed=0),
        "windowed": write_stack(base / "windowed", "mimo_v2_flash"),
        "attention": write_stack(base / "attention", "mimo"),
    }


@pytest.fixture(scope="module")
def engine(folder):
    return mlx_engine.load(folder)


@pytest.fixture(autouse=True)
def nothing_read(request):
    """Conversations of the tests before it are no beginnings for those of a test."""
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").forget_conversations()
