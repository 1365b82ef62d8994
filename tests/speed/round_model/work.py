"""Bytes, operations and instruction slots of one piece of a pass, and the time a chip takes.

A *slot* is one instruction of one lane: the fused multiply-adds, conversions, shifts and masks that
a kernel issues for a weight or a key, whether or not they are floating operations. What a product
of few rows costs beyond its bytes are slots, so they, not flops, are held against the chip.

What a chip reaches of its limits is fitted, on stock MLX alone, to the figures of published.py: the
share of its bandwidth to one row of a 70B on an M5 Max (an Ultra, two chips in one, to one row of a
9B), the share of its slots to eight rows of products on an M4 Pro, of a 70B on an M5 Max, and of a
27B on an M1 Ultra. M1 and M2 issue a load or a conversion in more than a slot, and know no bfloat
arithmetic: their share is small. All else is counted in the emulator (tests/speed/kernel_counts.py)
or read in MLX's source.
"""

from typing import NamedTuple

from speed.round_model.chip_figures import DISPATCH, ChipFigures
from speed.round_model.cost import NOTHING, Cost

BANDWIDTH_SHARES = {"d": 0.75}
"""By letter, 0.9 of all others."""

SLOT_SHARES = {13: 0.4, 14: 0.4, 17: 1.2}
"""By generation, 0.9 of all others; more than one is a higher clock or two slots at once."""


class Work(NamedTuple):
    """cost: as everywhere. slots: instructions of single lanes."""

    cost: Cost
    slots: float

    def seconds(self, chip: ChipFigures) -> float:
        """The slower of moving and issuing, and the launches."""
        bandwidth = chip.bandwidth * BANDWIDTH_SHARES.get(chip.letter, 0.9)
        slots = chip.flops / 2 * SLOT_SHARES.get(chip.generation, 0.9)
        moving = (self.cost.read + self.cost.written) / bandwidth
        return max(moving, self.slots / slots) + self.cost.dispatches * DISPATCH


class Total(NamedTuple):
    """Work done one piece after the other."""

    cost: Cost
    seconds: float


def total(pieces: list[Work], chip: ChipFigures) -> Total:
    """All of it."""
    cost = NOTHING
    for piece in pieces:
        cost = cost + piece.cost
    return Total(cost, sum(piece.seconds(chip) for piece in pieces))


def launches(count: float) -> Work:
    """Small kernels of which only the launch counts."""
    return Work(Cost(0, 0, 0, count), 0)
