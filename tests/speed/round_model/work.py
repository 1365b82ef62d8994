"""Bytes, operations and instruction slots of one piece of a pass, and the time a chip takes.

A *slot* is one instruction of one lane: the fused multiply-adds, conversions, shifts and masks that
a kernel issues for a weight or a key, whether or not they are floating operations. What a product
of few rows costs beyond its bytes are slots, so they, not flops, are held against the chip.

Two constants are fitted, on stock MLX alone: BANDWIDTH_SHARE to one row of PR 3791 (a whole model
of 70B on an M5 Max) and SLOT_SHARE to the products of MLX issue 3839 (4096 x 24576 on an M4 Pro).
All else is counted in the emulator (tests/speed/kernel_counts.py) or read in MLX's source.
"""

from typing import NamedTuple

from speed.round_model.chip_figures import DISPATCH, ChipFigures
from speed.round_model.cost import NOTHING, Cost

BANDWIDTH_SHARE = 0.9
SLOT_SHARE = 0.9


class Work(NamedTuple):
    """cost: as everywhere. slots: instructions of single lanes."""

    cost: Cost
    slots: float

    def seconds(self, chip: ChipFigures) -> float:
        """The slower of moving and issuing, and the launches."""
        moving = (self.cost.read + self.cost.written) / (chip.bandwidth * BANDWIDTH_SHARE)
        issuing = self.slots / (chip.flops / 2 * SLOT_SHARE)
        return max(moving, issuing) + self.cost.dispatches * DISPATCH


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
