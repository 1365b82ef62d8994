"""A cache of mlx-lm's own that keeps all of a block or none of it: for plain decoding only."""

from copy import copy
from dataclasses import dataclass
from typing import Protocol, Self

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from mlx_engine.cache.contract import LayerSnapshot, OnHost


class LibraryCache(Protocol):
    """What all caches of mlx-lm have: everything they remember, to be read and set.

    state: arrays and numbers in lists and tuples.
    """

    state: object


@dataclass(frozen=True, slots=True)
class WholeSnapshot:
    """A cache's state, in arrays nobody writes to."""

    length: int
    state: object

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in there."""
        return sum(array.nbytes for array in _arrays(self.state))


class WholeBlockCache(OnHost):
    """LayerCache around an empty cache of mlx-lm's; `keep` takes 0 or all rows of a block.

    The state from before a block is held until the block is kept, so a cache that is written in
    place is copied once a pass.
    """

    keeps_any_prefix = False
    keeps_all_rows = False

    def __init__(self, library: LibraryCache) -> None:
        self.library = library
        self.length = 0
        self._block = 0
        self._before = _copied(library.state)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return sum(array.nbytes for array in self.arrays())

    def begin(self, rows: int) -> None:
        """A block of so many rows is about to be written."""
        self._before = _copied(self.library.state)
        self._block = rows

    def keep(self, rows: int) -> None:
        """Commit the block (its number of rows) or forget it (0)."""
        assert rows in (0, self._block), "this cache cannot keep part of a block"
        if rows == 0:
            self.library.state = self._before
        self.length += rows
        self._before = None
        self._block = 0

    def fork(self) -> Self:
        """Another that goes on from here by itself."""
        other = copy(self)
        other.library = copy(self.library)
        other.library.state = _copied(self.library.state)
        return other

    def place(self) -> WholeSnapshot:
        """A snapshot."""
        return self.snapshot()

    def snapshot(self) -> WholeSnapshot:
        """The state at `length`."""
        return WholeSnapshot(self.length, _copied(self.library.state))

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot."""
        assert isinstance(snapshot, WholeSnapshot)
        self.library.state = _copied(snapshot.state)
        self.length, self._block = snapshot.length, 0

    def arrays(self) -> list[mx.array]:
        """All arrays of the state."""
        return _arrays(self.library.state)


def _copied(state: object) -> object:
    """The same tree with array objects of its own: writing to one leaves the other as it is."""
    return tree_map(lambda leaf: mx.array(leaf) if isinstance(leaf, mx.array) else leaf, state)


def _arrays(state: object) -> list[mx.array]:
    leaves = dict(tree_flatten(state)).values()
    return [leaf for leaf in leaves if isinstance(leaf, mx.array)]
