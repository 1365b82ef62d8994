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
    """Number of rows of a block that are committed, 1 to `most_rows`; the host learns it late.

    rows: int32 [1], on the device at once. known: the number, once the host has set it. Until then
    whatever was committed with this count has a `length` without these rows. The host may set a
    lower number than the device has, 0 included, if nothing is committed that was read behind them.
    """

    def __init__(self, rows: mx.array, most_rows: int) -> None:
        self.rows, self.most = rows, most_rows
        self.known: int | None = None
        self._after: dict[int, mx.array] = {}

    def length_with_count(self, length: int) -> mx.array:
        """`length` plus this number of rows, int32 [1]; one array for all layers of a pass."""
        if length not in self._after:
            self._after[length] = self.rows + length
        return self._after[length]


class LayerSnapshot(Protocol):
    """Protocol of a snapshot of one layer's cache; cheap, because MLX arrays never change."""

    @property
    def length(self) -> int:
        """Number of committed tokens that the snapshot holds."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held only because of this snapshot."""


class LengthSnapshot(NamedTuple):
    """Snapshot of a layer's cache as a mere length, where committed rows never change.

    pending: committed rows after `length` whose number the host does not know yet.
    """

    length: int
    nbytes: int = 0
    pending: RowCount | None = None


class LayerCache(Protocol):
    """Protocol of one layer's cache of a conversation (batch of one).

    A pass writes a block of rows; `commit(n)` then makes the first n of them (0 to all) part of the
    conversation and forgets the rest. Between `commit` and the next pass the cache stands exactly
    after `length` tokens; how a pass writes is the business of the layer and its own cache.
    """

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether any number of rows of a block can be committed, not only 0 or all."""

    @property
    def keeps_all_rows(self) -> bool:
        """Whether the cache can be restored to any earlier length, by its number alone."""

    @property
    def length(self) -> int:
        """Number of tokens committed to this layer's cache."""

    @property
    def nbytes(self) -> int:
        """Bytes of this layer's cache, unused room in its buffers included."""

    def commit(self, count: "int | RowCount") -> None:
        """Keep the first `count` rows of the block just written to the cache; 0 drops the block.

        A RowCount may be given only to caches of our own layers, and not before the host knows an
        earlier one; until then other rows are appended behind it only to be taken back by
        `restore`.
        """

    def fork(self) -> Self:
        """Copy this layer's cache; what is written to one copy is not seen in the other."""

    def temporary_snapshot(self) -> LayerSnapshot:
        """Snapshot of the cache that is valid only for the next NEAR rows.

        It holds no array that is written in place, so that the next pass need not copy one.
        """

    def snapshot(self) -> LayerSnapshot:
        """Snapshot of the cache, valid until the conversation goes back to before its length."""

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Take the cache back to a snapshot of itself, or of the cache it was forked from."""

    def arrays(self) -> list[mx.array]:
        """Arrays of the cache's committed state; evaluating them keeps MLX's lazy graph short."""


class CachesSnapshot(NamedTuple):
    """Snapshots of all layers' caches at one length."""

    length: int
    layers: tuple[LayerSnapshot, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held only because of these snapshots."""
        return sum(layer.nbytes for layer in self.layers)


class LayerCaches:
    """Caches of all layers of a model for one conversation, in order, all of one length."""

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = tuple(layers)

    @property
    def length(self) -> int:
        """Number of committed tokens, without those whose number the host does not know yet."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Bytes of the caches of all layers."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether all caches can commit any number of rows of a block, as drafting needs."""
        return all(layer.keeps_any_prefix for layer in self.layers)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all caches can be restored to any earlier length, by its number alone."""
        return all(layer.keeps_all_rows for layer in self.layers)

    def commit(self, count: int | RowCount) -> None:
        """Keep the first `count` rows of the block just written in every layer; 0 drops it."""
        for layer in self.layers:
            layer.commit(count)

    def resolve_pending(self) -> None:
        """Add a committed count that the host knows by now to every cache; frees arrays."""
        assert len({layer.length for layer in self.layers}) == 1

    def fork(self) -> "LayerCaches":
        """Copy the caches of all layers; what is written to one copy is not seen in the other."""
        return LayerCaches([layer.fork() for layer in self.layers])

    def copy_layers(self, other: "LayerCaches") -> None:
        """Replace the caches of all layers by copies of another conversation's."""
        self.layers = other.fork().layers

    def snapshot_at_length(self, length: int) -> CachesSnapshot:
        """Snapshot of the caches at an earlier length; only where all layers keep all rows."""
        return CachesSnapshot(length, (LengthSnapshot(length),) * len(self.layers))

    def temporary_snapshot(self) -> CachesSnapshot:
        """Snapshot of all layers' caches without copies, valid only for the next NEAR rows."""
        return CachesSnapshot(
            self.length, tuple(layer.temporary_snapshot() for layer in self.layers)
        )

    def snapshot(self) -> CachesSnapshot:
        """Snapshot of the caches of all layers at the present `length`."""
        return CachesSnapshot(self.length, tuple(layer.snapshot() for layer in self.layers))

    def restore(self, snapshot: CachesSnapshot) -> None:
        """Take the caches of all layers back to a snapshot."""
        for layer, memory in zip(self.layers, snapshot.layers, strict=True):
            layer.restore(memory)

    def arrays(self) -> list[mx.array]:
        """Arrays of the committed state of all layers' caches."""
        return [array for layer in self.layers for array in layer.arrays()]
