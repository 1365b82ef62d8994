"""What a kernel has to move and compute, and the time a given chip cannot beat."""

from typing import NamedTuple


class Cost(NamedTuple):
    """Of one call, or of many added up.

    read, written: bytes of device memory that must pass at least once. flops: floating operations,
    a fused multiply-add counted as two. dispatches: launches that depend on one another.
    """

    read: float
    written: float
    flops: float
    dispatches: float = 1

    def __add__(self, other: tuple[object, ...]) -> "Cost":
        """Both, one after the other."""
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))

    def times(self, count: float) -> "Cost":
        """`count` calls, one after the other."""
        return Cost(*(part * count for part in self))


class Roof(NamedTuple):
    """A chip's limits: bytes a second, float operations a second, seconds of a dispatch."""

    bandwidth: float
    flops: float
    dispatch: float

    def seconds(self, cost: Cost) -> float:
        """The time `cost` takes at least: the slower of moving and computing, and the launches."""
        moving = (cost.read + cost.written) / self.bandwidth
        return max(moving, cost.flops / self.flops) + cost.dispatches * self.dispatch


NOTHING = Cost(0, 0, 0, 0)
"""What costs nothing."""
