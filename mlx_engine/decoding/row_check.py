"""Checks on this machine and model whether a row's logits depend on the rows beside it."""

import mlx.core as mx

from mlx_engine.models.contract import Adapter

ROWS = 5


def rows_are_exact(adapter: Adapter) -> bool:
    """Whether one pass of a few rows gives, bit for bit, what as many passes of one row give."""
    tokens = (mx.arange(2 * ROWS)[None] * 7 + 1) % adapter.vocabulary
    together, alone = adapter.make_caches(), adapter.make_caches()
    for caches in (together, alone):
        adapter.forward(tokens[:, :ROWS], caches)
        caches.keep(ROWS)
    block = adapter.logits(adapter.forward(tokens[:, ROWS:], together))
    singles: list[mx.array] = []
    for row in range(ROWS, 2 * ROWS):
        singles.append(adapter.logits(adapter.forward(tokens[:, row : row + 1], alone)))
        alone.keep(1)
    # NaN is a fault of the weights, found when a token is picked; not one of the rows
    alike = mx.array_equal(block, mx.concatenate(singles, axis=1), equal_nan=True)
    return bool(alike.item())
