"""Prints how often heads agree with their model, as they are and spoilt, and what the check costs.

Run as `python tests/speed/head_fit.py FOLDER...` (default: the model in assets/pocket_model).
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from spoilt_heads import WAYS, fit_of  # noqa: E402

import mlx_engine  # noqa: E402
from mlx_engine.self_check.teacher_forced import TEXT, measure_fit  # noqa: E402

POCKET = ROOT / "assets" / "pocket_model"


def main() -> None:
    """Print a line for each folder and way."""
    for folder in [Path(name) for name in sys.argv[1:]] or [POCKET]:
        engine = mlx_engine.load(folder)
        tokens = engine.tokenize(TEXT)
        measure_fit(engine.parts.model, tokens)
        start = time.perf_counter()
        measure_fit(engine.parts.model, tokens)
        print(f"{folder.name}: the check takes {1000 * (time.perf_counter() - start):.0f} ms")
        for name, spoil in WAYS.items():
            fit = fit_of(folder, spoil)
            print(f"  {name:20} agrees in {fit.agreed:3} of {fit.judged:3}")


if __name__ == "__main__":
    main()
