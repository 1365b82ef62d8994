"""Garbage is collected on the window's thread; what stays is left out of it, once."""

import gc
import sys
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import pytest

from app.start.threads import REST_S, SHARE_S, Collector, gently, share_python


def test_what_is_imported_on_the_way_is_left_out_once_no_more_comes(qapp, monkeypatch):
    told: list[str] = []
    seen = SimpleNamespace(
        isenabled=gc.isenabled,
        enable=gc.enable,
        disable=gc.disable,
        collect=lambda age: told.append(f"collect {age}"),
        freeze=lambda: told.append("freeze"),
        unfreeze=lambda: None,
        get_count=lambda: (701, 11, 0),
        get_threshold=lambda: (700, 10, 10),
    )
    monkeypatch.setattr("app.start.threads.gc", seen)
    modules = dict.fromkeys("abc")
    monkeypatch.setattr("app.start.threads.sys", SimpleNamespace(modules=modules))
    collector = Collector()
    collector.settle()
    told.clear()
    collector.look()
    modules["formulas"] = None
    collector.look()
    modules["fonts"] = None
    collector.look()
    assert told == ["collect 1"]
    collector.look()
    collector.look()
    assert told == ["collect 1", "freeze", "collect 1"]
    collector.close()


@pytest.mark.parametrize("settled", [0, 2])
def test_only_what_the_app_has_settled_is_let_go(qapp, monkeypatch, settled):
    told: list[str] = []
    seen = SimpleNamespace(
        isenabled=gc.isenabled,
        enable=gc.enable,
        disable=gc.disable,
        freeze=lambda: told.append("freeze"),
        unfreeze=lambda: told.append("unfreeze"),
    )
    monkeypatch.setattr("app.start.threads.gc", seen)
    collector = Collector()
    for _ in range(settled):
        collector.settle()
    collector.close()
    assert told == ["freeze"] * settled + ["unfreeze"] * (settled > 0)


def test_threads_take_short_turns_until_the_app_ends():
    former = sys.getswitchinterval()
    end = share_python()
    assert former > SHARE_S and sys.getswitchinterval() == pytest.approx(SHARE_S)
    end()
    assert sys.getswitchinterval() == pytest.approx(former)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_done_gently_rests_at_its_calls(monkeypatch, fails):
    rests, clock = list[float](), count()
    monkeypatch.setattr("app.start.threads.sleep", rests.append)
    monkeypatch.setattr("app.start.threads.REST_S", REST_S)
    monkeypatch.setattr("app.start.threads.monotonic", lambda: next(clock) * SHARE_S / 4)

    def call(number: int) -> float:
        return 1 / number

    def work() -> float:
        return sum(call(number) for number in range(0 if fails else 1, 100))

    with suppress(ZeroDivisionError):
        assert gently(work) > 5
    assert set(rests) == {REST_S} and (fails or len(rests) > 50)
    rests.clear()
    call(1)
    assert not rests and sys.getprofile() is None
