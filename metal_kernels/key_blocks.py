"""Blocks that the keys of attention are walked in, and which of them a pass sees.

A block begins where its absolute key index says, whatever the pass.
"""

from functools import lru_cache
from typing import NamedTuple

import mlx.core as mx

SHORT, LONG, CHANGE = 128, 256, 4096
"""Keys of a block below and above the absolute index CHANGE; whole steps of four."""

BLOCKS = """
inline int block_start(int block) {
  return block <= 32 ? block * 128 : 4096 + (block - 32) * 256;
}

inline int block_of(int key) {
  return key < 4096 ? key / 128 : 32 + (key - 4096) / 256;
}
"""


def block_of(key: int) -> int:
    """The block an absolute key index lies in."""
    return key // SHORT if key < CHANGE else CHANGE // SHORT + (key - CHANGE) // LONG


def block_start(block: int) -> int:
    """The first absolute key index of a block."""
    return SHORT * block if block <= CHANGE // SHORT else CHANGE + (block - CHANGE // SHORT) * LONG


class Place(NamedTuple):
    """Where a pass stands. start: absolute position of the buffers' first row. end: one past the
    newest position, so the buffers hold `end - start` rows that count. window: 0 for none.
    spare: of an `end` that only the device knows, and that here is the largest it can be, by how
    much it may be less.
    """

    end: int
    start: int = 0
    window: int = 0
    spare: int = 0


class Span(NamedTuple):
    """The blocks that a pass sees, as arguments for the kernel."""

    blocks: int
    places: mx.array

    def ending(self, end: mx.array) -> "Span":
        """The same with an end that only the device knows, int32 [1]."""
        return Span(self.blocks, mx.where(_IS_END, end, self.places))


_IS_END = mx.array([False, True, False, False, False, False, False])


@lru_cache(maxsize=32)
def span_of(place: Place, rows: int, group: int) -> Span:
    """Kept, because all layers of a pass that see alike ask for the same. group: heads of queries
    to each of keys.
    """
    window = place.window or 2**30  # one that nothing has left yet
    first = block_of(max(place.start, place.end - place.spare - rows + 1 - window))
    blocks = block_of(place.end - 1) + 1 - first
    numbers = [place.start, place.end, window, rows, group * rows, first, blocks]
    return Span(blocks, mx.array(numbers, dtype=mx.int32))
