"""Times from the start of Python to a usable window and to the built-in model loaded; to the first
words of an answer asked for 0.3 s after the window is there; of quitting, until all is gone.

`python tests/speed/start_bench.py [RUNS]`; a fresh process and fresh folders for each run. Modules
come compiled, as in an installation: compiling them would take as long as all else in an import.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILED = Path(tempfile.gettempdir()) / "headstart-start-bench"
START = """
import json, os, sys, time
from pathlib import Path
began = time.perf_counter()
from app.start.qt_libraries import why_no_qt
assert not why_no_qt()
from PySide6.QtWidgets import QApplication
from app.app import App
from app.start.folders import Folders
imported = time.perf_counter()
place = Path(sys.argv[1])
qt = QApplication(["bench", "-platform", "offscreen"])
app = App(qt, Folders(place, place, place / "cache", place / "logs", place / "hub"))
built = time.perf_counter()
early = sorted({m.split(".")[0] for m in sys.modules} & {"mlx", "mlx_lm", "transformers", "numpy"})
app.start()
qt.processEvents()
shown = time.perf_counter()

def until(is_so):
    while not is_so():
        qt.processEvents()
        time.sleep(0.002)

def ask():
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    QTest.keyClicks(qt.focusWidget(), "Tell me everything.")
    asked = time.perf_counter()
    QTest.keyClick(qt.focusWidget(), Qt.Key.Key_Return)
    until(lambda: app.chat.running is not None and app.chat.running.answer.text)
    return time.perf_counter() - asked
"""
LOADED = """
until(lambda: app.models.description is not None)
figures = {"import": imported - began, "build": built - imported, "show": shown - built,
           "window": shown - began, "model": time.perf_counter() - began, "early": early}
"""
ASKED = """
until(lambda: time.perf_counter() > shown + 0.3)
figures = {"first words": ask()}
"""
ASKED_LATER = """
until(lambda: app.models.description is not None)
ask()
"""
LOADING = """
until(lambda: "mlx" in sys.modules)
"""
QUIT = """
print(time.time(), flush=True)
app.close()
os._exit(0)
"""
QUITTING = {"idle": LOADED, "in an answer": ASKED_LATER, "in a load": LOADING}


def run(steps: str) -> tuple[list[str], float]:
    """The lines that a process prints, and when it was gone."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-X", f"pycache_prefix={COMPILED}", "-c", START + steps, place],
            cwd=ROOT,
            env={n: value for n, value in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.splitlines(), time.time()


def figures() -> dict[str, float]:
    """Seconds of each step, and what of MLX the window itself imports as "early"."""
    result: dict[str, float] = {}
    for steps in (LOADED, ASKED):
        lines, _ = run(steps + "print(json.dumps(figures), flush=True)\nos._exit(0)\n")
        result |= json.loads(lines[-1])
    for name, steps in QUITTING.items():
        lines, gone = run(steps + QUIT)
        result[f"quit {name}"] = gone - float(lines[-1])
    return result


def main() -> None:
    figures()  # compiles
    found = [figures() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)]
    for step in (name for name in found[0] if name != "early"):
        seconds = [one[step] for one in found]
        print(f"{step:17} median {statistics.median(seconds):.2f} s, best {min(seconds):.2f} s")
    print("imported for the window:", found[0]["early"] or "nothing of MLX")


if __name__ == "__main__":
    main()
