"""Gathers the window's texts into assets/translations and compiles them: run it after changing one.

What is new has no translation yet: write it into the .ts, by hand or in Qt's Linguist, and run this
again.
"""

import subprocess
from pathlib import Path

import PySide6

ROOT = Path(__file__).parents[2]
TRANSLATIONS = sorted((ROOT / "assets" / "translations").glob("*.ts"))
ROOMS = ("app", "mlx_engine")
TOOLS = Path(PySide6.__file__).parent
GATHER = (
    TOOLS / "lupdate",
    "-silent",
    *("-extensions", "py"),
    *("-tr-function-alias", "tr+=Words"),
    *("-locations", "none"),
    "-no-obsolete",
)


def main() -> None:
    for file in TRANSLATIONS:
        subprocess.run([*GATHER, *ROOMS, "-ts", str(file)], cwd=ROOT, check=True)
        subprocess.run([TOOLS / "lrelease", "-silent", str(file)], check=True)


if __name__ == "__main__":
    main()
