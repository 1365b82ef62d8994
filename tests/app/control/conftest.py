"""A started app whose models are scripted."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def in_plain_dress():
    """Style sheets are half the work of making a window; those who look at it put them on again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.window.style_sheet.style_sheet", lambda look: "")
        yield


@pytest.fixture
def model(tmp_path):
    """A folder that looks like a model; its engine is scripted."""
    folder = tmp_path / "Small-4bit"
    pocket = Path(__file__).parents[3] / "assets" / "pocket_model"
    shutil.copytree(pocket, folder, ignore=shutil.ignore_patterns("training"))
    return folder


@pytest.fixture
def source():
    """Where its models come from: the built-in one alone."""
    from windows import scripted

    return scripted()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the app of this file has its files."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def started(qapp, request, home):
    """An app for all tests of a file: to start one takes as long as all that most of them do."""
    from pytestqt.qtbot import QtBot
    from windows import Relay, running

    with running(qapp, QtBot(request), home, Relay()) as one:
        one.widgets.window.setProperty("stays", True)
        yield one.app


@pytest.fixture
def driven(started, qtbot, source):
    """That app as after its first start, with models from `source`."""
    from windows import Driven

    assert started.worker.isRunning(), "a test that closes the app takes one that is alone"
    started.worker._source.source = source
    one = Driven(started, qtbot)
    one.begin_anew()
    return one


@pytest.fixture
def alone(qapp, qtbot, tmp_path, source):
    """An app of a test's own, for one that closes it; its files are in `home`."""
    from windows import running

    with running(qapp, qtbot, tmp_path / "home", source) as one:
        yield one
