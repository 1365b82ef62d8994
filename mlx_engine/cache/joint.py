"""The memories of several conversations whose rows are read in one pass, one after the other.

Whatever treats each row by itself (products, norms, experts) sees one block of rows; what mixes the
rows of a conversation is done for each by itself (`each`), with its own memory.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache, LayerCaches


class Span(NamedTuple):
    """One conversation's memory in a layer, and which rows of the pass are its."""

    cache: LayerCache
    rows: slice


JointCache = tuple[Span, ...]
"""One layer's memories of all conversations, in the order of their rows."""


class JointCaches(NamedTuple):
    """All layers of several conversations; each keeps of its rows what it likes."""

    layers: tuple[JointCache, ...]


def joint_caches(conversations: Sequence[LayerCaches], rows: Sequence[int]) -> JointCaches:
    """For a pass over so many rows of each, in this order."""
    ends = [sum(rows[: number + 1]) for number in range(len(rows))]
    spans = [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
    layers = zip(*(caches.layers for caches in conversations), strict=True)
    return JointCaches(
        tuple(tuple(map(Span, layer, spans)) for layer in layers)  # a cache of each conversation
    )


def each(cache: LayerCache | JointCache, run: Callable[..., mx.array], *rows: mx.array) -> mx.array:
    """run(cache, *rows) of each conversation's rows [1, T, ...], its results joined again."""
    if not isinstance(cache, tuple):
        return run(cache, *rows)
    made = [run(span.cache, *(part[:, span.rows] for part in rows)) for span in cache]
    return mx.concatenate(made, axis=1)


def apart(joined: mx.array, counts: Sequence[int], axis: int) -> list[mx.array]:
    """So many rows of each conversation."""
    if len(counts) == 1:
        return [joined]
    return list(mx.split(joined, list(accumulate(counts))[:-1], axis=axis))
