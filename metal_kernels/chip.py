"""Which generation and size of Apple GPU this is."""

import re
from typing import NamedTuple

import mlx.core as mx

_ARCHITECTURE = re.compile(r"applegpu_g(\d+)([a-z])")


class Chip(NamedTuple):
    """generation: 13 for M1 to 17 for M5, 0 where it is not known. letter: p phone, g base or Pro,
    s Max (some Pros too), d Ultra. name: as MLX has it, "Apple M4 Pro".
    """

    generation: int
    letter: str
    name: str


NO_CHIP = Chip(0, "", "")


def chip_of(architecture: str, name: str) -> Chip:
    """From MLX's words for a GPU ("applegpu_g16s")."""
    found = _ARCHITECTURE.match(architecture)
    return Chip(int(found[1]), found[2], name) if found else Chip(0, "", name)


def this_chip() -> Chip:
    """The GPU that MLX computes on; NO_CHIP without one."""
    if not mx.metal.is_available():
        return NO_CHIP
    facts = mx.device_info()
    return chip_of(str(facts["architecture"]), str(facts["device_name"]))
