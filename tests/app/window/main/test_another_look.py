"""A window that was light and becomes dark looks as one that was dark from the start."""

from collections.abc import Callable

import pytest
from filled_window import filled_window, wait_for_rest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.window.layers import DropPlan
from app.window.look import Scheme
from app.window.widgets import Widgets

Dressed = Callable[[Scheme, float], None]


def pictures(made: Widgets, qtbot: QtBot) -> dict[str, QImage]:
    """Every page and panel, the layers, and a menu."""
    menu = made.window.menuBar().addMenu("File")
    menu.addAction("New Chat")
    shown: dict[str, QWidget] = {"chat": made.window, "menu": menu}
    taken = {name: widget.grab().toImage() for name, widget in shown.items()}
    made.chat_page.show_start(True)
    wait_for_rest(made, qtbot)
    taken["start"] = made.window.grab().toImage()
    made.window.show_panel("drafting")
    taken["drafting"] = made.window.grab().toImage()
    for page in ("library", "compare", "settings"):
        made.window.show_page(page)  # type: ignore[arg-type]
        wait_for_rest(made, qtbot)
        taken[page] = made.window.grab().toImage()
    made.layer.open()
    wait_for_rest(made, qtbot)
    taken["card"] = made.window.grab().toImage()
    made.overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB"))
    wait_for_rest(made, qtbot)
    taken["drop"] = made.window.grab().toImage()
    return taken


@pytest.mark.parametrize("zoom", [1.0, 1.4])
def test_everything_takes_another_look(qtbot, wear, zoom):
    wear("dark", zoom)
    wanted = pictures(filled_window(qtbot), qtbot)
    wear("light", 1.0)
    changed = filled_window(qtbot)
    before = changed.window.grab().toImage()
    wear("dark", zoom)
    wait_for_rest(changed, qtbot)
    assert before != wanted["chat"]
    got = pictures(changed, qtbot)
    assert [name for name, picture in wanted.items() if got[name] != picture] == []
