"""Which Python and which packages are here."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from mlx_engine.doctor.finding import Finding, State

OLDEST = (3, 11)
NEWEST = (3, 13)
NEEDED = ("mlx", "mlx-lm", "tokenizers", "jinja2", "numpy", "gguf")
WINDOW_NEEDS = "PySide6-Essentials"


def check_python(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """The versions we test."""
    here = f"{found[0]}.{found[1]} on {platform.system()} {platform.release()}"
    if OLDEST <= found <= NEWEST:
        return Finding("python", "ok", here)
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    return Finding("python", "fail", f"{here}: install Python {oldest} to {newest}")


def check_packages() -> Iterator[Finding]:
    """What the engine needs, then what the window needs."""
    for name in NEEDED:
        yield check_package(name, "fail", "the engine needs it: install Headstart again")
    yield check_package(WINDOW_NEEDS, "warn", "there is no window without it, only the terminal")


def check_package(name: str, missing: State, why: str) -> Finding:
    """Its version; `missing` and `why` when it is not installed."""
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, missing, f"not installed: {why}")
