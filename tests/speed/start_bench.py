"""Times from the start of Python to a usable window, and to the built-in model loaded.

`python tests/speed/start_bench.py [RUNS]`; a fresh process and fresh folders for each run.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import json, sys, time
from pathlib import Path
began = time.perf_counter()
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
while app.models.description is None:
    qt.processEvents()
    time.sleep(0.002)
loaded = time.perf_counter()
app.close()
print(json.dumps({"import": imported - began, "build": built - imported, "show": shown - built,
                  "window": shown - began, "model": loaded - began, "early": early}))
"""


def run_once() -> dict[str, float]:
    """One start, in seconds by step."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, place],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    runs = [run_once() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)]
    for step in ("import", "build", "show", "window", "model"):
        seconds = [run[step] for run in runs]
        print(f"{step:8} median {statistics.median(seconds):.2f} s, best {min(seconds):.2f} s")
    print("imported for the window:", runs[0]["early"] or "nothing of MLX")


if __name__ == "__main__":
    main()
