"""Garbage is collected on the window's thread; what stays is left out of it, once."""

import gc
from types import SimpleNamespace

import pytest

from app.start.threads import Collector


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
