"""Memories of layers as arrays to be put away, piece by piece, and taken up again."""

from collections.abc import Sequence

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache, LayerSnapshot
from mlx_engine.cache.recurrent import RecurrentCache, RecurrentSnapshot
from mlx_engine.cache.window import WindowCache, WindowSnapshot

Parts = list[mx.array]
"""Of one layer: rows of keys and values; or window and state; or a window's place and rows."""


def can_be_stored(layer: LayerCache) -> bool:
    """Whether `stored` knows its kind."""
    return type(layer) in (AttentionCache, WindowCache, RecurrentCache)


def is_rows(layer: LayerCache) -> bool:
    """Whether `stored` gives rows that never change, piece by piece."""
    return isinstance(layer, AttentionCache)


def stored(layer: LayerCache, place: LayerSnapshot, start: int) -> Parts:
    """A layer at a place behind `start`; of rows that never change, those from there on."""
    if isinstance(layer, AttentionCache):
        return list(layer.rows(start, place.length))
    if isinstance(place, WindowSnapshot):
        return [mx.array([place.first], dtype=mx.int32), *place.rows]
    assert isinstance(place, RecurrentSnapshot)
    state = place.state if place.replay is None else place.replay.settled(place.state)
    return [place.window, state]


def take_up(layer: LayerCache, length: int, pieces: Sequence[Parts]) -> None:
    """Have an empty layer stand after `length` tokens; pieces: what `stored` gave, in order."""
    last = pieces[-1]
    if isinstance(layer, AttentionCache):
        sides = zip(*pieces, strict=True)
        layer.fill([mx.concatenate(list(side), axis=2) for side in sides])
    elif isinstance(layer, WindowCache):
        first: int = last[0].item()  # type: ignore[assignment]
        layer.restore(WindowSnapshot(length, first, tuple(last[1:])))
    else:
        assert isinstance(layer, RecurrentCache)
        layer.restore(RecurrentSnapshot(length, last[0], last[1], None))
