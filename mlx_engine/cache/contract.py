"""What every kind of layer cache can do: keep a prefix of a block, snapshot, restore."""

from typing import Protocol

import mlx.core as mx


class LayerSnapshot(Protocol):
    """A layer's memory after some tokens; cheap, because MLX arrays never change."""

    @property
    def length(self) -> int:
        """Committed tokens at that place."""

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""


class LayerCache(Protocol):
    """One layer's memory of a conversation (batch of one).

    A pass writes a block of rows; `keep(n)` then commits the first n of them (0 to all) and
    forgets the rest. Between `keep` and the next pass the cache stands exactly after `length`
    tokens; how a pass writes is the business of the layer and its own cache.
    """

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether `keep` takes every number of rows, not just 0 and all."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    @property
    def nbytes(self) -> int:
        """Bytes held now, buffers included."""

    def keep(self, rows: int) -> None:
        """Commit the first `rows` rows of the last block."""

    def snapshot(self) -> LayerSnapshot:
        """The state at `length`, valid as long as the conversation up to there stands."""

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot taken from this very cache."""

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the committed state, to evaluate so that no graph grows."""
