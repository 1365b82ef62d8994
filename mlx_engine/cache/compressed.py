"""Sliding window with entries that are made of several tokens each (DeepSeek-V4's compression).

Entry e is made of tokens up to (e + 1) * ratio, and stands at index e of a buffer. So entries of
committed tokens never change, and those of rejected rows are made anew when their tokens are
there: rows that they are made of stay in the window. Nothing has to be kept to go back to.
"""

import mlx.core as mx

from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.attention import Buffers, with_blank_rows, with_rows_written
from mlx_engine.cache.contract import LayerSnapshot
from mlx_engine.cache.window import WindowCache
from mlx_engine.values.memory_plan import GROWTH


class CompressedCache(WindowCache):
    """Keys of the last tokens, rows that entries are made of, and all entries.

    Keys, which are values too, are the window's keys; rows to make entries of are its values.
    ratio: tokens of an entry; 0 for no entries.
    """

    def __init__(self, window: int, ratio: int, stock: StockOperations = MLX) -> None:
        super().__init__(window, stock)
        self.ratio = ratio
        self._entries: Buffers = ()

    @property
    def entries_to_make(self) -> range:
        """Numbers of the entries that the block just written completes, or may complete."""
        if not self.ratio:
            return range(0)
        return range(self.length // self.ratio, self.entry_count)

    @property
    def entry_count(self) -> int:
        """Upper bound of the number of complete entries; exact where the host knows all counts."""
        return (self.most_committed + self._block) // self.ratio if self.ratio else 0

    def rows_to_compress(self, begin: int, end: int) -> mx.array:
        """Rows of positions `begin` to `end` that entries are made of, [1, end - begin, N]."""
        return self._buffers[1][:, 0, self._buffer_slice(begin, end)]

    def write_entries(self, *entries: mx.array) -> None:
        """Write the entries `entries_to_make`, arrays [1, 1, count, size] of each compressor."""
        end, capacity = self.entry_count, self._entries[0].shape[2] if self._entries else 0
        if end > capacity:
            more = -(-end // GROWTH) * GROWTH - capacity
            self._entries = with_blank_rows(self._entries, entries, more)
        self._entries = with_rows_written(self._entries, entries, self.entries_to_make.start)

    def entries(self, count: int) -> Buffers:
        """The first `count` entries of each compressor, [1, 1, count, size]."""
        return tuple(buffer[:, :, :count] for buffer in self._entries)

    def entries_at(self, length: int) -> Buffers:
        """The entries complete after `length` committed tokens."""
        return self.entries(length // self.ratio) if self.ratio else ()

    def replace_entries(self, entries: Buffers) -> None:
        """Replace all entries by those that `entries_at` returned for as many tokens.

        Raises ValueError for another number of entries.
        """
        counts = {buffer.shape[2] for buffer in entries}
        if self.ratio and counts - {self.length // self.ratio}:
            raise ValueError("another number of entries")
        self._entries = entries

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Take the window to a snapshot; entries behind it are left, to be written anew."""
        super().restore(snapshot)
        if not self._length:
            self._entries = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the window's buffers and of the entries'."""
        return super().nbytes + sum(buffer.nbytes for buffer in self._entries)

    def arrays(self) -> list[mx.array]:
        """List of the window's buffers, the rows of the newest snapshot and the entries'."""
        return [*super().arrays(), *self._entries]
