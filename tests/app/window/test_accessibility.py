"""A screen reader is told what every control on every page is, and the words of every figure."""

import pytest
from accessibility_dump import CONTROLS, pages, told_of
from filled_window import filled_window
from panel_driving import Owner
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QDoubleSpinBox, QWidget
from shown_transcript import settle

from app.window.controls.chart import Chart, ShareBar

ROLE = QAccessible.Role


@pytest.fixture
def made(qtbot):
    window = filled_window(qtbot)
    owner = Owner(window.session)
    window.session.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    return window


def test_every_control_has_a_name_and_every_number_a_value(made):
    seen, nameless, silent = set(), [], []
    for page, widget in pages(made, settle):
        for told in told_of(widget):
            seen.add(told.role)
            if told.role in CONTROLS and not told.name.strip():
                nameless.append((page, str(told)))
            if told.role in (ROLE.SpinBox, ROLE.Slider) and not told.value.strip():
                silent.append((page, str(told)))
    assert nameless == [] and silent == []
    assert {ROLE.Button, ROLE.RadioButton, ROLE.CheckBox, ROLE.SpinBox, ROLE.Slider} <= seen


def test_every_figure_is_told_in_words(made):
    for _, widget in pages(made, settle):
        for chart in widget.findChildren(Chart):
            if chart.isVisible():
                interface = QAccessible.queryAccessibleInterface(chart)
                assert interface.role() == ROLE.StaticText
                assert interface.text(QAccessible.Text.Name) == chart.words() != ""


def test_a_number_that_was_not_chosen_is_told_as_it_is_shown(made):
    for number in made.session.findChildren(QDoubleSpinBox):
        interface = QAccessible.queryAccessibleInterface(number)
        assert interface.text(QAccessible.Text.Value) == number.text()


def told(widget: QWidget) -> tuple[ROLE, str]:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.role(), interface.text(QAccessible.Text.Name)


def test_a_bar_is_told_with_its_name(qtbot):
    bar = ShareBar("Memory")
    qtbot.addWidget(bar)
    bar.show_parts("24 of 64 GB")
    assert told(bar) == (ROLE.StaticText, "Memory: 24 of 64 GB")
