"""What is told of a round is the time its own pass took, though queueing the next one blocks."""

from concurrent.futures import Executor, Future
from itertools import pairwise
from statistics import median

import pytest
from plain_run import CyclingDepth, opened
from tiny_model import TinySizes, tiny_model

from mlx_engine.decoding import answer, round, scheduler
from mlx_engine.decoding.scheduler import BatchScheduler
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
PASS_S = [0.010, 0.0115, 0.013, 0.0145, 0.016]
"""Of the device, by depth."""

LATE = 0.85
"""Of a pass has run when queueing it returns, as on Metal."""

HOST_S = 2e-5
"""Between two looks at the clock."""


class Clock:
    """Stands still but for what is asked of it."""

    def __init__(self):
        self.now = 1.0

    def __call__(self):
        self.now += HOST_S
        return self.now


class Device(Executor):
    """Runs what is queued one after the other; `submit` comes back as late as `async_eval` does.

    A future holds when its outcome was there; to wait for it takes until then.
    """

    def __init__(self, clock):
        self.clock, self.free_at, self.ends = clock, 0.0, []

    def submit(self, wait, outcomes, /):
        depth = (len(outcomes[0].tolist()) - 1) // 2
        took = PASS_S[depth]
        start = max(self.clock.now, self.free_at)
        self.free_at = start + took
        self.ends.append(self.free_at)
        self.clock.now = max(self.clock.now, start + LATE * took)
        return Ending(self.clock, self.free_at)


class Ending(Future):
    def __init__(self, clock, end):
        super().__init__()
        self._clock, self._end = clock, end

    def result(self, timeout=None):
        self._clock.now = max(self._clock.now, self._end)
        return self._end


@pytest.fixture
def device(monkeypatch):
    clock = Clock()
    for module in (answer, round, scheduler):
        monkeypatch.setattr(module, "perf_counter", clock)
    return Device(clock)


def told_of(device, depths, **more):
    """What is told of the rounds of an answer at these depths, over and over."""
    model = tiny_model(3, TinySizes(layers=2, vocabulary=37))
    heads = MtpDraft(model.heads, DraftOptions())
    together = BatchScheduler(reader=device)
    running = opened(model, PROMPT, heads, CyclingDepth(depths), batch=together, **more)
    return [event.stats for event in running.events() if isinstance(event, RoundFinished)]


@pytest.mark.parametrize("depths", [[0, 4], [0], [4], [0, 0, 4, 4, 4]])
def test_a_round_is_told_the_time_of_its_own_pass(device, depths):
    told = told_of(device, depths, max_tokens=80, looks_ahead=True)
    assert len(told) > 20
    for depth in set(depths):
        its = [stats.total_ms for stats in told[1:-1] if stats.drafted == depth]
        assert median(its) == pytest.approx(1000 * PASS_S[depth], rel=0.05)
        assert max(its) <= 1.05 * 1000 * PASS_S[depth]
    between = [1000 * (end - before) for before, end in pairwise(device.ends)]
    assert sum(stats.total_ms for stats in told[1:]) == pytest.approx(sum(between), rel=0.05)
    assert all(stats.host_ms < 0.5 for stats in told[1:-1])


def test_what_the_device_waits_for_the_host_is_told(device):
    told = told_of(device, [4], max_tokens=60, looks_ahead=False)
    assert all(stats.host_ms > 0 for stats in told)
    assert median(stats.verify_ms for stats in told) == pytest.approx(16, rel=0.05)
