"""What passes and rounds of each depth cost on this machine: measured, then corrected by rounds."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.values.options import MAX_DEPTH

CONTEXT = 32
"""Tokens read before measuring."""

REPEATS = 2
"""Passes of each width, interleaved; the fastest counts, for noise only ever adds."""

TRUST = 1.0
"""Rounds the first measurement is worth against rounds run at a depth."""

RECENT = 20.0
"""Rounds of a depth that count; older ones fade."""

SPIKE = 3.0
"""A round counts as at most this many times dearer, or cheaper, than expected: spikes are noise."""

PLAIN_EVERY = 48
"""Drafted rounds after which a plain one shows again what drafting gains."""

AT_FIRST_EVERY = 6
"""The same until ENOUGH_PLAIN of them were run."""

ENOUGH_PLAIN = 5


class PassCosts(NamedTuple):
    """Milliseconds measured on this machine: verify_ms[r-1] for a pass of r rows; one head pass.

    later_ms: a pass of each head after the first, where heads take turns.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()

    def drafting_ms(self, depth: int) -> float:
        """Of a draft of `depth` tokens: a pass each."""
        if not self.later_ms:
            return depth * self.draft_ms
        return sum((self.draft_ms, *self.later_ms)[:depth])


PRESUMED = PassCosts(tuple(1 + 0.06 * row for row in range(MAX_DEPTH + 1)), 0.1)
"""Proportions to begin with when there is no time to measure; rounds that were run correct them."""


class CostMeter:
    """Times target passes of 1 to MAX_DEPTH + 1 rows and head passes, output head included.

    It may be left between two passes and taken up again. read_heads: brings the heads into memory;
    before `use_heads` they are not touched, and their cost is presumed. is_wanted: somebody has
    asked for costs.
    """

    def __init__(self, model: Model, read_heads: Callable[[], None]) -> None:
        self._model = model
        self._read_heads = read_heads
        self._verify_ms = [float("inf")] * (MAX_DEPTH + 1)
        self._heads_are_read = False
        self._passes: Iterator[None] = self._timed()
        self.is_wanted = False
        self._costs: PassCosts | None = None

    def measure(self, stop: Callable[[], bool] = lambda: False) -> PassCosts | None:
        """Go on measuring; None when stop(), asked before every pass, ended it too early."""
        while self._costs is None:
            if stop():
                return None
            try:
                is_over = next(self._passes, self) is self
            except BaseException:
                self._passes = self._timed()  # a generator that has raised is over
                raise
            if is_over:
                presumed = PRESUMED.draft_ms * self._verify_ms[0] if self._model.mtp_depth else 0
                self._costs = self._with_heads(PassCosts(tuple(self._verify_ms), presumed))
        return self._costs

    def use_heads(self) -> None:
        """Read the heads into memory, once, and measure them. Raises EngineError."""
        if self._heads_are_read or not self._model.mtp_depth:
            return
        self._read_heads()
        self._heads_are_read = True
        if self._costs is not None:
            self._costs = self._with_heads(self._costs)

    def costs_now(self) -> PassCosts:
        """What was measured by now, presumed before that: no answer waits for a measurement."""
        self.is_wanted = True
        return PRESUMED if self._costs is None else self._costs

    def _with_heads(self, costs: PassCosts) -> PassCosts:
        if not self._heads_are_read:
            return costs
        first, *later = self._head_passes()
        return costs._replace(draft_ms=first, later_ms=tuple(later))

    def _timed(self) -> Iterator[None]:
        """Every pass of the measurement, one by one."""
        model = self._model
        tokens = mx.arange(CONTEXT)[None] % model.vocabulary
        caches = model.make_caches()
        hidden = model.forward(tokens, caches)
        caches.keep(CONTEXT)
        mx.eval(hidden, caches.arrays())
        yield

        def verify(rows: int) -> float:
            started = perf_counter()
            mx.eval(model.logits(model.forward(tokens[:, :rows], caches)))
            caches.keep(0)
            return 1000 * (perf_counter() - started)

        for _ in range(REPEATS + 1):  # the first one warms up
            for rows in range(1, MAX_DEPTH + 2):
                self._verify_ms[rows - 1] = min(self._verify_ms[rows - 1], verify(rows))
                yield

    def _head_passes(self) -> list[float]:
        """Milliseconds of a pass of each head, over as many rows as its turn has at the least."""
        token = mx.zeros((1, 1), dtype=mx.int32)
        state = self._model.forward(token, self._model.make_caches())
        mx.eval(state)
        heads = (self._model, *self._model.later_heads)
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


class RoundCosts:
    """Milliseconds of a round by depth.

    A depth that was run is known by its own rounds. The others keep the measured proportions:
    what rounds cost over what was measured for them scales all.
    """

    def __init__(self, costs: PassCosts) -> None:
        self._measured = [ms + costs.drafting_ms(k) for k, ms in enumerate(costs.verify_ms)]
        self._mean = [0.0] * len(self._measured)
        self._rounds = [0.0] * len(self._measured)
        self._since_plain = 0

    @property
    def deepest(self) -> int:
        """The deepest draft whose cost is known."""
        return len(self._measured) - 1

    def at(self, depth: int) -> float:
        """Milliseconds to expect of a round that drafts `depth` tokens."""
        expected = self._scale() * self._measured[depth]
        known = self._rounds[depth]
        return (TRUST * expected + known * self._mean[depth]) / (TRUST + known)

    def add(self, depth: int, milliseconds: float) -> None:
        """A round of this depth took so long."""
        expected = self.at(depth)
        counted = min(max(milliseconds, expected / SPIKE), expected * SPIKE)
        rounds = min(self._rounds[depth], RECENT - 1)
        self._mean[depth] = (rounds * self._mean[depth] + counted) / (rounds + 1)
        self._rounds[depth] = rounds + 1
        self._since_plain = 0 if depth == 0 else self._since_plain + 1

    @property
    def wants_plain(self) -> bool:
        """Whether a plain round is due, so that its cost stays known."""
        is_known = self._rounds[0] >= ENOUGH_PLAIN
        return self._since_plain >= (PLAIN_EVERY if is_known else AT_FIRST_EVERY)

    def _scale(self) -> float:
        """Milliseconds of rounds over those measured for the same."""
        known = zip(self._rounds, self._mean, self._measured, strict=True)
        seen = measured = 0.0
        for rounds, mean, first in known:
            seen += rounds * mean
            measured += rounds * first
        return seen / measured if measured else 1.0
