"""Keys and values of one attention layer, and who sees whom; keeping a prefix moves an offset."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerSnapshot, Place

GROWTH = 256
"""Rows by which the buffers grow: one copy every 256 tokens, at most 255 rows unused."""


Mask = mx.array | Literal["causal"] | None
"""Bool [rows, keys] with true for "sees"; "causal": the rows are the last ones; None: all seen."""


class KeysValues(NamedTuple):
    """What a block attends to: [1, heads, length + rows, size] each."""

    keys: mx.array
    values: mx.array


class RowsCache(ABC):
    """Buffers of keys and values, and how far they are filled.

    To a class of mlx-lm's each kind is what that library's own cache is (offset, update_and_fetch,
    make_mask). Buffers are written in place when nobody else holds them (MLX donates them), so
    callers must not keep what `write` returns beyond the pass.
    """

    keeps_any_prefix = True

    def __init__(self) -> None:
        self._buffers: KeysValues | None = None
        self._length = 0
        self._block = 0

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._length

    @property
    def offset(self) -> int:
        """Position of the next row: committed ones and those of the block."""
        return self._length + self._block

    @property
    def nbytes(self) -> int:
        """Bytes of both buffers."""
        return sum(buffer.nbytes for buffer in self._buffers) if self._buffers else 0

    @abstractmethod
    def write(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block [1, heads, rows, size] after the committed rows; all it may see."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """`write` under mlx-lm's name."""
        return self.write(keys, values)

    def keep(self, rows: int) -> None:
        """Commit the first `rows` rows of the last block."""
        assert 0 <= rows <= self._block
        self._length += rows
        self._block = 0


class AttentionCache(RowsCache):
    """Keys and values in buffers that grow by steps; rows past `length` are scratch.

    Multi-head latent attention stores its latent as keys and its rotated part as values, which may
    differ in size.
    """

    def write(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block; all rows in view."""
        buffers, end = self.append(keys, values), self._length + self._block
        return KeysValues(buffers.keys[:, :, :end], buffers.values[:, :, :end])

    def append(self, keys: mx.array, values: mx.array) -> KeysValues:
        """The same; the buffers whole, scratch behind the block's last row included."""
        self._block = keys.shape[2]
        end = self._length + self._block
        buffers = self._room_for(end, keys, values)
        buffers.keys[:, :, self._length : end] = keys
        buffers.values[:, :, self._length : end] = values
        self._buffers = buffers
        return buffers

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Who sees whom in a block of N rows about to be written; N is mlx-lm's name for it."""
        if window_size is None and (N == 1 or not return_array):
            return None if N == 1 else "causal"
        return causal_mask(self.offset, N, 0, window_size)

    def shown(self) -> KeysValues:
        """Keys and values of all committed tokens, of which there is one at least."""
        assert self._buffers is not None
        return KeysValues(*(buffer[:, :, : self._length] for buffer in self._buffers))

    def _room_for(self, end: int, keys: mx.array, values: mx.array) -> KeysValues:
        capacity = self._buffers.keys.shape[2] if self._buffers else 0
        if self._buffers and end <= capacity:
            return self._buffers
        more = -(-end // GROWTH) * GROWTH - capacity
        if self._buffers is None:
            return KeysValues(_blank(keys, more), _blank(values, more))
        return KeysValues(
            mx.concatenate([self._buffers.keys, _blank(keys, more)], axis=2),
            mx.concatenate([self._buffers.values, _blank(values, more)], axis=2),
        )

    def snapshot(self) -> Place:
        """Committed rows never change, so their number is all there is to know."""
        return Place(self._length)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Shorten to a snapshot."""
        assert snapshot.length <= self._length
        self._length = snapshot.length
        self._block = 0

    def arrays(self) -> list[mx.array]:
        """Both buffers."""
        return list(self._buffers) if self._buffers else []


def causal_mask(start: int, rows: int, first_key: int, window: int | None) -> mx.array:
    """Rows at positions start, start + 1, ...; keys from position first_key to the last row's.

    window: how many keys a row sees, its own included; None for all before it.
    """
    queries = mx.arange(start, start + rows)[:, None]
    keys = mx.arange(first_key, start + rows)[None]
    seen = keys <= queries
    return seen if window is None else seen & (keys > queries - window)


def _blank(like: mx.array, rows: int) -> mx.array:
    batch, heads, _, size = like.shape
    return mx.zeros((batch, heads, rows, size), dtype=like.dtype)
