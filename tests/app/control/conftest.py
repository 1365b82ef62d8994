"""A started app whose models are scripted."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def in_plain_dress():
    """Style sheets are half the work of making a window; those who look at it put them on again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.window.style_sheet.style_sheet", lambda look, rules: "")
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


@pytest.fixture
def driven(qapp, qtbot, tmp_path, source):
    """The app, with its files in `home`."""
    from windows import running

    with running(qapp, qtbot, tmp_path / "home", source) as one:
        yield one
