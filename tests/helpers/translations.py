"""Gathers the window's texts into assets/translations and compiles them: run it after changing one.

What is new has no translation yet: write it into the .ts, by hand or in Qt's Linguist, and run this
again.
"""

import subprocess
from pathlib import Path

import PySide6

from app.values import errors as app_errors
from mlx_engine.values import errors as engine_errors
from mlx_engine.values.words import ErrorInWords

ROOT = Path(__file__).parents[2]
TRANSLATIONS = sorted((ROOT / "assets" / "translations").glob("*.ts"))
TERMINAL = {"command_line", "bench", "server"}
"""Rooms whose texts no window shows."""
SOURCES = [
    file
    for room in ("app", "mlx_engine")
    for file in sorted(path.relative_to(ROOT) for path in (ROOT / room).rglob("*.py"))
    if not TERMINAL.intersection(file.parts)
]
MARKS = (
    "tr",
    "Words",
    *(
        name
        for module in (app_errors, engine_errors)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, ErrorInWords)
    ),
)
"""What is called with a text and, beside it, what fills it in."""
TOOLS = Path(PySide6.__file__).parent
GATHER = (
    TOOLS / "lupdate",
    "-silent",
    *("-tr-function-alias", ",".join(f"tr+={mark}" for mark in MARKS[1:])),
    *("-locations", "none"),
    "-no-obsolete",
)


def main() -> None:
    for file in TRANSLATIONS:
        subprocess.run([*GATHER, *SOURCES, "-ts", str(file)], cwd=ROOT, check=True)
        subprocess.run([TOOLS / "lrelease", "-silent", str(file)], check=True)


if __name__ == "__main__":
    main()
