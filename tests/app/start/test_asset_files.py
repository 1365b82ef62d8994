"""Assets are found in a checkout and in an installed package."""

from pathlib import Path

import pytest

from app.start.folders import asset_folder, asset_path


def test_a_checkout_has_them_beside_app():
    assert asset_folder() == Path(__file__).parents[3] / "assets"
    assert asset_path("pocket_model").is_dir()


def test_an_installed_package_has_them_inside(tmp_path):
    for folder in (tmp_path / "assets", tmp_path / "app" / "assets"):
        folder.mkdir(parents=True)
    assert asset_folder(tmp_path / "app") == tmp_path / "app" / "assets"


def test_missing_ones_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="assets is missing"):
        asset_folder(tmp_path / "app")
    (tmp_path / "assets").mkdir()
    with pytest.raises(FileNotFoundError, match=r"x\.svg is missing"):
        asset_path("x.svg", tmp_path / "app")
