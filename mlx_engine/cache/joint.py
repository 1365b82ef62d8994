"""Caches of several conversations whose rows are computed in one pass, one after the other.

Operations that treat rows one by one (products, norms, experts) see one block of rows; those that
mix rows of a conversation run for each conversation with its own cache (`each`).
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache, LayerCaches


class ConversationSpan(NamedTuple):
    """One conversation's cache of a layer, and its slice of the rows of a joint pass."""

    cache: LayerCache
    rows: slice


JointCache = tuple[ConversationSpan, ...]
"""One layer's caches of all conversations, in the order of their rows."""


class ConversationCaches(NamedTuple):
    """Caches of all layers of several conversations that share a forward pass."""

    layers: tuple[JointCache, ...]


def combine_caches(conversations: Sequence[LayerCaches], rows: Sequence[int]) -> ConversationCaches:
    """Combine conversations' caches for a joint forward pass with `rows` rows of each, in order."""
    ends = [sum(rows[: number + 1]) for number in range(len(rows))]
    spans = [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
    layers = zip(*(caches.layers for caches in conversations), strict=True)
    return ConversationCaches(
        tuple(
            tuple(map(ConversationSpan, layer, spans)) for layer in layers
        )  # a cache of each conversation
    )


def run_each_conversation(
    cache: LayerCache | JointCache, run_rows: Callable[..., mx.array], *rows: mx.array
) -> mx.array:
    """Call run(cache, *rows) for each conversation in a joint pass; concatenate the results.

    rows: arrays [1, T, ...] with the rows of all conversations, one after the other.
    """
    if not isinstance(cache, tuple):
        return run_rows(cache, *rows)
    made = [run_rows(span.cache, *(part[:, span.rows] for part in rows)) for span in cache]
    return mx.concatenate(made, axis=1)


def split_by_conversation(
    joint_rows: mx.array, row_counts: Sequence[int], axis: int
) -> list[mx.array]:
    """Split an array along `axis` into an array for each conversation, of `row_counts` rows."""
    if len(row_counts) == 1:
        return [joint_rows]
    return list(mx.split(joint_rows, list(accumulate(row_counts))[:-1], axis=axis))
