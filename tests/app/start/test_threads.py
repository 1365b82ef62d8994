"""Garbage is collected on the window's thread; what stays is left out of it, once."""

import gc
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QApplication

from app.start.threads import Collector


@pytest.mark.parametrize(("frozen", "done"), [(0, ["freeze", "freeze", "unfreeze"]), (9, [])])
def test_only_what_the_app_has_settled_is_let_go(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch, frozen: int, done: list[str]
) -> None:
    """Whoever has started it may have left what was there before out of collections."""
    told: list[str] = []
    seen = SimpleNamespace(
        isenabled=gc.isenabled,
        enable=gc.enable,
        disable=gc.disable,
        freeze=lambda: told.append("freeze"),
        unfreeze=lambda: told.append("unfreeze"),
        get_freeze_count=lambda: frozen + len(told),
    )
    monkeypatch.setattr("app.start.threads.gc", seen)
    collector = Collector()
    collector.settle()
    collector.settle()
    collector.close()
    assert told == done
