"""The only reader of assets/: where the pictures, fonts, colours and built-in model lie.

An installed package carries them as app/assets; in a checkout they are the assets/ folder beside
app/.
"""

from functools import cache
from pathlib import Path

APP_FOLDER = Path(__file__).parents[1]


@cache
def asset_folder(app_folder: Path = APP_FOLDER) -> Path:
    """Return the folder of all assets; raises FileNotFoundError if it is not installed."""
    for folder in (app_folder / "assets", app_folder.parent / "assets"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{app_folder / 'assets'} is missing: install Headstart again.")


def asset_path(name: str, app_folder: Path = APP_FOLDER) -> Path:
    """Return the path of an asset ("icons/app.svg"); raises FileNotFoundError if there is none."""
    path = asset_folder(app_folder) / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install Headstart again.")
    return path
