"""Charts paint in both schemes, grow with their values and say them in words."""

from itertools import combinations
from math import ceil

import pytest
from painted import solid_colours
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QLabel
from seen import words_on

from app.state.round_history import DepthRow, RoundHistory, Stages
from app.window.drafting_charts import BAR, ROW, CostCurve, DepthBars, PassBars, StageBar
from app.window.drafting_view import (
    BARS,
    COSTS,
    PASSES,
    STAGES,
    DraftingView,
    StatusStrip,
    StripFigures,
)
from app.window.look import look
from mlx_engine.values.stats import GenerationStats, RoundStats


def colours_of(widget):
    widget.resize(widget.sizeHint())
    return solid_colours(widget.grab())


class Texts(QPainter):
    """Notes where texts are drawn."""

    def __init__(self, device):
        super().__init__(device)
        self.places = []

    def drawText(self, place, flags, text):  # noqa: N802
        self.places.append(self.boundingRect(place, flags | Qt.TextFlag.TextDontClip, text))


def drawn_texts(chart):
    picture = QPixmap(chart.size())
    with Texts(picture) as painter:
        painter.setFont(look().small_font())
        chart.draw(painter)
    return painter.places


FILLED = {
    DepthBars: lambda chart: chart.show_rows([DepthRow(1, 9, 10), DepthRow(2, 5, 9)]),
    PassBars: lambda chart: chart.show_tokens([1, 3, 4, 2]),
    CostCurve: lambda chart: chart.show_costs([5, 6, 7.5, 9], 3),
    StageBar: lambda chart: chart.show_stages(Stages(10, 30, 4, 5)),
}


@pytest.mark.parametrize("kind", FILLED)
def test_values_are_painted_and_said(qtbot, theme, kind):
    chart = kind()
    qtbot.addWidget(chart)
    empty_words, empty = chart.words(), colours_of(chart)
    FILLED[kind](chart)
    assert chart.words() != empty_words
    assert chart.accessibleName() == chart.words()
    assert QColor(theme.accent).name() in colours_of(chart)
    assert QColor(theme.accent).name() not in empty


def test_a_legend_holds_in_both_themes_and_for_chats_of_before(qtbot, theme):
    shades = {"Pale:", "Dark:", "pale", "dark", "bright"}
    assert not shades.intersection(" ".join((BARS, PASSES, COSTS, STAGES)).split())
    view = DraftingView()
    qtbot.addWidget(view)
    view.show_history(RoundHistory([GenerationStats(10, 0, 20, 9, 5, drafted_by_depth=(9,))]))
    (passes,) = view.findChildren(PassBars)
    assert passes.accessibleName() == "Shown with the next answer."


def test_bars_grow_with_depths(qtbot, theme):
    bars = DepthBars()
    qtbot.addWidget(bars)
    bars.show_rows([DepthRow(depth, 1, 2) for depth in range(1, 6)])
    assert bars.sizeHint().height() == 5 * ceil(ROW * bars.metrics.height())
    assert "Token 5: 1 of 2 right, 50%." in bars.accessibleName()


def test_the_strip_opens_by_click_and_key(qtbot, theme):
    strip = StatusStrip()
    qtbot.addWidget(strip)
    strip.show()
    with qtbot.waitSignal(strip.clicked):
        qtbot.mouseClick(strip, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(strip.clicked):
        qtbot.keyClick(strip, Qt.Key.Key_Return)


def test_the_strip_is_as_high_with_figures_as_without(qtbot, theme):
    """Else everything above it would move as an answer begins."""
    history = RoundHistory()
    history.add([RoundStats(0, 3, 3, 2, 3, 4.0, 9.0, 1.0)] * 5)
    strip = StatusStrip()
    qtbot.addWidget(strip)
    strip.show()
    idle = strip.sizeHint().height()
    strip.show_figures(history, StripFigures(41.0, 100, 1000))
    assert strip.sizeHint().height() == idle


def test_the_last_figure_of_the_strip_stands_at_its_edge(qtbot, theme):
    """Also where no model is loaded, so that there is no context to tell of."""
    strip = StatusStrip()
    qtbot.addWidget(strip)
    strip.resize(800, strip.sizeHint().height())
    strip.show()
    edges = set()
    for context in (1000, None):
        strip.show_figures(RoundHistory(), StripFigures(41.0, 100, context))
        QApplication.processEvents()
        shown = [label for label in strip.findChildren(QLabel) if label.text()]
        edges.add(max(label.geometry().right() for label in shown))
    assert len(edges) == 1


def test_view_and_strip_show_a_history(qtbot, theme):
    history = RoundHistory()
    history.add([RoundStats(0, 3, 3, 2, 3, 4.0, 9.0, 1.0)] * 5)
    view, strip = DraftingView(), StatusStrip()
    qtbot.addWidget(view)
    qtbot.addWidget(strip)
    view.show_history(history)
    view.show_costs([5, 6, 7, 8], 3)
    strip.show_figures(history, StripFigures(41.0, 100, 1000))
    assert any("10 of 15 guesses" in text for text in words_on(view))
    assert "67% of guesses right" in strip.accessibleDescription()
    assert "41.0 tok/s" in strip.accessibleDescription()


@pytest.mark.parametrize("width", [120, 254, 600])
@pytest.mark.parametrize("kind", FILLED)
def test_words_are_never_cut_off(qtbot, wear, kind, width):
    wear("light", 1.5)
    chart = kind()
    qtbot.addWidget(chart)
    chart.resize(width, 10)
    chart.show()
    assert chart.height() >= chart.words_height(width)
    FILLED[kind](chart)
    if kind is StageBar:
        assert chart.height() >= BAR + chart.words_height(width)


@pytest.mark.parametrize("zoom", [1.0, 2.4])
def test_figures_of_bars_never_overlap(qtbot, wear, zoom):
    wear("light", zoom)
    bars = DepthBars()
    qtbot.addWidget(bars)
    bars.show_rows([DepthRow(depth, 1800, 2800) for depth in range(1, 4)])
    bars.resize(300, bars.height())
    drawn = drawn_texts(bars)
    assert len(drawn) == 9
    for one, other in combinations(drawn, 2):
        assert not one.intersects(other)


def test_milliseconds_of_a_curve_never_overlap(qtbot, wear):
    wear("light", 2.4)
    curve = CostCurve()
    qtbot.addWidget(curve)
    curve.show_costs([10, 11, 12], 1)
    curve.resize(600, curve.height())
    for one, other in combinations(drawn_texts(curve), 2):
        assert not one.intersects(other)
    assert all(curve.rect().toRectF().contains(text) for text in drawn_texts(curve))
