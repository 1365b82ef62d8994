"""Line icons from assets/icons, drawn in a theme's colours."""

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap, QPixmapCache
from PySide6.QtSvg import QSvgRenderer

from app.start.asset_files import asset_path

ICON = 16
"""Pixels at a zoom of 1."""

SCALES = (1, 2, 3)
"""Device pixels per pixel an icon is drawn for."""

FAINT = 0.55
"""Opacity of a disabled icon."""


def icon(name: str, colour: str, size: int = ICON, disabled: str | None = None) -> QIcon:
    """The icon `name` ("send") in one "#RRGGBB" colour; paler, or `disabled`, where it is off."""
    result = QIcon()
    for scale in SCALES:
        result.addPixmap(pixmap(name, colour, size, scale), QIcon.Mode.Normal)
        faint = pixmap(name, disabled or colour, size, scale, FAINT)
        result.addPixmap(faint, QIcon.Mode.Disabled)
    return result


def pixmap(
    name: str, colour: str, size: int = ICON, scale: float = 1, opacity: float = 1
) -> QPixmap:
    """The icon as one picture of `size` pixels at a device pixel ratio of `scale`; drawn once."""
    key = f"headstart {name} {colour} {size} {scale} {opacity}"
    kept = QPixmap()
    if QPixmapCache.find(key, kept):
        return kept
    source = asset_path(f"icons/{name}.svg").read_text(encoding="utf-8")
    tinted = source.replace("currentColor", QColor(colour).name())
    picture = QPixmap(QSize(round(size * scale), round(size * scale)))
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setOpacity(opacity)
    QSvgRenderer(QByteArray(tinted.encode())).render(painter)
    painter.end()
    picture.setDevicePixelRatio(scale)
    QPixmapCache.insert(key, picture)
    return picture


def app_icon() -> QIcon:
    """The program's own icon."""
    result = QIcon()
    for size in (16, 32, 64, 128, 256, 512):
        result.addPixmap(pixmap("app", "#000000", size))
    return result
