"""Everything in the window can be reached with the keyboard, and has a name to be read aloud."""

import pytest
from model_states import StatedModels
from panel_driving import Owner
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QTabBar,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot
from scripted_engine import DESCRIPTION
from seen import find
from shown_transcript import settle

from app.window.controls.chart import Chart
from app.window.controls.notice_bar import NoticeBar
from app.window.drafting_view import StatusStrip
from app.window.session_panel.abilities import abilities
from app.window.session_panel.session_panel import SessionPanel
from app.window.widgets import Widgets

CONTROLS = (QAbstractButton, QLineEdit, QPlainTextEdit, QComboBox, QAbstractItemView, StatusStrip)
NAMED = (*CONTROLS, Chart, QProgressBar)
MOST_STEPS = 300
ONE_ROW = 8
"""Pixels by which what stands side by side may differ."""


@pytest.fixture
def widgets(qtbot):
    made, stated = Widgets(), StatedModels()
    made.library.watch(*stated.watched, stated.settings)
    qtbot.addWidget(made.window)
    made.session.show_model(None, abilities(DESCRIPTION))
    made.window.resize(1180, 780)
    made.window.show()
    qtbot.waitExposed(made.window)
    made.window.show_page("settings")
    for pane in ("general", "appearance", "models", "drafting", "advanced"):
        made.settings.show_pane(pane)
    made.window.show_page("chat")
    for group in made.window.findChildren(QToolButton):
        if group.property("role") == "group":
            group.setChecked(True)
    made.window.activateWindow()
    return made


def own(widget: QWidget) -> bool:
    """Not a part that Qt made for itself inside a control."""
    parent = widget.parentWidget()
    return (
        widget.objectName() != "qt_menubar_ext_button"
        and not isinstance(parent, QLineEdit | QComboBox | QAbstractSpinBox | QAbstractItemView)
        and (parent is None or not parent.inherits("QComboBoxPrivateContainer"))
    )


def walked(qtbot: QtBot, widgets: Widgets) -> list[QWidget]:
    """What Tab comes by, until it comes by again."""
    seen: list[QWidget] = []
    start = widgets.strip
    start.setFocus()
    for _ in range(MOST_STEPS):
        focus = QApplication.focusWidget()
        assert focus is not None
        if focus in seen:
            return seen
        seen.append(focus)
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    raise AssertionError("Tab never comes round")


def has_its_segment(control: QWidget, reached: list[QWidget]) -> bool:
    """Of segments side by side Tab takes one, the arrow keys take the others."""
    parent = control.parentWidget()
    return control.property("role") == "segment" and any(
        other.parentWidget() is parent for other in reached
    )


@pytest.mark.parametrize(
    ("page", "panel"),
    [
        ("chat", "session"),
        ("chat", "drafting"),
        ("library", None),
        ("compare", None),
        ("settings", None),
    ],
)
def test_tab_reaches_every_control(qtbot, widgets, page, panel):
    widgets.window.show_page(page)
    if panel:
        widgets.window.show_panel(panel)
    reached = walked(qtbot, widgets)
    controls = [
        control
        for kind in CONTROLS
        for control in widgets.window.findChildren(kind)
        if control.isVisible() and control.isEnabled() and own(control)
    ]
    assert len(controls) > 8
    missed = [
        f"{type(c).__name__} {c.accessibleName() or c.property('text')}"
        for c in controls
        if c not in reached and not has_its_segment(c, reached)
    ]
    assert missed == []


def test_tab_goes_down_the_panel(qtbot, widgets):
    widgets.window.show_panel("session")
    _close, *steps = filter(widgets.session.isAncestorOf, walked(qtbot, widgets))
    settle()
    heights = [one.mapTo(widgets.session, one.rect().center()).y() for one in steps]
    at_once = zip(steps[1:], heights, heights[1:], strict=False)
    up = [one.accessibleName() for one, before, now in at_once if now < before - ONE_ROW]
    assert len(steps) > 15
    assert up == []


def test_arrow_keys_walk_the_segments(qtbot, widgets):
    widgets.window.show_panel("session")
    panel = widgets.session
    assert isinstance(panel, SessionPanel)
    owner = Owner()
    panel.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    auto = find(panel, QPushButton, "Guess ahead: Auto")
    auto.setFocus()
    qtbot.keyClick(auto, Qt.Key.Key_Right)
    focus = QApplication.focusWidget()
    assert focus is not None
    assert focus.accessibleName() == "Guess ahead: Off"
    qtbot.keyClick(focus, Qt.Key.Key_Right)
    assert [draft.depth for _, draft in owner.heard] == [0, 3]


def is_named(widget: QWidget) -> bool:
    """Buttons of the notice bar get their words with each notice."""
    words = widget.text() if isinstance(widget, QAbstractButton) else ""
    return bool(widget.accessibleName() or words or isinstance(widget.parentWidget(), NoticeBar))


def test_every_control_and_chart_has_a_name(widgets):
    nameless = [
        f"{type(w).__name__} in {type(w.parentWidget()).__name__}"
        for kind in NAMED
        for w in widgets.window.findChildren(kind)
        if own(w) and not is_named(w)
    ]
    assert nameless == []


def test_pages_say_what_they_are(widgets):
    for part in (widgets.session, widgets.drafting, widgets.compare, widgets.settings):
        assert part.accessibleName()


def test_what_tab_comes_to_from_another_part_of_the_window_is_scrolled_to(widgets, qtbot):
    def is_in_view(widget: QWidget) -> bool:
        seen = area.viewport()
        return seen.rect().contains(widget.mapTo(seen, widget.rect().center()))

    window = widgets.window
    window.show_page("settings")
    qtbot.waitUntil(window.isActiveWindow)
    settle()
    widgets.settings.show_pane("advanced")
    settle()
    areas = widgets.settings.findChildren(QScrollArea)
    (area,) = [area for area in areas if area.isVisible()]
    names = widgets.settings.findChild(QTabBar)
    bar = area.verticalScrollBar()
    bar.setValue(bar.maximum())
    names.setFocus()
    qtbot.keyClick(names, Qt.Key.Key_Tab)
    assert area.isAncestorOf(window.focusWidget()) and is_in_view(window.focusWidget())
    while area.isAncestorOf(window.focusWidget()):
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    bar.setValue(0)
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    assert area.isAncestorOf(window.focusWidget()) and is_in_view(window.focusWidget())
    assert bar.value() > 0
