"""Colours and type sizes of the window, read from assets/theme."""

import json
from dataclasses import dataclass
from typing import Literal

from app.start.asset_files import asset_path

Scheme = Literal["light", "dark"]

WEAKEST_TINT, STRONGEST_TINT = 0.10, 0.28
DEEPEST_TINT = 4
"""From this draft depth on the tint gets no stronger: more steps cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Theme:
    """One scheme's colours as "#RRGGBB" strings; names say what a colour is for."""

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


@dataclass(frozen=True, slots=True)
class TypeSizes:
    """Text sizes in pixels at a zoom of 1; spacing follows a grid of 4 pixels."""

    interface: int = 13
    transcript: int = 15
    code: int = 13
    small: int = 12

    def zoomed(self, zoom: float) -> "TypeSizes":
        """The same at another text zoom."""

        def size(pixels: int) -> int:
            return max(8, round(pixels * zoom))

        return TypeSizes(
            size(self.interface), size(self.transcript), size(self.code), size(self.small)
        )


def load_theme(scheme: Scheme) -> Theme:
    """The theme of a scheme."""
    text = asset_path(f"theme/{scheme}.json").read_text(encoding="utf-8")
    return Theme(**json.loads(text))
