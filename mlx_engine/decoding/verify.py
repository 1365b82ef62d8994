"""One pass of the target over the newest token and its draft."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import Adapter


class Verified(NamedTuple):
    """Row i follows the newest token and i drafted ones: logits [k+1, V], hidden [1, k+1, H]."""

    logits: mx.array
    hidden: mx.array


def verify(adapter: Adapter, caches: LayerCaches, last: int, drafted: mx.array) -> Verified:
    """Run [last, d1..dk] as one block; the caller decides how many rows the caches keep."""
    tokens = mx.concatenate([mx.array([last], dtype=mx.int32), drafted])
    hidden = adapter.forward(tokens[None], caches)
    return Verified(adapter.logits(hidden)[0], hidden)
