"""Where the built-in pocket model lies, in a checkout or in an installed wheel."""

from pathlib import Path


def built_in_model() -> Path:
    """Its folder: app/assets in a wheel, assets in a checkout."""
    top = Path(__file__).resolve().parent.parent
    installed = top / "app" / "assets" / "pocket_model"
    return installed if installed.is_dir() else top / "assets" / "pocket_model"
