"""In a small window with large text nothing is wider than its page or panel, and no line is cut:
in every language there is.
"""

from dataclasses import replace

import pytest
from filled_window import filled_window
from panel_driving import Owner
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QLabel, QScrollArea
from pytestqt.qtbot import QtBot
from scripted_engine import DESCRIPTION
from shown_transcript import settle

from app.library.machine import Machine
from app.library.model_card import make_card
from app.state.round_history import RoundHistory
from app.values.attached_text import AttachedText
from app.values.chat_settings import ChatSettings
from app.window.controls.chart import Chart
from app.window.controls.labels import SHORTEST, ShortButton, ShortLabel
from app.window.controls.layouts import Group
from app.window.drafting_view import StripFigures
from app.window.session_panel.abilities import abilities
from app.window.widgets import Widgets
from app.worker.replies import ModelLoaded
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import RoundStats

STORED = (
    "Q4_K as 4-bit affine, groups of 32 + Q6_K as 8-bit affine, groups of 32 + kept as IQ4_XS "
    "blocks (our kernel)"
)
MODEL = replace(DESCRIPTION, quantisation=STORED, template_arguments=("reasoning_effort",))


def crowded(qtbot: QtBot) -> Widgets:
    """The longest words that parts have to say."""
    made = filled_window(qtbot)
    card = make_card(MODEL, Machine(40 * 10**9))
    made.session.show_model(card, replace(abilities(MODEL), can_switch_thinking=True))
    owner = Owner(made.session)
    owner.settings = ChatSettings(draft=DraftOptions("prompt-lookup+model", 8))
    made.session.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    made.head.show_model(MODEL)
    made.compare.show_pinned(8)
    history = RoundHistory()
    parked = Reason("parked-cost", "Drafting parked: a round with a draft costs 1.74 here.")
    history.add([RoundStats(0, 0, 8, 2, 3, 400.0, 900.0, 100.0, parked, accept_ms=70.0)] * 500)
    made.strip.show_figures(history, StripFigures(1041.0, 100_000, 262_144))
    made.drafting.show_history(history)
    for group in made.window.findChildren(Group):
        group.open(True)
    return made


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("zoom", [0.5, 1.0, 1.5])
def test_nothing_scrolls_sideways_and_no_line_is_cut(qtbot, wear, speaking, language, zoom):
    speaking(language)
    made = crowded(qtbot)
    window = made.window
    window.resize(800, 600)
    wear("light", zoom)

    def look_at(view: str) -> None:
        settle()
        assert window.size().toTuple() == (800, 600)
        assert window.body.width() == 800, f"{view} asks for more"
        for side in (made.session, made.drafting_panel, made.chat_page):
            right = side.mapTo(window, side.rect().topRight()).x()
            assert not side.isVisible() or right < 800, f"{view} is cut"
        for area in window.findChildren(QScrollArea):
            assert not area.isVisible() or not area.horizontalScrollBar().maximum(), view
        for chart in window.findChildren(Chart):
            needed = chart.height_at(chart.width())
            assert not chart.isVisible() or chart.height() >= needed, (view, chart.accessibleName())
        for label in window.findChildren(QLabel):
            if label.isVisible() and label.wordWrap():
                needed = label.heightForWidth(label.width())
                assert label.height() >= needed, (view, label.text())
        for button in window.findChildren(QAbstractButton):
            if button.isVisible() and not isinstance(button, ShortButton | QCheckBox):
                needed = button.fontMetrics().horizontalAdvance(button.text())
                assert button.width() >= needed, (view, button.text())

    window.show_panel("session")
    look_at("session")
    made.chat_page.show_start(False)
    made.transcript.set_drafted_shown(True)
    made.notice.say("empty_folder holds no model near its top: it needs a .gguf, or .safetensors.")
    made.composer.row.attach([AttachedText(f"notes{n}.txt", "x" * 9) for n in range(2)])
    made.composer.row.show_tokens([50_000, 9], 16_384)
    made.transcript.open_find()
    look_at("chat")
    made.composer.show_message("")
    made.start._models.take(ModelLoaded(None, MODEL))
    made.chat_page.show_start(True)
    window.show_panel(None)
    window.show_sidebar(True)
    look_at("start")
    window.show_panel("drafting")
    look_at("drafting")
    window.show_page("compare")
    look_at("compare")
    window.show_page("library")
    look_at("library")
    made.library.show_place("hub")
    look_at("hub")
    window.show_page("settings")
    for pane in ("general", "appearance", "models", "drafting", "server", "advanced"):
        made.settings.show_pane(pane)
        look_at(f"settings, {pane}")


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_load_is_told_in_a_narrow_head(qtbot, wear, speaking, language):
    speaking(language)
    wear("light", 1.0)
    made = filled_window(qtbot)
    made.window.resize(800, 600)
    for panel in ("session", None):
        made.window.show_panel(panel)
        made.head.show_loading("Qwen3.6-35B-A3B-Instruct-Q4_K_M.gguf", 10**9, 4 * 10**9)
        settle()
        words = [part for part in made.head.findChildren(ShortLabel) if part.isVisible()]
        assert [part.text() for part in words] == [part.accessibleName() for part in words]
        assert made.window.width() == 800


@pytest.mark.parametrize("width", [800, 1000])
def test_the_title_of_a_chat_gives_way_before_the_name_of_the_model(qtbot, width):
    made = filled_window(qtbot)
    made.head.show_model(replace(MODEL, name="qwen35-mtp-2B-Q4_K_M"))
    made.head.title._title = "How the drafting heads of a model guess what it will say next"
    made.head.title._fit()
    made.window.resize(width, 600)
    settle()
    name = next(b for b in made.head.findChildren(ShortButton) if b.isVisible())
    cut = "…" in name.text()
    assert not cut or made.head.title.width() == SHORTEST, (name.text(), made.head.title.width())
    made.window.resize(800, 600)
    settle()
    assert made.window.width() == 800
