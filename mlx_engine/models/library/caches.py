"""Caches for mlx-lm's classes: ours wherever we have the kind, else its own.

Its own keep all of a block or none of it: for plain decoding only.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.by_length import CacheByLength
from mlx_engine.cache.contract import LayerCache, LayerCaches, LayerSnapshot, RowCount
from mlx_engine.cache.window import WindowCache
from mlx_engine.values.options import CacheBits

_SEEN_BEFORE = {"mlx_lm.models.plamo3": 1}
"""Tokens that rows see beyond the window they keep, by the module of a class."""

MakeCaches = Callable[[CacheBits], LayerCaches]


@dataclass(frozen=True, slots=True)
class LibrarySnapshot:
    """A cache of mlx-lm's with arrays nobody writes to."""

    length: int
    library: object

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in there."""
        return sum(array.nbytes for array in _arrays(self.library))


class LibraryCache:
    """LayerCache around an empty cache of mlx-lm's; `commit` takes 0 or all rows of a block.

    A copy from before a block is held until the commit. Whole caches are copied, for their `state`
    leaves out where they write next, and some cannot be set.
    """

    keeps_any_prefix = False
    keeps_all_rows = False

    def __init__(self, library: object) -> None:
        self.library = library
        self.length = 0
        self._block = 0
        self._before = _copy_cache(library)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return sum(array.nbytes for array in self.arrays())

    def begin(self, rows: int) -> None:
        """A block of so many rows is about to be written."""
        self._before = _copy_cache(self.library)
        self._block = rows

    def commit(self, count: int | RowCount) -> None:
        """Append the block (its number of rows) or roll it back (0)."""
        assert isinstance(count, int)
        assert count in (0, self._block), "this cache cannot keep part of a block"
        if count == 0:
            self.library = self._before
        self.length += count
        self._before = None
        self._block = 0

    def fork(self) -> Self:
        """Another that goes on from here by itself."""
        other = copy(self)
        other.library = _copy_cache(self.library)
        return other

    def place(self) -> LibrarySnapshot:
        """A snapshot."""
        return self.snapshot()

    def snapshot(self) -> LibrarySnapshot:
        """All that is remembered at `length`."""
        return LibrarySnapshot(self.length, _copy_cache(self.library))

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot."""
        assert isinstance(snapshot, LibrarySnapshot)
        self.library = _copy_cache(snapshot.library)
        self.length, self._block = snapshot.length, 0

    def arrays(self) -> list[mx.array]:
        """All arrays that are remembered."""
        return _arrays(self.library)


def _copy_cache(value: object) -> object:
    """Copy a cache object with its arrays: writing to one leaves the other unchanged."""
    if isinstance(value, mx.array):
        return mx.array(value)
    if isinstance(value, list | tuple):
        parts = [_copy_cache(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if not _is_cache(value):
        return value
    made = copy(value)
    vars(made).update({name: _copy_cache(part) for name, part in vars(value).items()})
    return made


def _arrays(value: object) -> list[mx.array]:
    if isinstance(value, mx.array):
        return [value]
    parts = vars(value).values() if _is_cache(value) else value
    within = parts if isinstance(parts, Iterable) and not isinstance(parts, str) else ()
    return [array for part in within for array in _arrays(part)]


def _is_cache(value: object) -> bool:
    return type(value).__module__.startswith("mlx_lm.")


def make_engine_caches(model: Module, bits: CacheBits = 16) -> LayerCaches:
    """Empty caches of the kinds the class asks for, ours wherever we have the kind."""
    from mlx_lm.models.cache import make_prompt_cache

    wanted = make_prompt_cache(model)
    extra_tokens = _SEEN_BEFORE.get(type(model).__module__, 0)
    return LayerCaches([_engine_cache(cache, bits, extra_tokens) for cache in wanted])


def make_length_caches(model: Module, switch_length: int, bits: CacheBits = 16) -> LayerCaches:
    """Empty caches that switch tables at the border between short and long texts."""
    return LayerCaches([CacheByLength(lambda: make_engine_caches(model, bits), switch_length)])


def make_library_caches(model: Module, bits: CacheBits) -> LayerCaches:
    """Empty caches of mlx-lm's own; nothing can be drafted with them."""
    from mlx_lm.models.cache import make_prompt_cache

    del bits
    return LayerCaches([LibraryCache(cache) for cache in make_prompt_cache(model)])


def caches_for_class(caches: LayerCaches, rows: int) -> Sequence[object]:
    """The caches to hand to the model for a block of so many rows."""
    handed: list[object] = []
    for cache in caches.layers:
        if isinstance(cache, LibraryCache):
            cache.begin(rows)
            handed.append(cache.library)
        else:
            handed.append(cache)
    return handed


def _engine_cache(cache: object, bits: CacheBits, extra_tokens: int) -> LayerCache:
    """Our cache for a cache of mlx-lm, by exact type: a derived class may differ."""
    from mlx_lm.models.cache import KVCache, RotatingKVCache

    if type(cache) is KVCache:
        return AttentionCache(bits)
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowCache(cache.max_size + extra_tokens, bits=bits)
    return LibraryCache(cache)
