"""A model that is a table of probabilities, so that its texts have a distribution known exactly."""

from copy import copy
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.cache.contract import LayerCaches, LayerSnapshot, RowCount
from mlx_engine.models.layers import Linear
from mlx_engine.values.options import CacheBits


class LengthOnly(NamedTuple):
    length: int
    nbytes: int = 0


class LengthCache:
    """Counts tokens; the rows of a block are told by the model."""

    nbytes = 0
    keeps_any_prefix = True
    keeps_all_rows = False

    def __init__(self) -> None:
        self.length = 0
        self.block = 0

    def commit(self, count: int | RowCount) -> None:
        assert isinstance(count, int)
        assert count <= self.block
        self.length += count
        self.block = 0

    def fork(self) -> "LengthCache":
        return copy(self)

    def temporary_snapshot(self) -> LengthOnly:
        return LengthOnly(self.length)

    snapshot = temporary_snapshot

    def restore(self, snapshot: LayerSnapshot) -> None:
        self.length = snapshot.length

    def arrays(self) -> list[mx.array]:
        return []


class TableModel:
    """Texts are blocks of `block` tokens, each drawn afresh.

    start [V]: log-probabilities of a block's first token; then table [V, V]: row = token before.
    It is its own head, which knows the same tables, blurred by `blur`; hidden states are the tokens
    themselves and their positions.
    """

    def __init__(self, start: NDArray, table: NDArray, block: int, blur: float) -> None:
        rng = np.random.default_rng(5)
        tables = np.concatenate([start[None], table]).astype(np.float32)
        self._tables = mx.array(tables)
        self._blurred = mx.array(tables + blur * rng.normal(size=tables.shape).astype(np.float32))
        self._block = block
        self.vocabulary = len(start)
        self.hidden_size = 2
        self.heads = [self]
        self.mtp_output = None
        self.why_no_drafts = self.packed_cache = self.why_no_lookahead = None
        self.output_matrix = self.joint_forward = None

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        del bits
        return LayerCaches([LengthCache()])

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        del bits
        return LayerCaches([LengthCache()])

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        return self._rows(tokens, caches, 0)

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        return self._rows(tokens, caches, 1)

    def _rows(self, tokens: mx.array, caches: LayerCaches, shift: int) -> mx.array:
        (cache,) = caches.layers
        assert isinstance(cache, LengthCache)
        cache.block = tokens.shape[1]
        positions = np.arange(cache.length + shift, cache.length + shift + cache.block)
        inside = mx.array(((positions + 1) % self._block > 0).astype(np.int32))
        return ((tokens + 1) * inside)[..., None]

    def logits(self, hidden: mx.array) -> mx.array:
        return self._tables[hidden[..., 0]]

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        assert output is None
        return self._blurred[hidden[..., 0]]
