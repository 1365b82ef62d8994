"""Keys and values of the last tokens only, with slack, so that any prefix of a block is kept.

A ring overwrites what a rejected draft would need again. Here rows lie in order in a buffer that
is copied to a new one when it is full, every STEP tokens or so. What a block sees begins at a
multiple of STEP that follows from its position alone; rows in there that have left the window are
masked. So a row is computed alike whether it is read alone or in a block: sums run in one order.
"""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels.stock import MLX, Stock
from mlx_engine.cache.attention import KeysValues, Mask, RowsCache, causal_mask
from mlx_engine.cache.contract import LayerSnapshot

STEP = 64
"""At most this many rows out of the window are seen (and masked) by a block."""

SLACK = 256
"""Rows free after a copy; what a copy costs is spread over as many tokens."""


class WindowSnapshot(NamedTuple):
    """A copy of the rows a later token may see; rows None when there are none."""

    length: int
    first: int
    rows: KeysValues | None

    @property
    def nbytes(self) -> int:
        """Bytes of the copy."""
        return sum(array.nbytes for array in self.rows) if self.rows else 0


class WindowCache(RowsCache):
    """Rows of a window, exact also after it has filled.

    window: tokens a row sees, itself included. first: position of the buffers' first row. Bytes
    stay under those of window + STEP + SLACK rows and one block.
    """

    def __init__(self, window: int, stock: Stock = MLX) -> None:
        super().__init__()
        self.window = window
        self._stock = stock
        self.first = 0
        self._copy: KeysValues | None = None

    def _begin(self) -> int:
        """Position of the first row the next block is shown."""
        return max(0, self._length - self.window + 1) // STEP * STEP

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Who sees whom in a block of N rows about to be written; N is mlx-lm's name for it."""
        window = min(window_size or self.window, self.window)
        if self._length + N <= window and not return_array:
            return None if N == 1 else "causal"
        return causal_mask(self._length, N, self._begin(), window)

    def write(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block; all rows from a multiple of STEP on."""
        rows = self.append(keys, values)
        shown = slice(self._begin() - self.first, self._length + self._block - self.first)
        return KeysValues(rows.keys[:, :, shown], rows.values[:, :, shown])

    def append(self, keys: mx.array, values: mx.array) -> KeysValues:
        """The same; the buffers whole, whose first row stands at position `first`."""
        self._copy = None  # that is evaluated by now
        self._block = keys.shape[2]
        begin, end = self._begin(), self._length + self._block
        rows = self._room(begin, end, keys, values)
        start, stop = self._length - self.first, end - self.first
        rows.keys[:, :, start:stop] = keys
        rows.values[:, :, start:stop] = values
        self._buffers = rows
        return rows

    def shown(self) -> KeysValues:
        """Committed rows that a block here would be shown, some of them out of the window."""
        kept = self._kept(self._begin())
        assert kept is not None
        return kept

    def _room(self, begin: int, end: int, keys: mx.array, values: mx.array) -> KeysValues:
        """Buffers that reach to `end`; new ones start at `begin`."""
        if self._buffers and end - self.first <= self._buffers.keys.shape[2]:
            return self._buffers
        kept = self._kept(begin)
        more = end - self._length + SLACK
        self.first = begin
        parts = []
        for array, old in zip((keys, values), kept or (None, None), strict=True):
            batch, heads, _, size = array.shape
            blank = mx.zeros((batch, heads, more, size), dtype=array.dtype)
            parts.append(blank if old is None else mx.concatenate([old, blank], axis=2))
        return KeysValues(*parts)

    def _kept(self, begin: int) -> KeysValues | None:
        """The committed rows from position `begin` on."""
        if self._buffers is None or begin >= self._length:
            return None
        shown = slice(begin - self.first, self._length - self.first)
        return KeysValues(*(buffer[:, :, shown] for buffer in self._buffers))

    def snapshot(self) -> WindowSnapshot:
        """A copy of what later tokens may see."""
        begin = self._begin()
        kept = self._kept(begin)
        # contiguous: a plain slice would keep the whole buffer alive
        self._copy = KeysValues(*(self._stock.contiguous(rows) for rows in kept)) if kept else None
        return WindowSnapshot(self._length, begin, self._copy)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot, or on to a later one."""
        assert isinstance(snapshot, WindowSnapshot)
        self._length, self.first = snapshot.length, snapshot.first
        self._buffers = snapshot.rows  # full, so the next block moves to buffers of its own
        self._block = 0

    def arrays(self) -> list[mx.array]:
        """Both buffers, and the newest copy."""
        return [*(self._buffers or ()), *(self._copy or ())]
