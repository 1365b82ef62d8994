"""KV cache of one attention layer and its causal mask; a commit moves an offset."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Literal, NamedTuple, Self

import mlx.core as mx
import numpy as np

from metal_kernels.key_value_formats import cache_group_size
from mlx_engine.cache.contract import LayerCaches, LayerSnapshot, LengthSnapshot, RowCount
from mlx_engine.values.memory_plan import GROWTH
from mlx_engine.values.options import CacheBits

FAR = 4 * GROWTH
"""Least rows of buffers that `restore` replaces by shorter ones."""

Mask = mx.array | Literal["causal"] | None
"""Bool [rows, keys], true where a row sees a key; "causal": rows are the last keys; None: all."""


class KeysValues(NamedTuple):
    """Keys and values that a block of rows attends to, [1, heads, length + rows, size] each."""

    keys: mx.array
    values: mx.array


Buffers = tuple[mx.array, ...]
"""Keys and values [1, heads, capacity, size]; packed ones as words, scales and biases of each."""


class RowsCache(ABC):
    """Base class of KV caches of one layer: buffers of keys and values, and how full they are.

    row_bits: bits of an element; with 8 or 4 all readers see rounded rows, the block itself too.
    shift: RoPE position of the next row less its index, not 0 behind a picture.
    Classes of mlx-lm use it as that library's own cache (offset, update_and_fetch, make_mask; no
    attribute `bits`, which means packed rows there). Buffers are written in place when nobody else
    holds them (MLX donates them), so callers must not keep what `write` returns beyond the pass.
    """

    keeps_any_prefix = True
    keeps_all_rows = False

    def __init__(self, bits: CacheBits = 16) -> None:
        self.row_bits = bits
        self.shift = 0
        self._buffers: Buffers = ()
        self._group = 0
        self._length = 0
        self._block = 0
        self._pending: RowCount | None = None

    @property
    def length(self) -> int:
        """Number of tokens committed to this KV cache."""
        if self._pending is not None:
            self._resolve_pending()
        return self._length

    @property
    def pending_rows(self) -> RowCount | None:
        """Number of committed rows after `length`, unknown to the host; None once it knows."""
        if self._pending is not None:
            self._resolve_pending()
        return self._pending

    def _resolve_pending(self) -> None:
        """Add a committed count to `length` as soon as the host knows the number."""
        if self._pending is not None and self._pending.known is not None:
            self._length += self._pending.known
            self._pending = None

    @property
    def most_committed(self) -> int:
        """Upper bound of the number of committed tokens; exact once the host knows it."""
        length, pending = self.length, self._pending
        return length if pending is None else length + pending.most

    def next_row_index(self, first: int = 0) -> int | mx.array:
        """Buffer index of the next row to be written, if position `first` has index 0.

        An int, or int32 [1] while only the device knows how many rows are committed.
        """
        here, pending = self.length - first, self._pending
        return here if pending is None else pending.length_with_count(here)

    def position(self) -> int | mx.array:
        """RoPE position of the next row to be written, as `start` gives its index."""
        return self.next_row_index(-self.shift)

    @property
    def offset(self) -> int:
        """Number of tokens in the KV cache, those of an uncommitted block included."""
        return self.length + self._block

    @property
    def buffers(self) -> Buffers:
        """The arrays of the KV cache at full capacity, unused rows included."""
        return self._buffers

    @property
    def key_value_buffers(self) -> Buffers:
        """Keys and values at full capacity, as stored, without further arrays."""
        return self._buffers

    @property
    def nbytes(self) -> int:
        """Bytes of the KV cache's buffers."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def write(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append keys and values [1, heads, rows, size]; return all that these rows may see."""
        self.append(keys, values)
        return self.keys_and_values()

    @abstractmethod
    def keys_and_values(self) -> KeysValues:
        """Return all cached keys and values that the rows written last may attend to.

        At least one row must have been written. mlx-lm's name; its layers share keys and values by
        it.
        """

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append keys and values; return all that the new rows may see (mlx-lm's `write`)."""
        return self.write(keys, values)

    def block_keys_and_values(self) -> KeysValues:
        """Keys and values of the block just written; the host must know all counts."""
        assert self.pending_rows is None
        return self._read_keys_values(self._buffer_slice(self.length, self.offset))

    def visible_positions(self, rows: int) -> range:
        """Positions of the keys that a block of `rows` rows, written next, is given."""
        return range(self._view_start(), self.most_committed + rows)

    def _view_start(self) -> int:
        """Position of the first key that is given to the attention of the next block."""
        return 0

    def _buffer_slice(self, begin: int, end: int) -> slice:
        """Slice of the KV buffers' rows that hold positions `begin` to `end`."""
        return slice(begin, end)

    @abstractmethod
    def append(self, keys: mx.array, values: mx.array) -> Buffers:
        """Write a block's keys and values behind the committed rows; return the whole buffers."""

    def _quantise_rows(self, keys: mx.array, values: mx.array) -> Buffers:
        """Quantise keys and values to the bits of the KV cache; unchanged at 16 bits."""
        if self.row_bits == 16:
            return keys, values
        self._group = cache_group_size(keys.shape[-1], values.shape[-1])
        sides = (mx.quantize(side, self._group, self.row_bits) for side in (keys, values))
        return tuple(part for side in sides for part in side)

    def _read_keys_values(self, rows: slice) -> KeysValues:
        """Read a range of rows from the KV buffers, dequantised to keys and values."""
        return self.keys_and_values_of([buffer[:, :, rows] for buffer in self._buffers])

    def keys_and_values_of(self, stored: Sequence[mx.array]) -> KeysValues:
        """Dequantise keys and values as stored, which further arrays may follow."""
        if self.row_bits == 16:
            return KeysValues(*stored[:2])
        return KeysValues(self._dequantise_rows(*stored[:3]), self._dequantise_rows(*stored[3:6]))

    def _dequantise_rows(self, words: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.dequantize(words, scales, biases, group_size=self._group, bits=self.row_bits)

    def commit(self, count: int | RowCount) -> None:
        """Keep the first `count` rows of the block just written; 0 drops the block."""
        self._resolve_pending()
        if isinstance(count, int):
            assert 0 <= count <= self._block
            self._length += count
        else:
            assert self._pending is None
            assert count.most <= self._block
            self._pending = count
        self._block = 0

    def fork(self) -> Self:
        """Copy this KV cache; what is written to one copy is not seen in the other."""
        return copy(self)

    def temporary_snapshot(self) -> LengthSnapshot:
        """Snapshot of the KV cache as a mere length, without arrays.

        Committed rows stay in the buffers until NEAR more have come.
        """
        return LengthSnapshot(self.length, pending=self._pending)


def shift_positions(caches: LayerCaches, shift: int) -> None:
    """Set how far RoPE positions of the next rows are ahead of their numbers, after pictures."""
    for cache in caches.layers:
        if isinstance(cache, RowsCache):
            cache.shift = shift


class AttentionCache(RowsCache):
    """KV cache of a full-attention layer; its buffers grow by steps, unused rows at their end.

    Multi-head latent attention stores its latent as keys and its rotated part as values, which may
    differ in size. others: number of further arrays of rows, such as the keys of an indexer, which
    are stored unquantised behind keys and values. summaries: what an indexer has made of blocks of
    rows; not saved, and valid for blocks of committed rows only.
    """

    keeps_all_rows = True

    def __init__(self, bits: CacheBits = 16, others: int = 0) -> None:
        super().__init__(bits)
        self._sides = 2 if bits == 16 else 6
        self._stored = self._sides + others
        self.summaries: mx.array | None = None

    @property
    def key_value_buffers(self) -> Buffers:
        """Keys and values at full capacity, as stored, without further arrays."""
        return self._buffers[: self._sides]

    @property
    def others(self) -> Buffers:
        """Further arrays of rows, of all committed rows and of the block just written."""
        end = self.most_committed + self._block
        return tuple(buffer[:, :, :end] for buffer in self._buffers[self._sides :])

    def gather_rows(self, rows: mx.array) -> Buffers:
        """Read rows of keys and values as stored: indices int [R, N] -> [R, heads, N, ...] each.

        Indices [R, heads, N] are of each head's own rows.
        """
        sides = self.key_value_buffers
        if rows.ndim == 3:
            heads, length = sides[0].shape[1:3]
            firsts = mx.array(np.arange(heads, dtype=np.uint32)[:, None] * length)
            return tuple(mx.take(side.flatten(0, 2), rows + firsts, axis=0) for side in sides)
        return tuple(mx.take(side.squeeze(0), rows, axis=1).swapaxes(0, 1) for side in sides)

    def keys_and_values(self) -> KeysValues:
        """Keys and values of all committed rows and of the block just written."""
        return self._read_keys_values(slice(0, self.most_committed + self._block))

    def append(self, keys: mx.array, values: mx.array, *others: mx.array) -> Buffers:
        """Write a block's rows [1, heads, rows, size] behind the committed ones; return buffers.

        Those are whole, of keys and values, then of `others`.
        """
        self._block = keys.shape[2]
        rows = (*self._quantise_rows(keys, values), *others)
        assert len(rows) == self._stored
        buffers = self._grow_buffers(self.most_committed + self._block, rows)
        self._buffers = with_rows_written(buffers, rows, self.next_row_index())
        return self._buffers

    def rows(self, start: int, end: int) -> Buffers:
        """Committed rows `start` to `end` of the KV buffers, as stored (packed if quantised)."""
        return tuple(buffer[:, :, start:end] for buffer in self._buffers)

    def replace_rows(self, rows: Sequence[mx.array]) -> None:
        """Replace the KV cache's contents by rows that `rows` returned; else ValueError."""
        keys_values, counts = rows[: self._sides], {side.shape[2] for side in rows}
        is_whole = len(rows) == self._stored and len(counts) == 1
        if not is_whole or len({side.shape[:3] for side in keys_values}) != 1:
            raise ValueError("keys and values of other numbers of rows, or not both")
        self._buffers = tuple(rows)
        self._length, self._block, self._pending = self._buffers[0].shape[2], 0, None

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Attention mask for a block of N rows that is written next; N is mlx-lm's name."""
        if self.pending_rows is None and window_size is None and (N == 1 or not return_array):
            return None if N == 1 else "causal"
        return causal_mask(self.next_row_index(), N, self.visible_positions(N), window_size)

    def _grow_buffers(self, end: int, rows: Buffers) -> Buffers:
        capacity = self._buffers[0].shape[2] if self._buffers else 0
        if end <= capacity:
            return self._buffers
        more = -(-end // GROWTH) * GROWTH - capacity
        return with_blank_rows(self._buffers, rows, more)

    def snapshot(self) -> LengthSnapshot:
        """Snapshot of the KV cache: its length alone, as committed rows never change."""
        return LengthSnapshot(self.length)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Shorten the KV cache to a snapshot's length; buffers much too long are shortened too."""
        assert snapshot.length <= self.length
        self._length = snapshot.length
        self._block = 0
        self._pending = snapshot.pending if isinstance(snapshot, LengthSnapshot) else None
        room = -(-self._length // GROWTH) * GROWTH
        if not room:
            self._buffers = ()
        elif self._buffers[0].shape[2] > max(2 * room, FAR):
            kept = [mx.contiguous(buffer[:, :, :room]) for buffer in self._buffers]
            self._buffers = tuple(kept)

    @property
    def nbytes(self) -> int:
        """Bytes of the KV cache's buffers, and of summaries of them."""
        return super().nbytes + (0 if self.summaries is None else self.summaries.nbytes)

    def arrays(self) -> list[mx.array]:
        """List of the KV cache's buffers, and the summaries of blocks of rows."""
        return [*self._buffers, *([] if self.summaries is None else [self.summaries])]


def causal_mask(start: int | mx.array, rows: int, keys: range, window: int | None) -> mx.array:
    """Causal mask, bool [rows, keys], of rows from position `start` on; keys: their positions.

    window: how many keys a row sees, its own included; None for all before it.
    """
    if isinstance(start, int) and rows == 1:
        row = np.arange(keys.start, keys.stop) <= start
        row[: 0 if window is None else max(0, start - window + 1 - keys.start)] = False
        return mx.array(row[None])
    queries = row_positions(start, range(rows))[:, None]
    places = mx.arange(keys.start, keys.stop)[None]
    seen = places <= queries
    return seen if window is None else seen & (places > queries - window)


def row_positions(start: int | mx.array, rows: range) -> mx.array:
    """Positions int [R] of rows `rows` of a block whose first row is at position `start`."""
    if isinstance(start, int):
        return mx.arange(start + rows.start, start + rows.stop)
    return mx.arange(rows.start, rows.stop) + start


def with_rows_written(buffers: Buffers, rows: Buffers, start: int | mx.array) -> Buffers:
    """Write keys and values into KV buffers from row `start` on; return the new buffers.

    MLX does not check that there is room. Other references to the old arrays keep the old contents.
    """
    pairs = zip(buffers, rows, strict=True)
    if isinstance(start, mx.array):
        return tuple(mx.slice_update(buffer, its, start, axes=(2,)) for buffer, its in pairs)
    new = tuple(copy(buffer) for buffer in buffers)  # of the same array: assignment renames it
    for buffer, its in zip(new, rows, strict=True):
        buffer[:, :, start : start + its.shape[2]] = its
    return new


def with_blank_rows(buffers: Buffers, template_arrays: Buffers, rows: int) -> Buffers:
    """Append `rows` zero rows, shaped as in `template_arrays`, to KV buffers, maybe empty ones."""
    blanks = [
        mx.zeros((*its.shape[:2], rows, its.shape[3]), dtype=its.dtype) for its in template_arrays
    ]
    if not buffers:
        return tuple(blanks)
    pairs = zip(buffers, blanks, strict=True)
    return tuple(mx.concatenate([old, blank], axis=2) for old, blank in pairs)
