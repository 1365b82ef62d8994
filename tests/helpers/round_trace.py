"""Python calls of one drafted round of the built-in model, by file.

    PYTHONPATH=.:tests:tests/helpers python tests/helpers/round_trace.py [--depth 3] [--calls]

Counts, as a median over rounds in the middle of an answer: calls of functions of ours, files
touched, and returns to a file that was left before; of all files, and of the loop alone (without
models, caches, kernels and values).
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from types import FrameType

import mlx_engine
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

ROOT = Path(mlx_engine.__file__).parents[1]
OWN = ("mlx_engine/", "metal_kernels/")
NOT_LOOP = ("mlx_engine/models/", "mlx_engine/cache/", "mlx_engine/values/", "metal_kernels/")


def own_file(frame: FrameType) -> str | None:
    """The file of a frame below the root, None for others' code."""
    path = frame.f_code.co_filename
    if not path.startswith(str(ROOT)):
        return None
    name = path[len(str(ROOT)) + 1 :]
    return name if name.startswith(OWN) else None


class Trace:
    """Counts what is called between two events of an answer."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.calls = Counter[str]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call; generators are called again each time they go on."""
        del argument
        name = own_file(frame) if event == "call" else None
        if name is not None:
            self.files.append(name)
            self.calls[f"{name} {frame.f_code.co_qualname}"] += 1

    def figures(self, *, loop: bool) -> tuple[int, int, int]:
        """Calls, files, and returns to a file that was left before."""
        files = [name for name in self.files if not (loop and name.startswith(NOT_LOOP))]
        seen, returns, last = set[str](), 0, ""
        for name in files:
            returns += name != last and name in seen
            seen.add(name)
            last = name
        return len(files), len(seen), returns


def main() -> None:
    """Print the two rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--calls", action="store_true", help="the calls of one round, by function")
    asked = parser.parse_args()
    engine = mlx_engine.load(None)
    session = engine.session(
        sampling=SamplingOptions(temperature=0),
        draft=DraftOptions(depth=asked.depth),
        generation=GenerationOptions(max_tokens=120, ignore_eos=True),
    )
    traces, trace = [], Trace()
    for event in session.send("Tell me about the sea."):
        sys.setprofile(None)
        if isinstance(event, RoundFinished):
            if event.stats.drafted == asked.depth:
                traces.append(trace)
            trace = Trace()
            sys.setprofile(trace)
    sys.setprofile(None)
    middle = traces[3:-3]
    for title, loop in (("all", False), ("loop", True)):
        figures = [trace.figures(loop=loop) for trace in middle]
        calls, files, returns = (median(part) for part in zip(*figures, strict=True))
        print(f"{title:5} calls {calls:6.0f}  files {files:4.0f}  returns {returns:5.0f}")
    if asked.calls:
        for name, count in middle[len(middle) // 2].calls.most_common():
            print(f"{count:5} {name}")
    engine.close()


if __name__ == "__main__":
    main()
