"""Blocks in which attention kernels process keys, and the blocks that a pass attends to.

Block boundaries depend on absolute key positions only, not on the pass.
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
    """Number of the attention kernel's block of keys that contains an absolute position."""
    return key // SHORT if key < CHANGE else CHANGE // SHORT + (key - CHANGE) // LONG


def block_start(block: int) -> int:
    """Absolute position of the first key in a block of the attention kernel."""
    return SHORT * block if block <= CHANGE // SHORT else CHANGE + (block - CHANGE // SHORT) * LONG


class KeyExtent(NamedTuple):
    """Positions of the keys in a KV cache's buffers.

    end: one past the newest position. start: position of the buffers' first row, so that `end -
    start` rows are valid. window: sliding window, 0 for none. spare: where only the device knows
    the end, `end` is its maximum and the true end is at most `spare` less.
    """

    end: int
    start: int = 0
    window: int = 0
    spare: int = 0


class BlockSpan(NamedTuple):
    """Blocks of keys that a pass attends to: their number and the kernel's arguments."""

    blocks: int
    places: mx.array

    def with_end(self, end: mx.array) -> "BlockSpan":
        """Replace the end of the keys by one that only the device knows, int32 [1]."""
        return BlockSpan(self.blocks, mx.where(_IS_END, end, self.places))


_IS_END = mx.array([False, True, False, False, False, False, False])


@lru_cache(maxsize=32)
def block_span(extent: KeyExtent, rows: int, heads_per_key: int) -> BlockSpan:
    """Blocks of keys that the newest `rows` rows attend to.

    heads_per_key: query heads per key head.
    """
    window = extent.window or 2**30  # one that nothing has left yet
    first = block_of(max(extent.start, extent.end - extent.spare - rows + 1 - window))
    blocks = block_of(extent.end - 1) + 1 - first
    numbers = [extent.start, extent.end, window, rows, heads_per_key * rows, first, blocks]
    return BlockSpan(blocks, mx.array(numbers, dtype=mx.int32))
