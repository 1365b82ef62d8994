"""What appears fades in within 120 ms, unless the user or the system wants no motion."""

import pytest
from PySide6.QtWidgets import QLabel, QProxyStyle, QStyle
from pytestqt.qtbot import QtBot

from app.window.main_window import RightSide
from app.window.motion import FADE_MS, MOVES, fade_in
from app.window.widgets import Widgets


class Durations(QProxyStyle):
    """A style whose animations last so long."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__("Fusion")
        self._milliseconds = milliseconds

    def styleHint(self, hint, option=None, widget=None, returned=None):
        if hint == QStyle.StyleHint.SH_Widget_Animation_Duration:
            return self._milliseconds
        return super().styleHint(hint, option, widget, returned)


def label_with(qtbot: QtBot, milliseconds: int) -> QLabel:
    label, style = QLabel("words"), Durations(milliseconds)
    style.setParent(label)
    label.setStyle(style)
    label.setProperty(MOVES, True)
    qtbot.addWidget(label)
    label.show()
    return label


def test_it_fades_and_is_left_without_a_trace(qtbot):
    label = label_with(qtbot, 200)
    fade_in(label)
    assert label.graphicsEffect() is not None
    qtbot.waitUntil(lambda: label.graphicsEffect() is None, timeout=100 * FADE_MS)


def test_a_system_without_motion_has_none(qtbot):
    label = label_with(qtbot, 0)
    fade_in(label)
    assert label.graphicsEffect() is None


@pytest.mark.parametrize("moves", [True, False])
def test_panels_fade_in_only_if_wanted(qapp, qtbot, moves):
    before = qapp.style().name()
    qapp.setStyle(Durations(200))
    try:
        widgets = Widgets()
        qtbot.addWidget(widgets.window)
        widgets.window.resize(1180, 780)
        widgets.window.show()
        widgets.window.set_motion(moves)
        assert widgets.sidebar.graphicsEffect() is None
        widgets.window.show_sidebar(False)
        widgets.window.show_sidebar(True)
        assert (widgets.sidebar.graphicsEffect() is not None) is moves
        qtbot.waitUntil(lambda: widgets.sidebar.graphicsEffect() is None, timeout=100 * FADE_MS)
        right = widgets.window.findChild(RightSide)
        for page in ("library", "chat"):
            widgets.window.show_page(page)
            assert right.isVisible() is (page == "chat")
            assert right.graphicsEffect() is None, "it comes with its page"
        for width in (600, 1180):
            widgets.window.resize(width, 780)
            assert right.isVisible() is (width > 600)
            assert right.graphicsEffect() is None, "an edge is dragged"
    finally:
        qapp.setStyle(before)
