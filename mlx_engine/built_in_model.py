"""Find the folder of the built-in pocket model, in a checkout or in an installed wheel."""

from pathlib import Path


def built_in_model() -> Path:
    """Return the built-in model's folder, in app/assets of a wheel or in assets of a checkout."""
    top = Path(__file__).resolve().parent.parent
    installed = top / "app" / "assets" / "pocket_model"
    return installed if installed.is_dir() else top / "assets" / "pocket_model"
