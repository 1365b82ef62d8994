"""Caches for mlx-lm's classes: ours wherever we have the kind, else its own.

Its own keep all of a block or none of it: for plain decoding only.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol, Self

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_map

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.by_length import CacheByLength
from mlx_engine.cache.contract import LayerCache, LayerCaches, LayerSnapshot, OnHost
from mlx_engine.cache.window import WindowCache
from mlx_engine.values.options import CacheBits

MakeCaches = Callable[[CacheBits], LayerCaches]


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


def kept_caches(model: Module, bits: CacheBits = 16) -> LayerCaches:
    """Empty caches of the kinds the class asks for, ours wherever we have the kind."""
    from mlx_lm.models.cache import make_prompt_cache

    wanted = make_prompt_cache(model)
    return LayerCaches([_ours(cache, bits) for cache in wanted])


def caches_by_length(model: Module, border: int, bits: CacheBits = 16) -> LayerCaches:
    """The same for each side of the border between short texts and long ones."""
    return LayerCaches([CacheByLength(lambda: kept_caches(model, bits), border)])


def whole_caches(model: Module, bits: CacheBits) -> LayerCaches:
    """Empty caches of mlx-lm's own; nothing can be drafted with them."""
    from mlx_lm.models.cache import make_prompt_cache

    del bits
    return LayerCaches([WholeBlockCache(cache) for cache in make_prompt_cache(model)])


def handed_to_class(caches: LayerCaches, rows: int) -> Sequence[LayerCache | LibraryCache]:
    """The caches to hand to the model for a block of so many rows."""
    handed: list[LayerCache | LibraryCache] = []
    for cache in caches.layers:
        if isinstance(cache, WholeBlockCache):
            cache.begin(rows)
            handed.append(cache.library)
        else:
            handed.append(cache)
    return handed


def _ours(cache: LibraryCache, bits: CacheBits) -> LayerCache:
    """By exact type: what is derived from a kind may mean something else."""
    from mlx_lm.models.cache import KVCache, RotatingKVCache

    if type(cache) is KVCache:
        return AttentionCache(bits)
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowCache(cache.max_size, bits=bits)
    return WholeBlockCache(cache)
