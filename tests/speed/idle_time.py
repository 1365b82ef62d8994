"""How long a device of so many milliseconds a pass has nothing to do between rounds.

    PYTHONPATH=tests/helpers python tests/speed/idle_time.py [--layers 64] [--tokens 60]

The host's own code runs as it is, on a model of as many layers as a large one and small in all
else: rounds are planned, built, read, accepted, learned from. The device is a clock: it takes a
queued round when it is free, and is idle until then. What it would compute the CPU computes when an
outcome is read, off the clock, which counts the thread's own time: other programs do no harm. Of
MLX's own work from `async_eval` to the first launch, and of
waking the host, the stand-in knows nothing: on a GPU that comes on top. Text is not made.
"""

import argparse
from time import thread_time
from unittest.mock import patch

from plain_run import run
from tiny_model import TinySizes, tiny_model

from mlx_engine.decoding import ahead, answer
from mlx_engine.decoding.round import Outcome, Round
from mlx_engine.drafting.contract import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.options import DraftOptions

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]


class Clock:
    """A device that takes `pass_s` seconds a round, and the host's time without the CPU's."""

    def __init__(self, pass_s: float) -> None:
        self.pass_s, self.waited = pass_s, 0.0
        self.free_at = self.began = self.idle = 0.0
        self.rounds, self.built = 0, list[float]()
        self.build, self.whole = Round.__init__, Round.read
        self.ends: dict[int, float] = {}

    def now(self) -> float:
        return thread_time() + self.waited

    def make(self, round: Round, *given: object, **more: object) -> None:
        del more  # nothing is asked of the CPU while the clock runs
        began = thread_time()
        self.build(round, *given)  # type: ignore[arg-type]
        self.built.append(1000 * (thread_time() - began))

    def queue(self, round: Round) -> None:
        start = max(self.now(), self.free_at)
        self.idle += start - self.free_at if self.rounds else 0.0
        self.began = self.began or start
        self.rounds += 1
        self.free_at = start + self.pass_s
        self.ends[id(round)] = self.free_at

    def read(self, round: Round, **more: bool) -> Outcome:
        if id(round) not in self.ends:
            self.queue(round)  # to read it is what begins it
        self.waited += max(0.0, self.ends.pop(id(round)) - self.now())
        began = thread_time()
        found = self.whole(round)
        self.waited -= thread_time() - began
        return found


def idle(model: object, depth: int, tokens: int, pass_ms: float, *, looks_ahead: bool) -> str:
    """A row of the table."""
    clock = Clock(pass_ms / 1000)

    def made(round: Round, *given: object, **more: object) -> None:
        clock.make(round, *given, **more)

    def queued(round: Round) -> None:
        clock.queue(round)

    def read(round: Round, **more: bool) -> Outcome:
        return clock.read(round, **more)

    source = MtpDraft([model], DraftOptions()) if depth else NoDraft()  # type: ignore[list-item]
    with (
        patch.object(Round, "__init__", made),
        patch.object(Round, "queue", queued),
        patch.object(Round, "read", read),
        patch.object(ahead, "perf_counter", clock.now),
        patch.object(answer, "perf_counter", clock.now),
    ):
        run(model, PROMPT, source, depth, max_tokens=tokens, chunk=64, looks_ahead=looks_ahead)
    share = clock.idle / (clock.free_at - clock.began)
    built = sorted(clock.built)[len(clock.built) // 2]
    return (
        f"{pass_ms:5.0f} ms  depth {depth}  {'ahead' if looks_ahead else 'waits'}  "
        f"idle {100 * share:5.1f} %  a build {built:5.2f} ms, "
        f"{len(clock.built) / clock.rounds:.1f} a round"
    )


def main() -> None:
    """Both ways, plain and drafted, on a fast and a slow device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=60)
    asked = parser.parse_args()
    model = tiny_model(3, TinySizes(layers=asked.layers, interval=4, hidden=16, inner=16))
    for pass_ms in (10.0, 60.0):
        for depth in (0, 3):
            for looks_ahead in (False, True):
                print(idle(model, depth, asked.tokens, pass_ms, looks_ahead=looks_ahead))


if __name__ == "__main__":
    main()
