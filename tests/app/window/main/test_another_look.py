"""A window that was light and becomes dark looks as one that was dark from the start."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QMenu, QWidget
from pytestqt.qtbot import QtBot
from shown_transcript import STATS, settle

from app.values.attached_text import AttachedText
from app.values.chats import ChatGroup, ChatSummary, DraftedSpan, ListedChat
from app.values.models import FoundModel, MemorySum, ModelCard
from app.window.drafting.round_history import RoundHistory
from app.window.drafting.status_strip import StripFigures
from app.window.layers import DropPlan
from app.window.look import Scheme
from app.window.transcript.shown_message import ShownMessage
from app.window.widgets import Widgets
from mlx_engine.values.stats import RoundStats

pytestmark = pytest.mark.qt_log_level_fail("WARNING")
Wear = Callable[[Scheme, float], None]

ANSWER = (
    "# Title\n\nWords with `code`, **bold** and a [link](https://example.org).\n\n> a quote\n\n"
    '```py\ndef f(x):  # why\n    return "1" + 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n'
)
FACTS = ModelCard(
    "Qwen", "qwen", "4 B", "4-bit", "2 GB", "32k", "1 MTP head", True,
    MemorySum(60, 4096, 20, 32768, 30, 100, 32768, "fits"),
)  # fmt: skip


def filled(qtbot: QtBot) -> Widgets:
    """A window with something in every part of it."""
    made = Widgets()
    qtbot.addWidget(made.window)
    made.window.resize(1300, 900)
    made.window.set_motion(False)
    chat = ListedChat(ChatSummary(1, "Kernels", False, 0.0, 0.0))
    made.sidebar.show_groups([ChatGroup("Today", (chat,))])
    made.sidebar.list.show_answering([1])
    made.chat_page.show_start(False)
    made.transcript.set_drafted_shown(True)
    made.transcript.show_messages(
        (
            ShownMessage(1, "user", "Why? " * 30, branch_count=2),
            ShownMessage(2, "assistant", ANSWER, "hm", 2.0, (DraftedSpan(9, 30, 3),), STATS),
            ShownMessage(3, "assistant", "x", state="failed", notice="The disk is full."),
        )
    )
    made.composer.attach([AttachedText("notes.txt", "text", 4)])
    made.notice.say("Something to know.", "details")
    made.session.show_model(FACTS, None)
    made.library.show_entries([FoundModel("Model", Path("/m"), "Here", 2 * 10**9, "broken")])
    made.start.show_questions(["Why?"])
    made.card.show_offered(FACTS)
    made.overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB"))
    made.overlay.hide()
    history = RoundHistory()
    history.add([RoundStats(0, 3, 3, 2, 3, 4.0, 9.0, 1.0)] * 5)
    made.strip.show_figures(history, StripFigures(41.0, 100, 1000))
    made.drafting.show_history(history)
    made.drafting.show_costs([5.0, 6.0, 7.0], 1)
    made.compare.begin(1)
    for side, text in (("on", "the same"), ("off", "the other")):
        made.compare.begin_side(side)  # type: ignore[arg-type]
        made.compare.add_text(side, "so", is_thinking=True)  # type: ignore[arg-type]
        made.compare.add_text(side, text)  # type: ignore[arg-type]
        made.compare.finish_side(side, STATS)  # type: ignore[arg-type]
    made.window.show()
    made.window.setFocus()  # a cursor blinks
    settle()
    qtbot.wait(60)
    return made


def pictures(made: Widgets, qtbot: QtBot) -> dict[str, QImage]:
    """Every page and panel, the layers, and a menu."""
    menu = made.window.menuBar().findChild(QMenu)
    assert menu is not None
    shown: dict[str, QWidget] = {"chat": made.window, "menu": menu}
    taken = {name: widget.grab().toImage() for name, widget in shown.items()}
    made.chat_page.show_start(True)
    settle()
    taken["start"] = made.window.grab().toImage()
    made.window.show_panel("drafting")
    taken["drafting"] = made.window.grab().toImage()
    for page in ("library", "compare", "settings"):
        made.window.show_page(page)  # type: ignore[arg-type]
        settle()
        taken[page] = made.window.grab().toImage()
    made.layer.open()
    settle()
    taken["card"] = made.window.grab().toImage()
    made.overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB"))
    settle()
    taken["drop"] = made.window.grab().toImage()
    return taken


@pytest.mark.parametrize("zoom", [1.0, 1.4])
def test_everything_takes_another_look(qtbot: QtBot, wear: Wear, zoom: float) -> None:
    wear("dark", zoom)
    wanted = pictures(filled(qtbot), qtbot)
    wear("light", 1.0)
    changed = filled(qtbot)
    before = changed.window.grab().toImage()
    wear("dark", zoom)
    settle()
    qtbot.wait(60)
    assert before != wanted["chat"]
    got = pictures(changed, qtbot)
    assert [name for name, picture in wanted.items() if got[name] != picture] == []
