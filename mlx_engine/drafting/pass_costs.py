"""Measures what a pass of 1 to 9 rows, and a pass of the head, costs on this machine."""

from collections.abc import Callable
from time import perf_counter

import mlx.core as mx

from mlx_engine.drafting.round_costs import PassCosts
from mlx_engine.models.contract import Adapter
from mlx_engine.values.options import MAX_DEPTH

CONTEXT = 32
"""Tokens read before measuring."""

REPEATS = 2
"""Passes of each width, interleaved; the fastest counts, for noise only ever adds."""


def measure_pass_costs(adapter: Adapter) -> PassCosts:
    """Time target passes of 1 to MAX_DEPTH + 1 rows and one head pass, output head included."""
    tokens = mx.arange(CONTEXT)[None] % adapter.vocabulary
    caches = adapter.make_caches()
    hidden = adapter.forward(tokens, caches)
    caches.keep(CONTEXT)
    mx.eval(hidden, caches.arrays())

    def pass_of(rows: int) -> None:
        mx.eval(adapter.logits(adapter.forward(tokens[:, :rows], caches)))
        caches.keep(0)

    verify_ms = [float("inf")] * (MAX_DEPTH + 1)
    for _ in range(REPEATS + 1):  # the first one warms up
        for rows in range(1, MAX_DEPTH + 2):
            verify_ms[rows - 1] = min(verify_ms[rows - 1], _milliseconds(pass_of, rows))
    return PassCosts(tuple(verify_ms), _head_ms(adapter, hidden) if adapter.mtp_depth else 0.0)


def _head_ms(adapter: Adapter, hidden: mx.array) -> float:
    caches = adapter.make_head_caches()
    token, state = mx.zeros((1, 1), dtype=mx.int32), hidden[:, -1:]

    def draft(rows: int) -> None:
        del rows
        states = adapter.mtp_forward(token, state, caches)
        mx.eval(mx.argmax(adapter.mtp_logits(states), axis=-1))
        caches.keep(0)

    return min(_milliseconds(draft, 1) for _ in range(REPEATS + 1))


def _milliseconds(work: Callable[[int], None], rows: int) -> float:
    started = perf_counter()
    work(rows)
    return 1000 * (perf_counter() - started)
