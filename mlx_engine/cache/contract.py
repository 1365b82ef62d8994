"""Interface of layer caches: write a block, commit a prefix of it, snapshot, restore."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import mlx.core as mx

NEAR = 64
"""Rows that `place` stays valid for; a round and a draft are fewer."""


WORTH_A_TOKEN = 64 * 1024
"""Bytes that a checkpoint in the middle of a conversation may take for each token that need not be
read again: 150 MB of recurrent states every 2,300 tokens, 460 MB of windows every 7,000.
"""


class RowCount:
    """How many rows of a block count, 1 to `most`: on the device at once, on the host later.

    rows: int32 [1]. known: the number, once the host has set it. Until then whatever was committed
    with this count has a `length` without these rows. The host may set a lower number than the
    device has, 0 included, if nothing is committed that was read behind them.
    """

    def __init__(self, rows: mx.array, most: int) -> None:
        self.rows, self.most = rows, most
        self.known: int | None = None
        self._after: dict[int, mx.array] = {}

    def after(self, length: int) -> mx.array:
        """`length` + rows, int32 [1]; one array for all layers of a pass."""
        if length not in self._after:
            self._after[length] = self.rows + length
        return self._after[length]


class LayerSnapshot(Protocol):
    """Snapshot of a layer's cache at one length; cheap, because MLX arrays never change."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""


class Place(NamedTuple):
    """Snapshot without arrays, for a cache whose rows never change, or that has none.

    pending: how many rows after `length` count too.
    """

    length: int
    nbytes: int = 0
    pending: RowCount | None = None


class LayerCache(Protocol):
    """One layer's cache of a conversation (batch of one).

    A pass writes a block of rows; `commit(n)` then makes the first n of them (0 to all) part of the
    conversation and forgets the rest. Between `commit` and the next pass the cache stands exactly
    after `length` tokens; how a pass writes is the business of the layer and its own cache.
    """

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether `commit` takes every number of rows, not just 0 and all."""

    @property
    def keeps_all_rows(self) -> bool:
        """Whether `restore` can go to a Place of every earlier length."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    @property
    def nbytes(self) -> int:
        """Bytes held, with unused room in buffers."""

    def commit(self, count: "int | RowCount") -> None:
        """Append the first `count` rows of the last block; 0 rolls the block back.

        A RowCount only to caches of our own layers, and not before an earlier one is known; until
        then other rows are appended behind it only to be taken back by `restore`.
        """

    def fork(self) -> Self:
        """Copy the cache; later writes to either copy are not seen in the other."""

    def place(self) -> LayerSnapshot:
        """Snapshot for the next NEAR rows.

        It holds nothing that is written in place, so that the next pass need not copy it.
        """

    def snapshot(self) -> LayerSnapshot:
        """Snapshot at `length`, valid until the conversation goes back to before it."""

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot of this cache, or of the one it was forked from."""

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the committed state, to evaluate so that no graph grows."""


class CachesSnapshot(NamedTuple):
    """Snapshots of all layers at one length."""

    length: int
    layers: tuple[LayerSnapshot, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return sum(layer.nbytes for layer in self.layers)


class LayerCaches:
    """The caches of all layers, in order; all have the same length."""

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = tuple(layers)

    @property
    def length(self) -> int:
        """Committed tokens; without those of a count that the host does not know yet."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Bytes held by all layers."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether all layers can commit any number of rows; drafting needs that."""
        return all(layer.keeps_any_prefix for layer in self.layers)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all layers can go back to every earlier place."""
        return all(layer.keeps_all_rows for layer in self.layers)

    def commit(self, count: int | RowCount) -> None:
        """Append the first `count` rows of the last block in every layer; 0 rolls it back."""
        for layer in self.layers:
            layer.commit(count)

    def resolve(self) -> None:
        """Have every layer take in a count that the host knows by now, and free what it held
        in case of another.
        """
        assert len({layer.length for layer in self.layers}) == 1

    def fork(self) -> "LayerCaches":
        """Copy all caches; later writes to either copy are not seen in the other."""
        return LayerCaches([layer.fork() for layer in self.layers])

    def take_over(self, other: "LayerCaches") -> None:
        """Replace the caches by copies of another conversation's."""
        self.layers = other.fork().layers

    def at(self, length: int) -> CachesSnapshot:
        """Snapshot at an earlier length, where all layers keep all rows."""
        return CachesSnapshot(length, (Place(length),) * len(self.layers))

    def place(self) -> CachesSnapshot:
        """Snapshot at `length`, valid for the next NEAR rows only, without copies."""
        return CachesSnapshot(self.length, tuple(layer.place() for layer in self.layers))

    def snapshot(self) -> CachesSnapshot:
        """Snapshot at `length`."""
        return CachesSnapshot(self.length, tuple(layer.snapshot() for layer in self.layers))

    def restore(self, snapshot: CachesSnapshot) -> None:
        """Take every layer back to a snapshot."""
        for layer, memory in zip(self.layers, snapshot.layers, strict=True):
            layer.restore(memory)

    def arrays(self) -> list[mx.array]:
        """Arrays of the committed state of all layers."""
        return [array for layer in self.layers for array in layer.arrays()]
