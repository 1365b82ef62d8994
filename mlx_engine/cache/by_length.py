"""Two KV caches of one text, for models with a second RoPE table for long prompts.

LongRoPE (arXiv 2402.13753) rotates all tokens of a text with other factors once it is long, so
keys of both kinds cannot be mixed in one cache. Rows within the length of a short text use one
cache, later rows the other, which is filled by reading all tokens again when the first such row
comes. So every row is that of a text that ends with it, read from the beginning.
"""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple, Protocol, Self

import mlx.core as mx

from mlx_engine.cache.contract import NEAR, CachesSnapshot, LayerCaches, LayerSnapshot, RowCount

_AT_ONCE = 512
"""Tokens that are read again in one pass."""


class ReadTokens(Protocol):
    """Forward pass over tokens [1, T] that writes to these caches -> hidden states [1, T, H]."""

    def __call__(self, tokens: mx.array, caches: LayerCaches, *, is_long: bool) -> mx.array:
        """Run the forward pass; is_long: rotate keys by LongRoPE's factors for long texts."""


class ByLengthSnapshot(NamedTuple):
    """Snapshot of the KV caches for short and for long texts at one length.

    age: number of times that the short texts' cache had been dropped before.
    """

    length: int
    age: int
    short: CachesSnapshot
    long: CachesSnapshot

    @property
    def nbytes(self) -> int:
        """Bytes of memory held only because of this snapshot."""
        return self.short.nbytes + self.long.nbytes


class CacheByLength:
    """LayerCache (contract.py) of all layers, with separate KV caches for short and long texts.

    A text is long from border + 1 tokens on. make_caches: returns empty caches for all layers.
    """

    keeps_any_prefix = True
    keeps_all_rows = False

    def __init__(self, make_caches: Callable[[], LayerCaches], long_text_start: int) -> None:
        self._make, self._border, self._age = make_caches, long_text_start, 0
        self._short, self._long = make_caches(), make_caches()
        self._tokens = self._block = mx.zeros((1, 0), dtype=mx.int32)

    @property
    def length(self) -> int:
        """Number of tokens committed to this cache."""
        return self._tokens.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the KV caches for short and for long texts together."""
        return self._short.nbytes + self._long.nbytes

    def read_tokens(self, tokens: mx.array, read: ReadTokens) -> mx.array:
        """Run a forward pass over tokens [1, T] -> hidden states [1, T, H].

        Each row is rotated by LongRoPE's factors for the length of the text up to it.
        """
        start, self._block = self.length, tokens.astype(mx.int32)
        rows, made = self._short_text_rows, []
        if rows:
            self._read_missing(self._short, start, read, is_long=False)
            made.append(read(tokens[:, :rows], self._short, is_long=False))
        if rows < tokens.shape[1]:
            self._read_missing(self._long, start, read, is_long=True)
            made.append(read(tokens, self._long, is_long=True)[:, rows:])
        return made[0] if len(made) == 1 else mx.concatenate(made, axis=1)

    def commit(self, count: int | RowCount) -> None:
        """Keep the first `count` rows of the block just read in both KV caches; 0 drops it."""
        assert isinstance(count, int), "which of the two is read has to be known by the host"
        short = self._short_text_rows
        if short:
            self._short.commit(min(count, short))
        if short < self._block.shape[1]:
            self._long.commit(count)
        self._tokens = mx.concatenate([self._tokens, self._block[:, :count]], axis=1)
        self._block = self._block[:, :0]
        if self.length >= self._border + NEAR and self._short.length:
            self._drop_short_cache()

    def fork(self) -> Self:
        """Copy the KV caches for short and long texts; copies do not see each other's writes."""
        other = copy(self)
        other._short, other._long = self._short.fork(), self._long.fork()
        return other

    def temporary_snapshot(self) -> ByLengthSnapshot:
        """Snapshot of both KV caches that is valid only for the next NEAR rows."""
        short, long = self._short.temporary_snapshot(), self._long.temporary_snapshot()
        return ByLengthSnapshot(self.length, self._age, short, long)

    def snapshot(self) -> ByLengthSnapshot:
        """Snapshot of both KV caches at the present `length`."""
        short, long = self._short.snapshot(), self._long.snapshot()
        return ByLengthSnapshot(self.length, self._age, short, long)

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot of both KV caches.

        If the cache for short texts was dropped since, its tokens are read again when they are
        needed.
        """
        assert isinstance(snapshot, ByLengthSnapshot)
        self._tokens, self._block = self._tokens[:, : snapshot.length], self._block[:, :0]
        self._long.restore(snapshot.long)
        if snapshot.age == self._age:
            self._short.restore(snapshot.short)
        else:
            self._drop_short_cache()

    def arrays(self) -> list[mx.array]:
        """Arrays of the KV caches for short and for long texts, and the token ids."""
        return [*self._short.arrays(), *self._long.arrays(), self._tokens]

    def _drop_short_cache(self) -> None:
        self._short, self._age = self._make(), self._age + 1

    @property
    def _short_text_rows(self) -> int:
        """Number of rows of the present block that are within the length of a short text."""
        return max(0, min(self._block.shape[1], self._border - self.length))

    def _read_missing(
        self, caches: LayerCaches, end: int, read: ReadTokens, *, is_long: bool
    ) -> None:
        while caches.length < end:
            tokens = self._tokens[:, caches.length : min(end, caches.length + _AT_ONCE)]
            read(tokens, caches, is_long=is_long)
            caches.commit(tokens.shape[1])
            mx.eval(caches.arrays())
