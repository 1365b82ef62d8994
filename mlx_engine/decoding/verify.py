"""One pass of the target over the newest token and its draft, and what it picks."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import Adapter
from mlx_engine.sampling.sampler import Sampler, all_finite


class Verified(NamedTuple):
    """Row i follows the newest token and i drafted ones: logits [k+1, V], hidden [1, k+1, H]."""

    logits: mx.array
    hidden: mx.array


def verify(adapter: Adapter, caches: LayerCaches, last: int, drafted: mx.array) -> Verified:
    """Run [last, d1..dk] as one block; the caller decides how many rows the caches keep."""
    tokens = mx.concatenate([mx.array([last], dtype=mx.int32), drafted])
    hidden = adapter.forward(tokens[None], caches)
    return Verified(adapter.logits(hidden).squeeze(0), hidden)


class Picked(NamedTuple):
    """The target's tokens int32 [k+1], and whether all logits were finite: a lazy bool scalar."""

    tokens: mx.array
    finite: mx.array


def pick(
    adapter: Adapter, verified: Verified, sampler: Sampler, position: int, prefix: mx.array
) -> Picked:
    """The tokens from `position` on; without making logits where options and model allow it."""
    rows = adapter.output_rows
    hidden = verified.hidden[..., : adapter.hidden_size]
    how = sampler.choosing(position, hidden.shape[1]) if rows else None
    if rows is None or how is None or not rows.takes(hidden):
        tokens = sampler.pick(verified.logits, position, prefix)
        return Picked(tokens, all_finite(verified.logits))
    tokens = rows.pick(hidden, how)
    return Picked(tokens, mx.all(tokens >= 0))
