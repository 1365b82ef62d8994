"""Measures what a pass of 1 to 9 rows, and a pass of the head, costs on this machine."""

from collections.abc import Callable, Iterator
from time import perf_counter

import mlx.core as mx

from mlx_engine.drafting.round_costs import PassCosts
from mlx_engine.models.contract import Adapter, MtpHead
from mlx_engine.values.options import MAX_DEPTH

CONTEXT = 32
"""Tokens read before measuring."""

REPEATS = 2
"""Passes of each width, interleaved; the fastest counts, for noise only ever adds."""

PRESUMED = PassCosts(tuple(1 + 0.06 * row for row in range(MAX_DEPTH + 1)), 0.1)
"""Proportions to begin with when there is no time to measure; rounds really played correct them."""


class CostMeter:
    """Times target passes of 1 to MAX_DEPTH + 1 rows and head passes, output head included.

    It may be left between two passes and taken up again. read_heads: brings the heads into memory;
    before `use_heads` they are not touched, and their cost is presumed.
    """

    def __init__(self, adapter: Adapter, read_heads: Callable[[], None]) -> None:
        self._adapter = adapter
        self._read_heads = read_heads
        self._verify_ms = [float("inf")] * (MAX_DEPTH + 1)
        self._heads_are_read = False
        self._passes: Iterator[None] = self._timed()
        self._is_begun = False
        self._costs: PassCosts | None = None

    def measure(self, stop: Callable[[], bool] = lambda: False) -> PassCosts | None:
        """Go on measuring; None when stop(), asked before every pass, ended it too early."""
        self._is_begun = True
        while self._costs is None:
            if stop():
                return None
            if next(self._passes, self) is self:
                presumed = PRESUMED.draft_ms * self._verify_ms[0] if self._adapter.mtp_depth else 0
                self._costs = PassCosts(tuple(self._verify_ms), presumed)
        return self._costs

    def use_heads(self) -> None:
        """Read the heads into memory, once, and measure them. Raises EngineError."""
        if self._heads_are_read or not self._adapter.mtp_depth:
            return
        self._read_heads()
        self._heads_are_read = True
        costs = self.costs_now()
        if costs is not PRESUMED:
            first, *later = self._head_passes()
            self._costs = costs._replace(draft_ms=first, later_ms=tuple(later))

    def costs_now(self) -> PassCosts:
        """What was measured; presumed while a measurement waits to go on; else measured now."""
        if self._is_begun and self._costs is None:
            return PRESUMED
        costs = self.measure()
        assert costs is not None
        return costs

    def _timed(self) -> Iterator[None]:
        """Every pass of the measurement, one by one."""
        adapter = self._adapter
        tokens = mx.arange(CONTEXT)[None] % adapter.vocabulary
        caches = adapter.make_caches()
        hidden = adapter.forward(tokens, caches)
        caches.keep(CONTEXT)
        mx.eval(hidden, caches.arrays())
        yield

        def verify(rows: int) -> float:
            started = perf_counter()
            mx.eval(adapter.logits(adapter.forward(tokens[:, :rows], caches)))
            caches.keep(0)
            return 1000 * (perf_counter() - started)

        for _ in range(REPEATS + 1):  # the first one warms up
            for rows in range(1, MAX_DEPTH + 2):
                self._verify_ms[rows - 1] = min(self._verify_ms[rows - 1], verify(rows))
                yield

    def _head_passes(self) -> list[float]:
        """Milliseconds of a pass of each head, over as many rows as its turn has at the least."""
        token = mx.zeros((1, 1), dtype=mx.int32)
        state = self._adapter.forward(token, self._adapter.make_caches())
        mx.eval(state)
        heads = (self._adapter, *self._adapter.later_heads)
        return [_pass_ms(head, state, rows) for rows, head in enumerate(heads, 1)]


def _pass_ms(head: MtpHead, state: mx.array, rows: int) -> float:
    caches, fastest = head.make_head_caches(), float("inf")
    tokens, hidden = mx.zeros((1, rows), dtype=mx.int32), mx.repeat(state, rows, axis=1)
    mx.eval(tokens, hidden)
    for _ in range(REPEATS + 1):  # the first one warms up
        started = perf_counter()
        states = head.mtp_forward(tokens, hidden, caches)
        mx.eval(mx.argmax(head.mtp_logits(states[:, -1:]), axis=-1))
        caches.keep(0)
        fastest = min(fastest, 1000 * (perf_counter() - started))
    return fastest
