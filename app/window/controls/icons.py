"""Line icons in theme colours, and the widgets that show them."""

from functools import cache
from typing import Literal

from PySide6.QtCore import QByteArray, QRect, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPaintEvent, QPixmap, QPixmapCache
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget
from shiboken6 import isValid
from typing_extensions import override

from app.start.folders import asset_path
from app.window.controls.labels import set_tip
from app.window.look import look

Colour = Literal["text", "muted", "accent", "on_accent", "error"]
"""Names of theme colours."""

FAINT = 0.55
"""Opacity of a disabled icon."""


class _Drawn(QIconEngine):
    """Icon engine that draws with the present theme at each painting."""

    def __init__(self, name: str, colour: Colour) -> None:
        super().__init__()
        self._name, self._colour = name, colour
        self._clones: list[_Drawn] = []

    def _colour_in(self, mode: QIcon.Mode) -> Colour:
        """Return the colour for an icon mode: a disabled icon is not on the accent colour."""
        is_off = mode == QIcon.Mode.Disabled
        return "text" if is_off and self._colour == "on_accent" else self._colour

    # Qt

    @override
    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        del state
        paint_icon(painter, rect, self._name, self._colour_in(mode), opacity_in(mode))

    @override
    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        # in device pixels; empty for a button that is squeezed while it is laid out
        del state
        if size.isEmpty():
            return QPixmap()
        colour = look().theme.named(self._colour_in(mode))
        side = min(size.width(), size.height())
        return pixmap(self._name, colour, side, opacity=opacity_in(mode))

    @override
    def clone(self) -> QIconEngine:
        # kept here until Qt deletes it: Qt does not own what Python makes for it
        self._clones = [*filter(isValid, self._clones), _Drawn(self._name, self._colour)]
        return self._clones[-1]


def opacity_in(mode: QIcon.Mode) -> float:
    """Return the opacity for an icon mode: a disabled icon is paler."""
    return FAINT if mode == QIcon.Mode.Disabled else 1.0


def icon(name: str, colour: Colour = "text") -> QIcon:
    """Return an icon ("send") in a theme colour, which follows the theme.

    Give it to a widget at once: if Python collects it in a reference cycle, its engine is destroyed
    first.
    """
    return QIcon(_Drawn(name, colour))


def paint_icon(
    painter: QPainter, rect: QRect, name: str, colour: Colour, opacity: float = 1.0
) -> None:
    """Draw an icon in the middle of `rect`, as large as fits."""
    size, scale = min(rect.width(), rect.height()), painter.deviceTransform().m11()
    place = QRect(0, 0, size, size)
    place.moveCenter(rect.center())
    painter.drawPixmap(place, pixmap(name, look().theme.named(colour), size, scale, opacity))


def pixmap(name: str, colour: str, size: int, scale: float = 1, opacity: float = 1) -> QPixmap:
    """Return an icon as a cached pixmap.

    size: in pixels, at the device pixel ratio `scale`. colour: "#RRGGBB". Raises OSError the first
    time its file cannot be read, then returns an empty pixmap.
    """
    key = f"headstart {name} {colour} {size} {scale} {opacity}"
    kept = QPixmap()
    if QPixmapCache.find(key, kept):
        return kept
    picture = QPixmap(QSize(round(size * scale), round(size * scale)))
    picture.fill(Qt.GlobalColor.transparent)
    QPixmapCache.insert(key, picture)  # raised at every painting, a mistake would be told for ever
    tinted = _source(name).replace("currentColor", colour)
    with QPainter(picture) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setOpacity(opacity)
        QSvgRenderer(QByteArray(tinted.encode())).render(painter)
    picture.setDevicePixelRatio(scale)
    QPixmapCache.insert(key, picture)
    return picture


@cache
def _source(name: str) -> str:
    """Read an icon's file, cached."""
    return asset_path(f"icons/{name}.svg").read_text(encoding="utf-8")


def app_icon() -> QIcon:
    """Return the program's icon."""
    result = QIcon()
    for size in (16, 32, 64, 128, 256, 512):
        result.addPixmap(pixmap("app", "#000000", size))
    return result


class IconButton(QToolButton):
    """A button with an icon from assets/icons, and words for tooltip and screen reader.

    A click focuses the widget that contains it, as on a Mac, because the button may vanish. Role
    "primary" draws the icon on the accent colour.
    """

    def __init__(
        self, name: str, words: str, role: Literal["", "primary"] = "", colour: Colour = "text"
    ) -> None:
        super().__init__()
        self._name = name
        self._colour: Colour = "on_accent" if role == "primary" else colour
        self.setProperty("role", role)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.show_icon(name, words)

    def show_icon(self, name: str, words: str) -> None:
        """Show another icon and words."""
        set_tip(self, words)
        self.setAccessibleName(words)
        if name != self._name or self.icon().isNull():
            self._name = name
            self.setIcon(icon(name, self._colour))


class Sign(QWidget):
    """An icon that is no button."""

    def __init__(self, name: str, colour: Colour = "muted", size: int = 0) -> None:
        """size: in pixels, 0 to grow with the text."""
        super().__init__()
        self._size = size
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.show_sign(name, colour)

    def show_sign(self, name: str, colour: Colour) -> None:
        """Show another icon."""
        self._name, self._colour = name, colour
        self.update()

    # Qt

    @override
    def sizeHint(self) -> QSize:
        size = self._size or look().icon_size
        return QSize(size, size)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        with QPainter(self) as painter:
            paint_icon(painter, self.rect(), self._name, self._colour)
