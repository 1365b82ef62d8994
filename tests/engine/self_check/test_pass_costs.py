"""Passes are timed as they are run: behind one another where rounds are begun ahead, else alone."""

import mlx.core as mx
import pytest
from tiny_model import TinySizes, tiny_model

from metal_kernels.stock_on_cpu import CpuStockOperations
from mlx_engine.self_check import pass_costs
from mlx_engine.self_check.pass_costs import CostMeter
from mlx_engine.values.options import MAX_DEPTH

pytestmark = pytest.mark.usefixtures("passes_timed")


class APass:
    """On a stand-in for a device; ends: when, in milliseconds, None before it is queued."""

    def __init__(self, rows):
        self.rows, self.ends = rows, None


class Device:
    """Takes 10 ms a pass and 2 more for each row but the first, one after the other; the host takes
    `writing_ms` to write one down. It is the clock, too.
    """

    def __init__(self):
        self.writing_ms = 3
        self.now = self.free_at = 0.0
        self.begun_idle, self.unread = 0, []

    def write(self, rows=1):
        self.now += self.writing_ms
        return APass(rows)

    def queue(self, one):
        self.begun_idle += self.free_at < self.now
        self.free_at = one.ends = max(self.now, self.free_at) + 8 + 2 * one.rows
        self.unread.append(one)

    def wait(self, one):
        if one.ends is None:
            self.queue(one)
        self.now = max(self.now, one.ends)
        self.unread.remove(one)


@pytest.fixture
def device(monkeypatch):
    its, whole = Device(), mx.eval

    def wait(*asked):
        for one in asked:
            passes = one if isinstance(one, list) else [one]
            for each in passes:
                its.wait(each) if isinstance(each, APass) else whole(each)

    monkeypatch.setattr(mx, "eval", wait)
    monkeypatch.setattr(mx, "async_eval", its.queue)
    monkeypatch.setattr(CpuStockOperations, "start_evaluation", lambda stock, x, **_: None)
    monkeypatch.setattr(pass_costs, "perf_counter", lambda: its.now / 1000)
    return its


def test_a_pass_behind_another_takes_no_time_to_write_down(device):
    assert pass_costs._single_pass_ms(device.write) == pytest.approx(10 + 3)
    idle = device.begun_idle
    assert pass_costs._behind_another_ms(device.write) == pytest.approx(10)
    assert device.begun_idle == idle + 1, "only the first of its passes found nothing to do"
    assert not device.unread, "nothing is left to the next measurement"


def test_but_as_long_as_that_where_the_host_is_slower(device):
    device.writing_ms = 25
    assert pass_costs._behind_another_ms(device.write) == pytest.approx(25)


@pytest.mark.parametrize("on_host", [False, True])
def test_passes_of_one_row_are_timed_so_where_plain_rounds_are_begun_ahead(
    device, monkeypatch, on_host
):
    def one_pass(model, tokens, caches):
        return device.write(tokens.shape[1])

    monkeypatch.setattr(pass_costs, "_predict_greedily", one_pass)
    model = tiny_model(3, TinySizes(layers=1, vocabulary=37), with_head=False)
    meter = CostMeter(model, lambda: None, computes_on_host=on_host)
    found = meter.measure().verify_ms
    several = [3 + 8 + 2 * rows for rows in range(2, MAX_DEPTH + 2)]
    assert found == pytest.approx([10 if on_host else 3 + 10, *several])


def test_after_a_pass_that_raised_all_is_timed_anew(device, monkeypatch):
    """As where a kernel fails, so that stock MLX does its work from then on."""
    broken, timed = [False], []

    def one_pass(model, tokens, caches):
        if broken[0]:
            raise RuntimeError("a kernel failed")
        timed.append(tokens.shape[1])
        return device.write(tokens.shape[1])

    monkeypatch.setattr(pass_costs, "_predict_greedily", one_pass)
    model = tiny_model(3, TinySizes(layers=1, vocabulary=37), with_head=False)
    meter = CostMeter(model, lambda: None, lambda: MAX_DEPTH + 1)
    meter.measure()
    first = list(timed)
    meter.time_long_drafts()
    broken[0] = True
    with pytest.raises(RuntimeError):
        meter.measure()
    broken[0] = False
    timed.clear()
    meter.measure()
    assert timed[: len(first)] == first
    assert len(timed) > len(first)
