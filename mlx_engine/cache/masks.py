"""Attention masks: which keys a block of rows may see."""

from typing import Literal

import mlx.core as mx

Mask = mx.array | Literal["causal"] | None
"""Bool [rows, keys] with true for "sees"; "causal": the rows are the last ones; None: all seen."""


def causal_mask(start: int, rows: int, first_key: int, window: int | None) -> mx.array:
    """Rows at positions start, start + 1, ...; keys from position first_key to the last row's.

    window: how many keys a row sees, its own included; None for all before it.
    """
    queries = mx.arange(start, start + rows)[:, None]
    keys = mx.arange(first_key, start + rows)[None]
    seen = keys <= queries
    return seen if window is None else seen & (keys > queries - window)
