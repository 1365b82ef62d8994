"""What a pass of n rows costs on this machine, timed between answers before any round was run."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from time import perf_counter

import mlx.core as mx
import numpy as np

from metal_kernels.vocabulary_pick import Choosing
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import joint_caches
from mlx_engine.drafting.drafter import DEEPEST
from mlx_engine.drafting.round_costs import PRESUMED, PassCosts
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.values.options import MAX_DEPTH

CONTEXT = 32
"""Tokens read before measuring."""

DEEP_ROWS = (12, DEEPEST + 1)
"""Rows of passes longer than MAX_DEPTH + 1; costs between them are interpolated."""

REPEATS = 5
"""Passes of each row count, interleaved; the fastest counts, because noise only adds time."""

QUEUED = 8
"""Passes of one row that are timed one behind the other."""

FEW_ROWS = range(1, MAX_DEPTH + 2)


class CostMeter:
    """Times target passes of 1 to MAX_DEPTH + 1 rows, passes shared by two conversations, and
    passes of each head with its output head.

    Measuring can pause between any two passes; no answer waits for it. read_heads: brings the heads
    into memory; before `use_heads` they are not read, and their cost is presumed. deepest: the
    longest draft; passes of drafts longer than MAX_DEPTH are measured from `go_deep` on. on_host:
    the CPU computes; plain rounds are queued one ahead there and drafted rounds are not, so passes
    are timed that way. is_wanted: whether costs were asked for.
    """

    def __init__(
        self,
        model: Model,
        read_heads: Callable[[], None],
        deepest: Callable[[], int] = lambda: MAX_DEPTH,
        *,
        on_host: bool = False,
    ) -> None:
        self._model = model
        self._read_heads = read_heads
        self._deepest = deepest
        self._on_host = on_host
        self._fastest: dict[int, float] = {}
        self._fastest_heads: list[float] = []
        self._beside = 0.0
        self._heads_are_read = self._is_deep = False
        self._steps = self._everything()
        self._is_done = False
        self.is_wanted = False
        self._costs: PassCosts | None = None

    def measure(self, stop: Callable[[], bool] = lambda: False) -> PassCosts | None:
        """Continue measuring; None when stop(), asked before every pass, ended it too early."""
        while not self._is_done:
            if stop():
                return None
            try:
                self._is_done = next(self._steps, self) is self
            except BaseException:
                self._steps = self._everything()  # a generator that has raised is over
                raise
        return self._costs

    def use_heads(self) -> None:
        """Read the heads into memory, once, and measure them too. Raises EngineError."""
        if self._heads_are_read or not self._model.heads:
            return
        self._read_heads()
        self._heads_are_read = True
        self._go_on_with(self._timed_heads())

    def go_deep(self) -> None:
        """Measure passes of longer drafts too from now on, where they are possible."""
        if not self._is_deep and self._deepest() > MAX_DEPTH:
            self._is_deep = True
            self._go_on_with(self._timed_passes(DEEP_ROWS))

    def _go_on_with(self, steps: Iterator[None]) -> None:
        self._steps = chain(self._steps, steps)
        self._is_done = False

    def costs_now(self) -> PassCosts:
        """The costs measured so far, presumed ones before that."""
        self.is_wanted = True
        return PRESUMED if self._costs is None else self._costs

    def _everything(self) -> Iterator[None]:
        yield from self._timed_passes(FEW_ROWS)
        yield from self._timed_beside()
        if self._heads_are_read:
            yield from self._timed_heads()
        if self._is_deep:
            yield from self._timed_passes(DEEP_ROWS)

    def _take(self) -> None:
        """Update the costs. Where a pass of more rows seems faster than one of fewer, the latter
        was disturbed and takes the former's time.
        """
        rows = sorted(self._fastest)
        backwards = accumulate((self._fastest[count] for count in reversed(rows)), min)
        fastest = list(backwards)[::-1]
        verify = tuple(np.interp(range(1, rows[-1] + 1), rows, fastest).tolist())
        heads = self._fastest_heads
        if not heads:
            heads = [PRESUMED.draft_ms * verify[0] if self._model.heads else 0.0]
        self._costs = PassCosts(verify, heads[0], tuple(heads[1:]), self._beside)

    def _timed_passes(self, widths: Sequence[int]) -> Iterator[None]:
        """Time target passes of these row counts, in sweeps up and down in turn."""
        model = self._model
        tokens = mx.arange(CONTEXT)[None] % model.vocabulary
        caches = model.make_caches()
        hidden = model.forward(tokens, caches)
        caches.commit(CONTEXT)
        mx.eval(hidden, caches.arrays())
        yield
        fastest = dict.fromkeys(widths, float("inf"))
        for sweep in range(REPEATS + 1):  # the first one warms up
            for rows in widths if sweep % 2 else reversed(widths):
                one = partial(_one_pass, model, tokens[:, :rows], caches)
                is_ahead = self._on_host and rows == 1
                found = _behind_another_ms(one) if is_ahead else _alone_ms(one)
                if not sweep:
                    _warm_choosing(model, hidden[:, :rows])
                fastest[rows] = min(fastest[rows], found)
                yield
            if sweep:
                self._fastest.update(fastest)
                self._take()

    def _timed_beside(self) -> Iterator[None]:
        """Time a pass with one row of each of two conversations, if passes can be shared."""
        model, fastest = self._model, float("inf")
        if model.joint is None:
            return
        tokens = mx.zeros((1, CONTEXT), dtype=mx.int32)
        both = (model.make_caches(), model.make_caches())
        for caches in both:
            model.forward(tokens, caches)
            caches.commit(CONTEXT)
            mx.eval(caches.arrays())
            yield
        for _ in range(REPEATS):
            started = perf_counter()
            hidden = model.joint(tokens[:, :2], joint_caches(both, (1, 1)))
            mx.eval(mx.argmax(model.logits(hidden), axis=-1))
            for caches in both:
                caches.commit(0)
            fastest = min(fastest, 1000 * (perf_counter() - started))
            yield
        self._beside = max(0.0, fastest - self._fastest[2])
        self._take()

    def _timed_heads(self) -> Iterator[None]:
        """Time a pass of each head over the fewest rows it is given in a round.

        Passes of every row count that a round may give it come first, to compile their kernels.
        """
        token = mx.zeros((1, 1), dtype=mx.int32)
        state = self._model.forward(token, self._model.make_caches())
        mx.eval(state)
        heads = self._model.heads
        fastest = [float("inf")] * len(heads)
        for head in heads:
            for rows in FEW_ROWS:
                _pass_ms(head, state, rows)
                yield
        for _ in range(REPEATS):
            for turn, head in enumerate(heads):
                fastest[turn] = min(fastest[turn], _pass_ms(head, state, turn + 1))
                yield
        self._fastest_heads = fastest
        self._take()


def _one_pass(model: Model, tokens: mx.array, caches: LayerCaches) -> mx.array:
    hidden = model.forward(tokens, caches)
    caches.commit(0)
    return mx.argmax(model.logits(hidden), axis=-1)


def _alone_ms(one_pass: Callable[[], mx.array]) -> float:
    started = perf_counter()
    mx.eval(one_pass())
    return 1000 * (perf_counter() - started)


def _behind_another_ms(one_pass: Callable[[], mx.array]) -> float:
    """Mean time between the ends of passes of which one more is always queued: the fastest single
    one would be the one after an end that was seen late.
    """
    queued, ended = [], []
    for _ in range(QUEUED):
        queued.append(one_pass())
        mx.async_eval(queued[-1])  # type: ignore[no-untyped-call]
        if len(queued) > 1:
            mx.eval(queued.pop(0))
            ended.append(perf_counter())
    mx.eval(queued)
    return 1000 * (ended[-1] - ended[0]) / (len(ended) - 1)


def pass_timer(model: Model) -> Callable[[int], float]:
    """Milliseconds of a pass of so many rows after a short text, output head included."""
    tokens = mx.arange(CONTEXT)[None] % model.vocabulary
    caches = model.make_caches()
    mx.eval(model.forward(tokens, caches))
    caches.commit(CONTEXT)
    mx.eval(caches.arrays())
    return lambda rows: _alone_ms(partial(_one_pass, model, tokens[:, :rows], caches))


def _warm_choosing(model: Model, hidden: mx.array) -> None:
    """Compile the kernels that pick tokens of [1, R, H] without logits, with noise and without."""
    rows, states = model.output_rows, hidden[..., : model.hidden_size]
    if rows is not None and rows.takes(states):
        keys = mx.zeros((states.shape[1], 2), dtype=mx.uint32)
        mx.eval([rows.pick(states, how) for how in (Choosing(), Choosing(keys))])


def _pass_ms(head: MtpHead, state: mx.array, rows: int) -> float:
    caches = head.make_head_caches()
    tokens, hidden = mx.zeros((1, rows), dtype=mx.int32), mx.repeat(state, rows, axis=1)
    mx.eval(tokens, hidden)
    started = perf_counter()
    states = head.mtp_forward(tokens, hidden, caches)
    mx.eval(mx.argmax(head.mtp_logits(states[:, -1:]), axis=-1))
    return 1000 * (perf_counter() - started)
