"""The window's theme: colours and text sizes, as the application's palette and font.

Qt passes both on to every widget. Code that paints calls `look()` while painting; whatever caches
something made of it renews it in `changeEvent` at a StyleChange: the style sheet is the last thing
that `style_sheet.apply_theme` sets. Documents that are laid out are updated one by one.
"""

import json
from dataclasses import asdict, astuple, dataclass
from functools import cache
from typing import Literal

from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette

from app.start.folders import asset_path

Scheme = Literal["light", "dark"]

WEAKEST_TINT, STRONGEST_TINT = 0.10, 0.28
DEEPEST_TINT = 4
"""Draft depth from which tints are equally strong."""

ICON = 16
"""Size of an icon in pixels at a zoom of 1."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of one scheme as "#RRGGBB"; names say their use."""

    page: str
    side: str
    line: str
    text: str
    muted: str
    accent: str
    on_accent: str
    bubble: str
    code: str
    hover: str
    selected: str
    warning: str
    error: str
    tint: str
    code_keyword: str
    code_string: str
    code_number: str
    code_comment: str
    code_name: str

    def tint_strength(self, depth: int) -> float:
        """Opacity of the background behind a word drafted at `depth` (1 and up)."""
        step = (STRONGEST_TINT - WEAKEST_TINT) / (DEEPEST_TINT - 1)
        return WEAKEST_TINT + step * (min(depth, DEEPEST_TINT) - 1)

    def named(self, name: str) -> str:
        """Return a colour by name; KeyError for an unknown one."""
        return _colours(self)[name]


@cache
def _colours(theme: Theme) -> dict[str, str]:
    return asdict(theme)


@dataclass(frozen=True, slots=True)
class TypeSizes:
    """All text sizes, in pixels at a zoom of 1; spacing follows a grid of 4 pixels. Code has the
    size of the interface.
    """

    small: int = 12
    interface: int = 13
    transcript: int = 15
    title: int = 19

    def zoomed(self, zoom: float) -> "TypeSizes":
        """Return the sizes at another text zoom."""
        return TypeSizes(*(max(8, round(pixels * zoom)) for pixels in astuple(self)))


@dataclass(frozen=True, slots=True)
class Look:
    """Colours and text sizes of one moment."""

    theme: Theme
    sizes: TypeSizes

    @property
    def zoom(self) -> float:
        """Text zoom; sizes of widgets are multiplied by it."""
        return self.sizes.interface / TypeSizes().interface

    @property
    def icon_size(self) -> int:
        """Size of an icon in pixels."""
        return round(ICON * self.zoom)

    def colour(self, name: str, opacity: float = 1.0) -> QColor:
        """Return a colour of the theme."""
        colour = QColor(self.theme.named(name))
        colour.setAlphaF(opacity)
        return colour

    def tint(self, depth: int) -> QColor:
        """Return the background colour of a word drafted at this depth."""
        return self.colour("tint", self.theme.tint_strength(depth))

    def font(self, pixels: int, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """Return the interface's font in another size, with figures of equal width."""
        font = QFont(QGuiApplication.font())
        font.setPixelSize(pixels)
        font.setWeight(weight)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

    def text_font(self) -> QFont:
        """Font of prose."""
        font = QFont(QGuiApplication.font())
        font.setPixelSize(self.sizes.transcript)
        return font

    def code_font(self) -> QFont:
        """Font of code blocks."""
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(self.sizes.interface)
        return font

    def small_font(self) -> QFont:
        """Font of footers and labels."""
        return self.font(self.sizes.small)


def look() -> Look:
    """Return the application's theme; before one is applied, the light one at a zoom of 1."""
    is_dark = QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128
    return _look("dark" if is_dark else "light", QGuiApplication.font().pixelSize())


@cache
def _look(scheme: Scheme, pixels: int) -> Look:
    """Make the look of a scheme. pixels: of the application's font; gives the zoom, rounded to a
    tenth.
    """
    usual = TypeSizes()
    zoom = round(pixels / usual.interface, 1) if pixels > 0 else 1.0
    return Look(load_theme(scheme), usual.zoomed(zoom))


@cache
def load_theme(scheme: Scheme) -> Theme:
    """The theme of a scheme, from assets/theme."""
    text = asset_path(f"theme/{scheme}.json").read_text(encoding="utf-8")
    return Theme(**json.loads(text))


def palette_of(theme: Theme) -> QPalette:
    """A theme as Qt's own colour roles: those the widgets here use; a disabled one is muted."""
    palette = QPalette(QColor(theme.side))
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.page,
        role.WindowText: theme.text,
        role.Base: theme.page,
        role.AlternateBase: theme.side,
        role.Text: theme.text,
        role.Button: theme.side,
        role.ButtonText: theme.text,
        role.BrightText: theme.on_accent,
        role.PlaceholderText: theme.muted,
        role.ToolTipBase: theme.bubble,
        role.ToolTipText: theme.text,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.Accent: theme.accent,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.Light: theme.page,
        role.Midlight: theme.hover,
        role.Mid: theme.line,
        role.Dark: theme.muted,
    }
    for name, colour in colours.items():
        palette.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText, role.ToolTipText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(theme.muted))
    return palette


def mixed(one: str, other: str, share: float) -> str:
    """A "#RRGGBB" colour with `share` of the other in it."""
    pairs = ((int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)
