"""What Apple's chips from M1 to M5 move and compute at most, from the literature."""

from typing import NamedTuple

from speed.round_model.cost import Roof

DISPATCH = 2.5e-6
"""Seconds of a small kernel that waits for the one before: 3,200 in 7.7 to 8.8 ms (MLX issue 4521,
M3 Ultra)."""


class ChipFigures(NamedTuple):
    """name: "M4 Pro". bandwidth: bytes a second, as Apple states it. flops: float32 operations a
    second of the largest GPU it is sold with; float16 runs at the same rate.
    """

    name: str
    bandwidth: float
    flops: float

    @property
    def generation(self) -> int:
        """As in Metal's architecture names: 13 for M1 to 17 for M5."""
        return 12 + int(self.name[1])

    @property
    def letter(self) -> str:
        """g base, s Pro and Max, d Ultra, as MLX's tables of thresholds have them."""
        return {"": "g", "Ultra": "d"}.get(self.name[2:].strip(), "s")

    @property
    def roof(self) -> Roof:
        """The limits a kernel's cost is held against."""
        return Roof(self.bandwidth, self.flops, DISPATCH)


# Apple's press releases for bandwidth and cores. Operations are cores * 128 lanes * 2 * clock,
# which is 1.28 GHz for M1, 1.40 for M2 and M3, 1.47 to 1.68 for M4, about 1.6 for M5
# (github.com/philipturner/metal-benchmarks and hmc-tech.com; M5 from its cores and M4's clock).
CHIPS = tuple(
    ChipFigures(name, gigabytes * 1e9, tera * 1e12)
    for name, gigabytes, tera in (
        ("M1", 68, 2.6),
        ("M1 Pro", 200, 5.3),
        ("M1 Max", 400, 10.6),
        ("M1 Ultra", 800, 21.2),
        ("M2", 100, 3.6),
        ("M2 Pro", 200, 6.8),
        ("M2 Max", 400, 13.6),
        ("M2 Ultra", 800, 27.2),
        ("M3", 100, 3.5),
        ("M3 Pro", 150, 6.4),
        ("M3 Max", 400, 14.3),
        ("M3 Ultra", 819, 28.6),
        ("M4", 120, 3.8),
        ("M4 Pro", 273, 8.1),
        ("M4 Max", 546, 17.2),
        ("M5", 153, 4.2),
        ("M5 Pro", 307, 8.3),
        ("M5 Max", 614, 16.6),
    )
)


def figures_of(name: str) -> ChipFigures | None:
    """Of a device as MLX names it, "Apple M4 Pro"; None for one that is not in the table."""
    return {f"Apple {chip.name}": chip for chip in CHIPS}.get(name)


def chip_named(name: str) -> ChipFigures:
    """Of a name in the table. Raises KeyError."""
    return {chip.name: chip for chip in CHIPS}[name]
