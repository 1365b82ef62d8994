"""A started app whose models are scripted."""

import pytest


@pytest.fixture
def source():
    """Where its models come from: the built-in one alone."""
    from windows import scripted

    return scripted()


@pytest.fixture
def driven(qapp, qtbot, tmp_path, source):
    """The app, with its files in `home`."""
    from windows import running

    with running(qapp, qtbot, tmp_path / "home", source) as one:
        yield one
