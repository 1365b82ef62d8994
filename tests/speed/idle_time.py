"""How long a device of so many milliseconds a pass has nothing to do between rounds.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/idle_time.py [--layers 64] [--tokens 200]
        [--chats 1]

The host's own code runs as it is, on a model of as many layers as a large one and small in all
else (64 wide, feed-forward 96, 4 heads of 64, 96 tokens): rounds are planned, built, read,
accepted, learned from. Widths are not in what the host does, but outcomes have to be computed here
by a CPU, which could not be done with weights of real widths. Layers run as on Metal, a node each
for kernels and MLX's fused operations, which give zeros; so how many drafts are accepted is drawn.
The device is a clock: it takes a queued round when it is free, and is idle until then. What it
would compute the CPU computes when an outcome is read, off the clock, which counts the thread's own
time. Of MLX's own work from `async_eval` to the first launch, and of waking the host, the stand-in
knows nothing: on a GPU that comes on top. Text is not made. Several chats are driven by turns.
"""

import argparse
import random
from dataclasses import replace
from time import thread_time
from unittest.mock import patch

import mlx.core as mx
from graph_operations import Unrun
from kernel_models import every_kernel, kernel_model
from lazy_graph import StandIn
from plain_run import opened

from mlx_engine.decoding import answer, scheduler
from mlx_engine.decoding.round import Pass, Round
from mlx_engine.decoding.scheduler import BatchScheduler
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.conversation import TURN_ENDS
from mlx_engine.values.options import DraftOptions

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]


class Clock:
    """A device that takes `pass_s` seconds a pass, and the host's time without the CPU's."""

    def __init__(self, pass_s: float) -> None:
        self.pass_s, self.waited = pass_s, 0.0
        self.free_at = self.began = self.idle = 0.0
        self.passes, self.built, self.begun = 0, list[float](), 0.0
        self.ends: dict[int, float] = {}

    def now(self) -> float:
        return thread_time() + self.waited

    def queue(self, its: Pass) -> None:
        if its.queued_at:
            return
        start = its.began_at = its.queued_at = max(self.now(), self.free_at)
        self.idle += start - self.free_at if self.passes else 0.0
        self.began = self.began or start
        self.passes += 1
        self.free_at = start + self.pass_s
        self.ends[id(its)] = self.free_at

    def wait(self, its: Pass) -> None:
        self.queue(its)  # to wait for it is what begins it
        self.waited += max(0.0, self.ends.pop(id(its)) - self.now())
        began = thread_time()
        mx.eval(its._outcomes)
        self.waited -= thread_time() - began
        its.read_at = self.now()


def idle(
    model: object, depth: int, asked: argparse.Namespace, pass_ms: float, *, looks_ahead: bool
) -> str:
    """A row of the table."""
    clock, draws = Clock(pass_ms / 1000), random.Random(1)
    begin, write = Round.__init__, Pass.__init__

    def begun(its: Round, *given: object) -> None:
        clock.begun = thread_time()
        begin(its, *given)  # type: ignore[arg-type]

    def written(its: Pass, rounds: list[Round], reader: object) -> None:
        del reader
        write(its, rounds)  # nothing is asked of the CPU at once
        clock.built.append(1000 * (thread_time() - clock.begun))

    def queued(its: Pass) -> None:
        clock.queue(its)

    def waited(its: Pass, **more: bool) -> None:
        del more
        clock.wait(its)

    def read(its: Round) -> tuple[int, ...]:
        rights = [draws.random() < asked.accepted for _ in range(its.depth)]
        tokens: list[int] = its.outcome[its.depth :].tolist()  # type: ignore[assignment]
        return tuple(tokens[: [*rights, False].index(False) + 1])

    together = BatchScheduler(lambda: 16)
    answers = [
        opened(
            model,
            [*PROMPT, number],
            MtpDraft(model.heads, DraftOptions()) if depth else NoDraft(),  # type: ignore[list-item]
            depth,
            max_tokens=asked.tokens,
            chunk=64,
            looks_ahead=looks_ahead,
            batch=together,
        )
        for number in range(asked.chats)
    ]
    with (
        patch.object(Round, "__init__", begun),
        patch.object(Pass, "__init__", written),
        patch.object(Pass, "queue", queued),
        patch.object(Pass, "wait", waited),
        patch.object(Round, "read", read),
        patch.object(scheduler, "perf_counter", clock.now),
        patch.object(answer, "perf_counter", clock.now),
    ):
        running = [its.events() for its in answers]
        while running:
            running = [its for its in running if any(isinstance(e, TURN_ENDS) for e in its)]
    tokens = sum(len(its.tokens) for its in answers)
    share = clock.idle / (clock.free_at - clock.began)
    built = sorted(clock.built)[len(clock.built) // 2]
    return (
        f"{pass_ms:5.0f} ms  depth {depth}  {'ahead' if looks_ahead else 'waits'}  "
        f"idle {100 * share:5.1f} %  a build {built:5.2f} ms, "
        f"{len(clock.built) / clock.passes:.1f} a pass, {tokens / clock.passes:.2f} tokens"
    )


def main() -> None:
    """Both ways, plain and drafted, on a fast and a slow device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--chats", type=int, default=1)
    parser.add_argument("--accepted", type=float, default=0.75, help="chance of a draft")
    asked = parser.parse_args()
    kernels = replace(every_kernel(Unrun()), stock=StandIn())
    model = kernel_model("dense", kernels, layers=asked.layers, every=4, halves=True)
    for pass_ms in (10.0, 60.0):
        for depth in (0, 1, 3):
            for looks_ahead in (False, True):
                print(idle(model, depth, asked, pass_ms, looks_ahead=looks_ahead), flush=True)


if __name__ == "__main__":
    main()
