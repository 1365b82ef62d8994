"""A window with something in every part of it."""

import threading
from pathlib import Path

from compare_states import StatedComparison
from model_states import FACTS, StatedModels
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shown_transcript import STATS, settle

from app.state.round_history import RoundHistory
from app.values.attached_text import AttachedText
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.chats import ChatGroup, ChatSummary, DraftedSpan, ListedChat
from app.values.models import FoundModel
from app.window.drafting_view import StripFigures
from app.window.layers import DropPlan
from app.window.transcript.shown_message import ShownMessage
from app.window.widgets import Widgets
from mlx_engine.values.stats import RoundStats

ANSWER = (
    "# Title\n\nWords with `code`, **bold** and a [link](https://example.org).\n\n> a quote\n\n"
    '```py\ndef f(x):  # why\n    return "1" + 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n'
    "## More\n\n- first\n- second\n\n  ```sh\n  ls\n  ```\n"
)


def filled_window(qtbot: QtBot) -> Widgets:
    """On show, in the look of now; cursors do not blink."""
    QApplication.setCursorFlashTime(0)
    made = Widgets()
    qtbot.addWidget(made.window)
    made.window.resize(1300, 900)
    chat = ListedChat(ChatSummary(1, "Kernels", False, 0.0, 0.0))
    made.sidebar.list.model().show_groups([ChatGroup("Today", (chat,))])
    made.sidebar.list.model().show_answering([1])
    made.chat_page.show_start(False)
    made.transcript.set_drafted_shown(True)
    made.transcript.show_messages(
        (
            ShownMessage(1, "user", "Why? " * 30, branch_count=2),
            ShownMessage(2, "assistant", ANSWER, "hm", 2.0, (DraftedSpan(9, 30, 3),), STATS),
            ShownMessage(3, "assistant", "x", state="failed", notice="The disk is full."),
        )
    )
    made.composer.row.attach([AttachedText("notes.txt", "text")])
    made.notice.say("Something to know.", "details")
    made.session.show_model(FACTS, None)
    stated = StatedModels()
    made.library.watch(*stated.watched, stated.settings)
    made.start.watch(*stated.watched, lambda _: None)
    stated.find(FoundModel("Model", Path("/m"), "Here", 2 * 10**9, "broken"))
    made.card.watch(stated.offered, stated.settings)
    stated.show_card(FACTS)
    made.overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB"))
    made.overlay.hide()
    history = RoundHistory()
    history.add([RoundStats(0, 3, 3, 2, 3, 4.0, 9.0, 1.0)] * 5)
    made.strip.show_figures(history, StripFigures(41.0, 100, 1000))
    made.drafting.show_history(history)
    made.drafting.show_costs([5.0, 6.0, 7.0], 1)
    compared = StatedComparison(ChatSettings(sampling=SamplingChoice(seed=1)))
    made.window.destroyed.connect(compared.stated.close)
    made.compare.watch(compared.comparison)
    compared.run("the same", "the other")
    made.window.show()
    made.window.show_page("settings")
    for pane in ("general", "appearance", "models", "drafting", "advanced"):
        made.settings.show_pane(pane)
    made.window.show_page("chat")
    made.window.body.setFocus()
    wait_for_rest(made, qtbot)
    return made


def wait_for_rest(made: Widgets, qtbot: QtBot) -> None:
    """Until nothing is left to be done later, such as colouring code."""
    timers = made.window.findChildren(QTimer)

    def is_at_rest() -> bool:
        beside = any(thread.name == "disk" for thread in threading.enumerate())
        settle()  # what such a thread has found may be worked on
        return not beside and not any(timer.isActive() for timer in timers)

    settle()
    qtbot.waitUntil(is_at_rest, timeout=60_000)
    settle()
