"""A scroll bar over the content takes no room, is seen while the content moves, and moves it."""

import pytest
from painted import solid_colours
from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractSlider, QScrollBar, QWidget

from app.window.controls.layouts import scrolled
from app.window.controls.scroll_bar import SYSTEM_HAS_THEM
from app.window.look import load_theme, mixed

pytestmark = pytest.mark.skipif(SYSTEM_HAS_THEM, reason="macOS has its own")


@pytest.fixture
def area(qtbot, wear):
    wear("light", 1.0)
    body = QWidget()
    body.setMinimumHeight(2000)
    shown = scrolled(body)
    qtbot.addWidget(shown)
    shown.resize(300, 400)
    shown.show()
    return shown


def bar_of(area):
    return next(bar for bar in area.findChildren(QScrollBar) if bar.parent() is area)


def is_painted(area):
    theme = load_theme("light")
    return QColor(mixed(theme.line, theme.muted, 0.5)).name() in solid_colours(area.grab())


def test_it_takes_no_room_and_is_there_only_for_what_is_longer(area):
    bar = bar_of(area)
    assert area.viewport().width() == 300 and bar.isVisible()
    assert bar.geometry().topRight() == area.viewport().geometry().topRight()
    area.resize(350, 400)
    assert bar.geometry().topRight() == area.viewport().geometry().topRight()
    area.resize(300, 400)
    area.widget().setMinimumHeight(100)
    area.resize(300, 410)
    assert area.viewport().width() == 300 and not bar.isVisible()


def test_it_is_seen_while_the_content_moves_and_then_no_more(area):
    rest = bar_of(area).findChild(QTimer)
    rest.stop()
    assert not is_painted(area)
    area.verticalScrollBar().setValue(500)
    assert is_painted(area) and rest.isActive()
    rest.stop()
    assert not is_painted(area)


def test_it_moves_the_content_and_follows_it(area):
    bar, own = bar_of(area), area.verticalScrollBar()
    bar.triggerAction(QAbstractSlider.SliderAction.SliderPageStepAdd)
    assert own.value() == bar.value() == own.pageStep() == 400
    bar.setSliderDown(True)  # as the pointer drags it
    bar.setSliderPosition(bar.maximum())
    assert own.value() == bar.value() == own.maximum()
    bar.setSliderDown(False)
    own.setValue(7)
    assert bar.value() == 7
