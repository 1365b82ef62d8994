"""KV caches for mlx-lm's model classes: the engine's own kinds where it has them, else mlx-lm's.

mlx-lm's own caches keep all rows of a block or none, which suffices for decoding without drafts.
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
    """Snapshot of one of mlx-lm's KV caches, with arrays that are never written again."""

    length: int
    library: object

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in a snapshot of mlx-lm's KV cache."""
        return sum(array.nbytes for array in _arrays_within(self.library))


class LibraryCache:
    """Wraps a KV cache of mlx-lm as a LayerCache; `commit` takes all rows of a block or none.

    A copy from before the block is kept until the commit. Whole objects are copied, since mlx-lm's
    `state` omits the write position and cannot always be set.
    """

    keeps_any_prefix = False
    keeps_all_rows = False

    def __init__(self, mlx_lm_cache: object) -> None:
        self.library = mlx_lm_cache
        self.length = 0
        self._block = 0
        self._before = _copy_cache(mlx_lm_cache)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values that the wrapped KV cache holds now."""
        return sum(array.nbytes for array in self.arrays())

    def begin(self, rows: int) -> None:
        """Copy the KV cache, for a rollback, before the model writes a block of `rows` tokens."""
        self._before = _copy_cache(self.library)
        self._block = rows

    def commit(self, count: int | RowCount) -> None:
        """Accept all tokens of the block that was written to the KV cache, or roll it back (0)."""
        assert isinstance(count, int)
        assert count in (0, self._block), "this cache cannot keep part of a block"
        if count == 0:
            self.library = self._before
        self.length += count
        self._before = None
        self._block = 0

    def fork(self) -> Self:
        """Copy the KV cache, with its arrays, for a sequence that continues independently."""
        other = copy(self)
        other.library = _copy_cache(self.library)
        return other

    def temporary_snapshot(self) -> LibrarySnapshot:
        """Return a snapshot of the KV cache, to which `restore` goes back."""
        return self.snapshot()

    def snapshot(self) -> LibrarySnapshot:
        """Return a snapshot of the KV cache with copies of its arrays."""
        return LibrarySnapshot(self.length, _copy_cache(self.library))

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Set the KV cache back to a snapshot of it."""
        assert isinstance(snapshot, LibrarySnapshot)
        self.library = _copy_cache(snapshot.library)
        self.length, self._block = snapshot.length, 0

    def arrays(self) -> list[mx.array]:
        """All arrays of the wrapped KV cache, as a list."""
        return _arrays_within(self.library)


def _copy_cache(cache_value: object) -> object:
    """Copy one of mlx-lm's cache objects and its arrays; writing leaves the original alone."""
    if isinstance(cache_value, mx.array):
        return mx.array(cache_value)
    if isinstance(cache_value, list | tuple):
        parts = [_copy_cache(part) for part in cache_value]
        return tuple(parts) if isinstance(cache_value, tuple) else parts
    if not _is_cache(cache_value):
        return cache_value
    made = copy(cache_value)
    vars(made).update({name: _copy_cache(part) for name, part in vars(cache_value).items()})
    return made


def _arrays_within(cache_value: object) -> list[mx.array]:
    if isinstance(cache_value, mx.array):
        return [cache_value]
    parts = vars(cache_value).values() if _is_cache(cache_value) else cache_value
    within = parts if isinstance(parts, Iterable) and not isinstance(parts, str) else ()
    return [array for part in within for array in _arrays_within(part)]


def _is_cache(cache_value: object) -> bool:
    return type(cache_value).__module__.startswith("mlx_lm.")


def make_engine_caches(model: Module, bits: CacheBits = 16) -> LayerCaches:
    """Create empty KV caches for a model of mlx-lm, of the engine's kinds where it has them.

    The others are mlx-lm's caches, wrapped in LibraryCache.
    """
    from mlx_lm.models.cache import make_prompt_cache

    wanted = make_prompt_cache(model)
    extra_tokens = _SEEN_BEFORE.get(type(model).__module__, 0)
    return LayerCaches([_engine_cache(cache, bits, extra_tokens) for cache in wanted])


def make_length_caches(model: Module, switch_length: int, bits: CacheBits = 16) -> LayerCaches:
    """Create empty KV caches of a model whose RoPE changes after `switch_length` tokens."""
    return LayerCaches([CacheByLength(lambda: make_engine_caches(model, bits), switch_length)])


def make_library_caches(model: Module, bits: CacheBits) -> LayerCaches:
    """Create empty KV caches, all of mlx-lm's own kinds, with which nothing can be drafted."""
    from mlx_lm.models.cache import make_prompt_cache

    del bits
    return LayerCaches([LibraryCache(cache) for cache in make_prompt_cache(model)])


def caches_for_class(caches: LayerCaches, rows: int) -> Sequence[object]:
    """Return the KV caches to call an mlx-lm model with, prepared for a block of `rows` tokens."""
    handed: list[object] = []
    for cache in caches.layers:
        if isinstance(cache, LibraryCache):
            cache.begin(rows)
            handed.append(cache.library)
        else:
            handed.append(cache)
    return handed


def _engine_cache(cache: object, bits: CacheBits, extra_tokens: int) -> LayerCache:
    """The engine's KV cache in place of one of mlx-lm's; else that one, wrapped.

    Goes by exact type, since subclasses may differ.
    """
    from mlx_lm.models.cache import KVCache, RotatingKVCache

    if type(cache) is KVCache:
        return AttentionCache(bits)
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowCache(cache.max_size + extra_tokens, bits=bits)
    return LibraryCache(cache)
