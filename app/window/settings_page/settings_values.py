"""What the settings page shows of the whole app, as plain values."""

from dataclasses import dataclass
from typing import Literal

ColourWish = Literal["system", "light", "dark"]


@dataclass(frozen=True, slots=True)
class Appearance:
    """zoom: 1 is the normal text size. show_drafted: drafted words are tinted by depth."""

    colours: ColourWish = "system"
    zoom: float = 1.0
    show_drafted: bool = False
    reduce_motion: bool = False
