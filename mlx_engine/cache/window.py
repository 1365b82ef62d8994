"""Keys and values of the last tokens only, with slack: any prefix of a block can be committed.

A ring overwrites what a rejected draft would need again. Here rows lie in order in a buffer that
is copied to a new one when it is full, every WINDOW_STEP tokens or so. What a block sees begins at
a multiple of WINDOW_STEP that follows from its position alone; rows in there that have left it are
masked. So a row is computed alike whether it is read alone or in a block: sums run in one order.
"""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.attention import (
    Buffers,
    KeysValues,
    Mask,
    RowsCache,
    causal_mask,
    with_blank_rows,
    with_rows_written,
)
from mlx_engine.cache.contract import NEAR, LayerSnapshot, LengthSnapshot
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP
from mlx_engine.values.options import CacheBits


class WindowSnapshot(NamedTuple):
    """Snapshot of a sliding-window KV cache: a copy of the rows that later tokens may see."""

    length: int
    first: int
    rows: Buffers

    @property
    def nbytes(self) -> int:
        """Bytes of the copied keys and values."""
        return sum(array.nbytes for array in self.rows)


class WindowCache(RowsCache):
    """KV cache of a sliding-window layer, which drops rows that have left the window.

    A row has the same bits whether it is computed in a block of rows or alone.

    window: tokens a row sees, itself included. first: position of the buffers' first row. Bytes
    stay under those of window + WINDOW_STEP + WINDOW_SLACK rows and one block.
    """

    def __init__(self, window: int, stock: StockOperations = MLX, bits: CacheBits = 16) -> None:
        super().__init__(bits)
        self.window = window
        self._stock = stock
        self.first = 0
        self._copy: Buffers = ()

    def _view_start(self) -> int:
        """Position of the first key that is given to the attention of the next block."""
        return max(0, self.length - self.window + 1) // WINDOW_STEP * WINDOW_STEP

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Attention mask for a block of N rows that is written next; N is mlx-lm's name."""
        window = min(window_size or self.window, self.window)
        if self.pending_rows is None and self._length + N <= window and not return_array:
            return None if N == 1 else "causal"
        return causal_mask(self.next_row_index(), N, self.visible_positions(N), window)

    def keys_and_values(self) -> KeysValues:
        """Return all cached keys and values that the rows written last may attend to.

        They begin at a multiple of WINDOW_STEP; the mask hides those that have left the window.
        """
        return self._read_keys_values(
            self._buffer_slice(self._view_start(), self.most_committed + self._block)
        )

    def append(self, keys: mx.array, values: mx.array) -> Buffers:
        """Write the keys and values of a block; return the whole buffers of the sliding window.

        Their first row is at position `first`.
        """
        self._copy = ()  # that is evaluated by now
        self._block = keys.shape[2]
        end, rows = self.most_committed + self._block, self._quantise_rows(keys, values)
        buffers = self._grow_buffers(max(self.first, self._view_start() - NEAR), end, rows)
        self._buffers = with_rows_written(buffers, rows, self.next_row_index(self.first))
        return self._buffers

    def _buffer_slice(self, begin: int, end: int) -> slice:
        """Slice of the sliding window's buffers that holds positions `begin` to `end`."""
        return slice(begin - self.first, end - self.first)

    def _grow_buffers(self, begin: int, end: int, rows: Buffers) -> Buffers:
        """KV buffers with room up to position `end`; new ones start at position `begin`."""
        if self._buffers and end - self.first <= self._buffers[0].shape[2]:
            return self._buffers
        kept = self._committed_rows(begin)
        more = end - self.most_committed + WINDOW_SLACK - NEAR
        self.first = begin
        return with_blank_rows(kept, rows, more)

    def _committed_rows(self, begin: int) -> Buffers:
        """Committed keys and values from position `begin` on, as stored."""
        if begin >= self.most_committed:
            return ()
        return tuple(
            buffer[:, :, self._buffer_slice(begin, self.most_committed)] for buffer in self._buffers
        )

    def snapshot(self) -> WindowSnapshot:
        """Copy the keys and values of the sliding window that later tokens may see."""
        begin = self._view_start()
        # contiguous: a plain slice would keep the whole buffer alive
        self._copy = tuple(
            self._stock.make_contiguous(rows) for rows in self._committed_rows(begin)
        )
        return WindowSnapshot(self.length, begin, self._copy)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Take the sliding window to a snapshot, which may be earlier or later."""
        self._length, self._block = snapshot.length, 0
        self._pending = snapshot.pending if isinstance(snapshot, LengthSnapshot) else None
        if isinstance(snapshot, WindowSnapshot):
            self.first = snapshot.first
            self._buffers = snapshot.rows  # full, so the next block moves to buffers of its own

    def arrays(self) -> list[mx.array]:
        """List of the sliding window's buffers and the rows of the newest snapshot."""
        return [*self._buffers, *self._copy]
