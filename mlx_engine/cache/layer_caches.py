"""All layers of a model as one cache."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache, LayerSnapshot


class CachesSnapshot(NamedTuple):
    """Every layer's memory at one place."""

    length: int
    layers: tuple[LayerSnapshot, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return sum(layer.nbytes for layer in self.layers)


class LayerCaches:
    """Layer caches in order; they always stand after the same number of tokens."""

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = tuple(layers)

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Bytes held by all layers."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def keeps_any_prefix(self) -> bool:
        """Whether `keep` takes every number of rows; without that nothing can be drafted."""
        return all(layer.keeps_any_prefix for layer in self.layers)

    def keep(self, rows: int) -> None:
        """Commit the first `rows` rows of the last block in every layer."""
        for layer in self.layers:
            layer.keep(rows)

    def snapshot(self) -> CachesSnapshot:
        """All layers at `length`."""
        return CachesSnapshot(self.length, tuple(layer.snapshot() for layer in self.layers))

    def restore(self, snapshot: CachesSnapshot) -> None:
        """Take every layer back to a snapshot."""
        for layer, memory in zip(self.layers, snapshot.layers, strict=True):
            layer.restore(memory)

    def arrays(self) -> list[mx.array]:
        """Arrays of the committed state of all layers."""
        return [array for layer in self.layers for array in layer.arrays()]

    def check(self) -> None:
        """Raise AssertionError when layers disagree about where they stand."""
        lengths = {layer.length for layer in self.layers}
        assert len(lengths) == 1, f"layers stand after {sorted(lengths)} tokens"
