"""A screen reader is told what every control on every page is, and the words of every figure; all
text on every page has one of four sizes.
"""

import dataclasses
import re

import pytest
from accessibility_dump import CONTROLS, pages, told_of
from filled_window import filled_window
from panel_driving import Owner
from PySide6.QtCore import QBuffer
from PySide6.QtGui import QAccessible
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shown_transcript import settle

from app.window.controls.chart import Chart, ShareBar
from app.window.controls.layouts import Group
from app.window.controls.numbers import NumberField, Slider
from app.window.look import TypeSizes
from app.window.style_sheet import apply_theme

ROLE = QAccessible.Role


@pytest.fixture(scope="module")
def made(qapp, request):
    apply_theme(qapp, "light", 1.0)
    widgets = filled_window(QtBot(request))
    widgets.window.setProperty("stays", True)
    owner = Owner(widgets.session)
    widgets.session.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    yield widgets
    widgets.window.close()
    widgets.window.deleteLater()
    settle()
    qapp.setStyleSheet("")


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


def test_all_text_has_one_of_four_sizes(made):
    """As it is painted: a picture in SVG tells the size of each text."""
    shown = set[str]()
    for _, widget in pages(made, settle):
        picture, svg = QBuffer(), QSvgGenerator()
        svg.setOutputDevice(picture)
        widget.render(svg)
        shown |= set(re.findall(r'font-size="(\d+)', bytes(picture.data().data()).decode()))
    assert {int(size) for size in shown} == set(dataclasses.astuple(TypeSizes()))


def explained(control: QWidget, root: QWidget) -> bool:
    """Whether a control, or what it is a part of, has a tooltip, and tells it to a screen reader.

    An icon has the tooltip as its name.
    """
    part, tip = control, control.toolTip()
    while not tip and part is not root:
        part = part.parentWidget()
        tip = part.toolTip()
    return bool(tip) and bool(control.accessibleDescription() or control.accessibleName() == tip)


KINDS = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QPlainTextEdit, Slider)


def test_every_control_of_panel_card_and_drafting_view_is_explained(made):
    without, seen = [], 0
    for root in (made.session, made.card, made.drafting_panel):
        for group in root.findChildren(Group):
            group.open(True)
        for control in root.findChildren(QWidget):
            if isinstance(control, KINDS):
                seen += 1
                if not explained(control, root):
                    without.append((type(control).__name__, control.accessibleName(), root))
    assert not without, without
    assert seen > 50


def test_every_chart_of_the_drafting_view_has_a_legend(made):
    charts = made.drafting.findChildren(Chart)
    assert len(charts) == 4 and all(chart.accessibleDescription() for chart in charts)


def test_a_number_that_was_not_chosen_is_told_as_it_is_shown(made):
    for number in made.session.findChildren(QDoubleSpinBox):
        interface = QAccessible.queryAccessibleInterface(number)
        assert interface.text(QAccessible.Text.Value) == number.text()


def test_a_text_that_has_a_name_is_told_too(made):
    silent = [
        (page, label.text())
        for page, widget in pages(made, settle)
        for label in widget.findChildren(QLabel)
        if label.isVisible() and label.accessibleName() and not tells(label)
    ]
    assert silent == [("chat", "1/2")], "Version 1 of 2"


def tells(label: QLabel) -> bool:
    interface, text = QAccessible.queryAccessibleInterface(label), QAccessible.Text
    return label.text() in interface.text(text.Name) + interface.text(text.Description)


def test_a_slider_is_told_with_its_number_and_not_with_its_steps(made):
    field = next(f for f in made.session.findChildren(NumberField) if f.findChild(Slider))
    field.set_value(0.7)
    slider = QAccessible.queryAccessibleInterface(field.findChild(Slider))
    assert slider.text(QAccessible.Text.Description) == "0.7"


def told(widget: QWidget) -> tuple[ROLE, str]:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.role(), interface.text(QAccessible.Text.Name)


def test_a_bar_is_told_with_its_name(qtbot):
    bar = ShareBar("Memory")
    qtbot.addWidget(bar)
    bar.show_parts("24 of 64 GB")
    assert told(bar) == (ROLE.StaticText, "Memory: 24 of 64 GB")
