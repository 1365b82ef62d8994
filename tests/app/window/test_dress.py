"""Icons, palette and style sheet: drawn in the theme's colours, readable, accepted by Qt."""

import dataclasses
import gc

import pytest
from painted import solid_colours
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import QMenu, QPushButton, QToolButton, QWidget
from shown_transcript import settle

from app.start.folders import asset_path
from app.window.controls import icons
from app.window.controls.choices import DropDown, Option, Segments, Tick
from app.window.controls.icons import app_icon, icon, paint_icon, pixmap
from app.window.controls.layouts import column
from app.window.look import Look, TypeSizes, load_theme, look, mixed, palette_of
from app.window.style_sheet import style_sheet

ICONS = sorted(path.stem for path in asset_path("icons").glob("*.svg") if path.stem != "app")


@pytest.mark.parametrize("name", ICONS)
def test_icons_are_drawn_in_one_colour(qapp, theme, name):
    wanted = QColor(theme.error)
    drawn = [QColor(name) for name in solid_colours(pixmap(name, theme.error, 48))]
    assert wanted in drawn
    for colour in drawn:  # blending rounds
        assert abs(colour.red() - wanted.red()) <= 1
        assert abs(colour.green() - wanted.green()) <= 1


def test_an_icon_that_is_off_is_paler(qapp, theme):
    assert solid_colours(icon("stop").pixmap(16)) != set()
    assert solid_colours(icon("stop").pixmap(16, QIcon.Mode.Disabled)) == set()


@pytest.mark.parametrize("ratio", [1, 1.5, 2])
def test_an_icon_is_as_sharp_as_what_it_is_drawn_on(qapp, ratio):
    canvas = QPixmap(round(16 * ratio), round(16 * ratio))
    canvas.setDevicePixelRatio(ratio)
    canvas.fill(Qt.GlobalColor.transparent)
    painter = QPainter(canvas)
    paint_icon(painter, QRect(0, 0, 16, 16), "stop", "text")
    painter.end()
    drawn = pixmap("stop", look().theme.text, 16, ratio)
    assert drawn.size() == canvas.size()
    assert drawn.toImage() == canvas.toImage()


def test_an_icon_without_room_is_not_drawn(qapp):
    assert icon("copy").pixmap(QSize(16, -2)).isNull(), "and Qt warns of nothing"


def test_an_icon_whose_file_is_gone_is_told_of_once(qapp):
    with pytest.raises(FileNotFoundError, match=r"no_such\.svg is missing"):
        pixmap("no_such", "#000000", 16)
    assert solid_colours(pixmap("no_such", "#000000", 16)) == set()


def test_an_icon_that_was_shown_outlives_its_file(qapp, monkeypatch):
    pixmap("stop", "#000000", 16)
    monkeypatch.delattr("app.window.controls.icons.asset_path")
    assert "#123456" in solid_colours(pixmap("stop", "#123456", 17))


def test_icons_that_qt_copied_and_deleted_are_not_kept(qapp):
    def count() -> int:
        return sum(isinstance(thing, icons._Drawn) for thing in gc.get_objects())

    shown, before = icon("send"), count()
    for _ in range(20):
        copy = QIcon(shown)
        copy.setIsMask(True)  # Qt makes a copy of its own, and clones what draws it
        del copy
    assert count() <= before + 1


def test_an_icon_wears_the_colours_of_now(qapp, wear):
    kept = QIcon(icon("stop", "accent"))
    kept.addPixmap(QPixmap(1, 1))  # makes the copy a clone
    drawn = []
    for scheme in ("light", "dark"):
        wear(scheme, 1.0)
        drawn.append(kept.pixmap(16).toImage())
        assert QColor(look().theme.accent).name() in solid_colours(kept.pixmap(16))
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("zoom", [round(0.1 * n, 1) for n in range(7, 21)])
def test_the_look_is_what_the_application_wears(wear, zoom):
    for scheme in ("dark", "light"):
        wear(scheme, zoom)
        assert look() == Look(load_theme(scheme), TypeSizes().zoomed(zoom))


@pytest.mark.parametrize("size", [16, 32, 128])
def test_the_app_icon_shows_two_bars_the_second_ahead(qapp, size):
    image = app_icon().pixmap(size, size).toImage()

    def bar(share):
        y = round(share * size)
        greens = [x for x in range(size) if image.pixelColor(x, y).green() > 100]
        return greens[0] / size, greens[-1] / size

    (first_left, first_right), (second_left, second_right) = bar(0.36), bar(0.64)
    assert second_left > first_left + 0.1
    assert second_right > first_right + 0.1
    assert image.pixelColor(size // 2, round(0.9 * size)).lightness() < 60


def test_the_palette_has_the_themes_colours(theme):
    palette = palette_of(theme)
    assert palette.color(QPalette.ColorRole.Base) == QColor(theme.page)
    assert palette.color(QPalette.ColorRole.Text) == QColor(theme.text)
    disabled = palette.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.ButtonText)
    assert disabled == QColor(theme.muted)


def test_qt_takes_the_style_sheet(qtbot, theme):
    sheet = style_sheet(Look(theme, TypeSizes().zoomed(1.5)))
    assert "$" not in sheet
    window = QWidget()
    qtbot.addWidget(window)
    button = QPushButton("Load", window)
    button.setProperty("role", "primary")
    window.setStyleSheet(sheet)
    assert QColor(theme.accent).name() in solid_colours(button.grab())


def test_sizes_and_colours_reach_the_sheet(theme):
    sizes = TypeSizes()
    assert style_sheet(Look(theme, sizes)) != style_sheet(Look(theme, sizes.zoomed(1.2)))
    other = dataclasses.replace(theme, accent="#123456")
    assert "#123456" in style_sheet(Look(other, sizes))


def test_mixing():
    assert mixed("#000000", "#FFFFFF", 0) == "#000000"
    assert mixed("#000000", "#FFFFFF", 1) == "#FFFFFF"
    assert mixed("#102030", "#302010", 0.5) == "#202020"


@pytest.mark.parametrize(
    ("made", "role"),
    [
        *((QPushButton, role) for role in ("", "primary", "quiet", "disclosure", "row", "link")),
        *((QPushButton, "segment"), (QToolButton, ""), (QToolButton, "primary")),
        *((QToolButton, "group"), (Tick, "")),
        (DropDown, ""),
    ],
)
@pytest.mark.parametrize("is_checked", [False, True])
def test_what_has_the_keys_is_seen(qtbot, theme, made, role, is_checked):
    window, other = QWidget(), QPushButton("other")
    control = made("Words") if made in (Tick, DropDown) else made(text="Words")
    control.setProperty("role", role)
    if made is not DropDown:
        control.setCheckable(True)
        control.setChecked(is_checked)
    column(control, other, of=window, margins=(8, 8, 8, 8))
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    seen = []
    for one in (control, other):
        one.setFocus(Qt.FocusReason.TabFocusReason)
        seen.append(control.grab().toImage())
    assert seen[0] != seen[1]


def test_a_menu_of_300_folders_scrolls_instead_of_covering_the_screen(qtbot, theme):
    menu = QMenu()
    qtbot.addWidget(menu)
    for number in range(300):
        menu.addAction(f"Folder {number}")
    assert menu.sizeHint().width() < 300


def test_a_chosen_segment_has_room_for_its_bold_words(qtbot):
    """Whatever padding a page's own style sheet gives it."""
    segments = Segments("Where", [Option("here", "On this computer"), Option("hub", "Hub")])
    segments.setStyleSheet("QPushButton { padding: 4px 14px; border: 1px solid; }")
    holder = QWidget()
    qtbot.addWidget(holder)
    column(segments, of=holder)
    segments.set_value("here")
    holder.show()
    button = segments.findChildren(QPushButton)[0]
    bold = button.font()
    bold.setWeight(QFont.Weight.DemiBold)
    assert button.width() >= QFontMetrics(bold).horizontalAdvance(button.text()) + 2 * 15
    beside = segments.sizeHint()
    holder.resize(beside.width() - 1, 100)
    settle()
    first, second = segments.findChildren(QPushButton)
    assert first.width() >= first.sizeHint().width() and second.y() > first.y()
    holder.resize(beside.width(), 100)
    settle()
    assert segments.sizeHint() == beside and second.y() == first.y()
