"""Which drafted tokens stand: those equal to what the target picks, up to the first that is not.

The target's pick at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
of them one pass yields.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Accepted(NamedTuple):
    """How many drafted tokens stood, and what is emitted: those and the target's next pick."""

    stood: int
    tokens: tuple[int, ...]


def accept(drafted: Sequence[int], picked: Sequence[int]) -> Accepted:
    """Compare k drafted tokens with the target's k + 1 picks."""
    assert len(picked) == len(drafted) + 1
    count = 0
    while count < len(drafted) and drafted[count] == picked[count]:
        count += 1
    return Accepted(count, tuple(picked[: count + 1]))
