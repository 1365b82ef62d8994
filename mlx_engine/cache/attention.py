"""KV cache of one attention layer and its causal mask; a commit moves an offset."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Literal, NamedTuple, Self

import mlx.core as mx

from metal_kernels.key_value_formats import cache_group_size
from mlx_engine.cache.contract import LayerSnapshot, Place, RowCount
from mlx_engine.values.memory_plan import GROWTH
from mlx_engine.values.options import CacheBits

FAR = 4 * GROWTH
"""Least rows of buffers that `restore` replaces by shorter ones."""

Mask = mx.array | Literal["causal"] | None
"""Bool [rows, keys], true where a row sees a key; "causal": rows are the last keys; None: all."""


class KeysValues(NamedTuple):
    """Keys and values that a block attends to, [1, heads, length + rows, size] each."""

    keys: mx.array
    values: mx.array


Buffers = tuple[mx.array, ...]
"""Keys and values [1, heads, capacity, size]; packed ones as words, scales and biases of each."""


class RowsCache(ABC):
    """Buffers of keys and values, and how far they are filled.

    row_bits: bits of an element; with 8 or 4 all readers see rounded rows, the block itself too.
    Classes of mlx-lm use it as that library's own cache (offset, update_and_fetch, make_mask; no
    attribute `bits`, which means packed rows there). Buffers
    are written in place when nobody else holds them (MLX donates them), so callers must not keep
    what `write` returns beyond the pass.
    """

    keeps_any_prefix = True
    keeps_all_rows = False

    def __init__(self, bits: CacheBits = 16) -> None:
        self.row_bits = bits
        self._buffers: Buffers = ()
        self._group = 0
        self._length = 0
        self._block = 0
        self._pending: RowCount | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        self._resolve()
        return self._length

    @property
    def pending(self) -> RowCount | None:
        """How many rows after `length` count too; None once the host knows."""
        self._resolve()
        return self._pending

    def _resolve(self) -> None:
        """Add a pending count that the host knows by now."""
        if self._pending is not None and self._pending.known is not None:
            self._length += self._pending.known
            self._pending = None

    @property
    def most(self) -> int:
        """The most tokens that may be committed, pending ones included."""
        length, pending = self.length, self._pending
        return length if pending is None else length + pending.most

    def start(self, first: int = 0) -> int | mx.array:
        """Index of the next row from position `first` on; int32 [1] with a pending count."""
        here, pending = self.length - first, self._pending
        return here if pending is None else pending.after(here)

    @property
    def offset(self) -> int:
        """Position behind the committed rows and those of the block."""
        return self.length + self._block

    @property
    def buffers(self) -> Buffers:
        """The whole buffers, with unused room."""
        return self._buffers

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def write(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block [1, heads, rows, size]; return all keys and values that it may see."""
        self.append(keys, values)
        return self.keys_and_values()

    @abstractmethod
    def keys_and_values(self) -> KeysValues:
        """Keys and values that the newest block may see, or after a commit the next one.

        At least one row must have been written. mlx-lm's name, whose layers share them.
        """

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """`write` under mlx-lm's name."""
        return self.write(keys, values)

    def block(self) -> KeysValues:
        """Keys and values of the block just written; no count may be pending."""
        assert self.pending is None
        return self._unpacked(self._at(self.length, self.offset))

    def _at(self, begin: int, end: int) -> slice:
        """Slice of the buffers for positions `begin` to `end`."""
        return slice(begin, end)

    @abstractmethod
    def append(self, keys: mx.array, values: mx.array) -> Buffers:
        """Append a block; return the whole buffers, with the unused rows after the block."""

    def _packed(self, keys: mx.array, values: mx.array) -> Buffers:
        """Quantise rows to the bits of the cache."""
        if self.row_bits == 16:
            return keys, values
        self._group = cache_group_size(keys.shape[-1], values.shape[-1])
        sides = (mx.quantize(side, self._group, self.row_bits) for side in (keys, values))
        return tuple(part for side in sides for part in side)

    def _unpacked(self, rows: slice) -> KeysValues:
        """Keys and values of a range of rows, dequantised."""
        parts = [buffer[:, :, rows] for buffer in self._buffers]
        if self.row_bits == 16:
            return KeysValues(*parts)
        return KeysValues(self._dequantised(*parts[:3]), self._dequantised(*parts[3:]))

    def _dequantised(self, words: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.dequantize(words, scales, biases, group_size=self._group, bits=self.row_bits)

    def commit(self, count: int | RowCount) -> None:
        """Append the first `count` rows of the last block; 0 rolls it back."""
        self._resolve()
        if isinstance(count, int):
            assert 0 <= count <= self._block
            self._length += count
        else:
            assert self._pending is None
            assert count.most <= self._block
            self._pending = count
        self._block = 0

    def fork(self) -> Self:
        """Copy this cache; what either writes later the other does not see."""
        return copy(self)

    def place(self) -> Place:
        """Snapshot without arrays: committed rows stay in place until NEAR more have come."""
        return Place(self.length, pending=self._pending)


class AttentionCache(RowsCache):
    """Keys and values in buffers that grow by steps; rows past `length` are scratch.

    Multi-head latent attention stores its latent as keys and its rotated part as values, which may
    differ in size.
    """

    keeps_all_rows = True

    def keys_and_values(self) -> KeysValues:
        """Keys and values of all committed rows and of the block."""
        return self._unpacked(slice(0, self.most + self._block))

    def append(self, keys: mx.array, values: mx.array) -> Buffers:
        """Append a block; return the whole buffers, with the unused rows after the block."""
        self._block = keys.shape[2]
        rows = self._packed(keys, values)
        buffers = self._room_for(self.most + self._block, rows)
        self._buffers = written(buffers, rows, self.start())
        return self._buffers

    def rows(self, start: int, end: int) -> Buffers:
        """A range of committed rows, as stored."""
        return tuple(buffer[:, :, start:end] for buffer in self._buffers)

    def fill(self, rows: Sequence[mx.array]) -> None:
        """Replace the contents by rows that `rows` returned; ValueError for any others."""
        sides = 2 if self.row_bits == 16 else 6
        if len(rows) != sides or len({side.shape[:3] for side in rows}) != 1:
            raise ValueError("keys and values of other numbers of rows, or not both")
        self._buffers = tuple(rows)
        self._length, self._block, self._pending = self._buffers[0].shape[2], 0, None

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Attention mask of a block of N rows that is written next; N is mlx-lm's name."""
        if self.pending is None and window_size is None and (N == 1 or not return_array):
            return None if N == 1 else "causal"
        return causal_mask(self.start(), N, range(self.most + N), window_size)

    def _room_for(self, end: int, rows: Buffers) -> Buffers:
        capacity = self._buffers[0].shape[2] if self._buffers else 0
        if end <= capacity:
            return self._buffers
        more = -(-end // GROWTH) * GROWTH - capacity
        return with_blanks(self._buffers, rows, more)

    def snapshot(self) -> Place:
        """The number of committed rows, which never change."""
        return Place(self.length)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Shorten to a snapshot; far too long buffers are replaced by shorter copies."""
        assert snapshot.length <= self.length
        self._length = snapshot.length
        self._block = 0
        self._pending = snapshot.pending if isinstance(snapshot, Place) else None
        room = -(-self._length // GROWTH) * GROWTH
        if not room:
            self._buffers = ()
        elif self._buffers[0].shape[2] > max(2 * room, FAR):
            kept = [mx.contiguous(buffer[:, :, :room]) for buffer in self._buffers]
            self._buffers = tuple(kept)

    def arrays(self) -> list[mx.array]:
        """The buffers."""
        return list(self._buffers)


def causal_mask(start: int | mx.array, rows: int, keys: range, window: int | None) -> mx.array:
    """Causal mask, bool [rows, keys], of rows from position `start` on; keys: their positions.

    window: how many keys a row sees, its own included; None for all before it.
    """
    queries = positions(start, range(rows))[:, None]
    places = mx.arange(keys.start, keys.stop)[None]
    seen = places <= queries
    return seen if window is None else seen & (places > queries - window)


def positions(start: int | mx.array, rows: range) -> mx.array:
    """Positions of `rows` of a block that begins at `start`, int [R]."""
    if isinstance(start, int):
        return mx.arange(start + rows.start, start + rows.stop)
    return mx.arange(rows.start, rows.stop) + start


def written(buffers: Buffers, rows: Buffers, start: int | mx.array) -> Buffers:
    """Write rows into buffers from `start` on; MLX does not check that there is room.

    Other references to the old arrays keep the old contents.
    """
    pairs = zip(buffers, rows, strict=True)
    if isinstance(start, mx.array):
        return tuple(mx.slice_update(buffer, its, start, axes=(2,)) for buffer, its in pairs)
    new = tuple(copy(buffer) for buffer in buffers)  # of the same array: assignment renames it
    for buffer, its in zip(new, rows, strict=True):
        buffer[:, :, start : start + its.shape[2]] = its
    return new


def with_blanks(buffers: Buffers, like: Buffers, rows: int) -> Buffers:
    """Append `rows` zero rows, of the shape of `like`, to buffers; buffers: may be empty."""
    blanks = [mx.zeros((*its.shape[:2], rows, its.shape[3]), dtype=its.dtype) for its in like]
    if not buffers:
        return tuple(blanks)
    pairs = zip(buffers, blanks, strict=True)
    return tuple(mx.concatenate([old, blank], axis=2) for old, blank in pairs)
