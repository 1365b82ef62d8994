"""Time a model's forward passes of n rows between answers, for the choice of draft depth."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from time import perf_counter

import mlx.core as mx
import numpy as np

from metal_kernels.vocabulary_pick import PickOptions
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import combine_caches
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.record import PRESUMED, PassCosts
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.sampling.sampler import PLAIN_OPS, Sampler, SamplerKernels
from mlx_engine.values.options import (
    MAX_DEPTH,
    UNQUANTISED,
    CacheBits,
    SamplingOptions,
)

CONTEXT = 32
"""Tokens in the caches while passes are timed."""

FEW_ROWS = range(1, MAX_DEPTH + 2)
DEEP_ROWS = (12, DEEPEST + 1)
"""Row counts of passes of drafts longer than MAX_DEPTH; costs between them are interpolated."""

REPEATS = 5
"""Timed passes of each row count, interleaved; the fastest counts, because noise only adds time."""

QUEUED = 8
"""Passes of one row that are timed one behind the other."""


class CostMeter:
    """Times forward passes of the target model by row count, shared passes, and MTP heads.

    They have 1 to MAX_DEPTH + 1 rows. Timing can pause between any two passes, so that no answer
    waits for it.

    read_heads: loads the heads' weights; until `use_heads` the cost of heads is presumed.
    deepest: the longest possible draft. computes_on_host: the CPU computes. Plain rounds are queued
    one ahead there and drafted rounds are not, so passes are timed that way. sampling: kernels that
    choose tokens, compiled along with the first passes. cache: bits of the KV caches that passes
    are timed with. is_wanted: whether `current_costs` was asked for.
    """

    def __init__(
        self,
        model: Model,
        read_heads: Callable[[], None],
        deepest: Callable[[], int] = lambda: MAX_DEPTH,
        *,
        computes_on_host: bool = False,
        sampling: SamplerKernels = PLAIN_OPS,
    ) -> None:
        self._model, self._read_heads = model, read_heads
        self._deepest, self._on_host, self._sampling = deepest, computes_on_host, sampling
        self.cache = UNQUANTISED
        self._fastest: dict[int, float] = {}  # milliseconds by rows
        self._fastest_heads: list[float] = []
        self._per_chat_ms = 0.0
        self._jobs: list[Callable[[], Iterator[None]]] = [
            partial(self._time_passes, FEW_ROWS),
            self._time_two_chats,
        ]
        self._next = 0
        self._steps: Iterator[None] | None = None  # of the next job, where it was begun
        self._heads_are_read = self._is_deep = self.is_wanted = False
        self._costs = PRESUMED

    def measure(self, stop: Callable[[], bool] = lambda: False) -> PassCosts | None:
        """Go on timing passes; return the costs, or None when stop() ended it.

        stop is asked before every pass. After a pass that raised, perhaps for a kernel that is off
        from now on, all is timed anew.
        """
        while self._next < len(self._jobs):
            if stop():
                return None
            job, self._next = self._next, 0
            steps, self._steps = self._steps or self._jobs[job](), None
            is_over = bool(next(steps, True))
            self._next, self._steps = job + is_over, None if is_over else steps
        return self._costs

    def use_heads(self) -> None:
        """Load the MTP heads' weights and time the heads from now on. Raises EngineError."""
        if self._model.heads and not self._heads_are_read:
            self._read_heads()
            self._heads_are_read = True
            self._jobs.append(self._time_heads)

    def time_long_drafts(self) -> None:
        """Time verify passes of drafts longer than MAX_DEPTH, too, where they are possible."""
        if not self._is_deep and self._deepest() > MAX_DEPTH:
            self._is_deep = True
            self._jobs.append(partial(self._time_passes, DEEP_ROWS))

    def current_costs(self) -> PassCosts:
        """Return the times of forward passes measured so far, presumed ones before that."""
        self.is_wanted = True
        return self._costs

    def _update_costs(self) -> None:
        """Compute the costs of passes from the fastest times.

        A pass that took longer than one of more rows was disturbed, and counts as fast as that one.
        """
        rows = sorted(self._fastest)
        backwards = accumulate((self._fastest[count] for count in reversed(rows)), min)
        verify_ms = tuple(np.interp(range(1, rows[-1] + 1), rows, [*backwards][::-1]).tolist())
        share = PRESUMED.draft_ms / PRESUMED.verify_ms[0] if self._model.heads else 0.0
        draft_ms, *later_ms = self._fastest_heads or [share * verify_ms[0]]
        self._costs = PassCosts(verify_ms, draft_ms, tuple(later_ms), self._per_chat_ms)

    def _time_passes(self, counts: Sequence[int]) -> Iterator[None]:
        """Time passes of the target model with these row counts, in sweeps up and down by turns."""
        model = self._model
        tokens = mx.arange(CONTEXT)[None] % model.vocabulary
        caches = _filled_caches(model, tokens, self.cache.bits)
        yield
        fastest = dict.fromkeys(counts, float("inf"))
        for sweep in range(REPEATS + 1):  # the first one warms up
            for rows in counts if sweep % 2 else reversed(counts):
                one_pass = partial(_predict_greedily, model, tokens[:, :rows], caches)
                is_queued = self._on_host and rows == 1
                took = _behind_another_ms(one_pass) if is_queued else _single_pass_ms(one_pass)
                if not sweep:
                    _compile_picks(model, rows, self._sampling)
                fastest[rows] = min(fastest[rows], took)
                yield
            if sweep:
                self._fastest.update(fastest)
                self._update_costs()

    def _time_two_chats(self) -> Iterator[None]:
        """Time a forward pass with one row of each of two chats, where passes can be shared."""
        model, fastest = self._model, float("inf")
        if model.joint_forward is None:
            return
        tokens = mx.zeros((1, CONTEXT), dtype=mx.int32)
        chats = [_filled_caches(model, tokens, self.cache.bits) for _ in range(2)]
        yield

        def shared_pass() -> mx.array:
            assert model.joint_forward is not None
            hidden = model.joint_forward(tokens[:, :2], combine_caches(chats, (1, 1)))
            for caches in chats:
                caches.commit(0)
            return mx.argmax(model.logits(hidden), axis=-1)

        for _ in range(REPEATS):
            fastest = min(fastest, _single_pass_ms(shared_pass))
            yield
        self._per_chat_ms = max(0.0, fastest - self._fastest[2])
        self._update_costs()

    def _time_heads(self) -> Iterator[None]:
        """Time a pass of each MTP head over the fewest rows that a decoding round gives it.

        Passes of every possible row count come first, to compile their kernels.
        """
        heads = self._model.heads
        state = self._model.forward(mx.zeros((1, 1), mx.int32), self._model.make_caches())
        mx.eval(state)
        fastest = [float("inf")] * len(heads)
        for head in heads:
            for rows in FEW_ROWS:
                _head_pass_ms(head, state, rows, self.cache.head_bits)
                yield
        for _ in range(REPEATS):
            for turn, head in enumerate(heads):
                took = _head_pass_ms(head, state, turn + 1, self.cache.head_bits)
                fastest[turn] = min(fastest[turn], took)
                yield
        self._fastest_heads = fastest
        self._update_costs()


def pass_timer(model: Model) -> Callable[[int], float]:
    """Return a function: milliseconds of a model's pass of n rows after a short text.

    Logits are included.
    """
    tokens = mx.arange(CONTEXT)[None] % model.vocabulary
    caches = _filled_caches(model, tokens)
    return lambda rows: _single_pass_ms(partial(_predict_greedily, model, tokens[:, :rows], caches))


def _filled_caches(model: Model, tokens: mx.array, bits: CacheBits = 16) -> LayerCaches:
    """Make a model's KV caches of this many bits, filled with these tokens."""
    caches = model.make_caches(bits)
    mx.eval(model.forward(tokens, caches))
    caches.commit(tokens.shape[1])
    mx.eval(caches.arrays())
    return caches


def _predict_greedily(model: Model, tokens: mx.array, caches: LayerCaches) -> mx.array:
    """Likeliest next tokens by one pass of the model, not evaluated; caches stay as they are."""
    hidden = model.forward(tokens, caches)
    caches.commit(0)
    return mx.argmax(model.logits(hidden), axis=-1)


def _single_pass_ms(one_pass: Callable[[], mx.array]) -> float:
    """Milliseconds to build and run one forward pass."""
    started = perf_counter()
    mx.eval(one_pass())
    return 1000 * (perf_counter() - started)


def _behind_another_ms(one_pass: Callable[[], mx.array]) -> float:
    """Mean milliseconds per forward pass while one more is always queued.

    The mean, because after an end that was seen late the next pass seems too fast.
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


def _compile_picks(model: Model, rows: int, sampling: SamplerKernels) -> None:
    """Compile the kernels that choose tokens: greedy, sampled and filtered."""
    tokens = mx.zeros((1, rows), dtype=mx.int32)
    states = model.forward(tokens, model.make_caches())[..., : model.hidden_size]
    if model.output_matrix is not None and model.output_matrix.supports_rows(states):
        keys = mx.zeros((rows, 2), dtype=mx.uint32)
        mx.eval(
            [
                model.output_matrix.pick_argmax(states, how)
                for how in (PickOptions(), PickOptions(keys))
            ]
        )
    if sampling == PLAIN_OPS:
        return
    logits = model.logits(states)[0]
    for options in (SamplingOptions(temperature=1), SamplingOptions(temperature=1, top_k=20)):
        sampler = Sampler(options, model.vocabulary, 0, sampling)
        mx.eval(sampler.pick(logits, 0, tokens[0, 1:]))


def _head_pass_ms(head: MtpHead, state: mx.array, rows: int, bits: CacheBits) -> float:
    """Milliseconds of an MTP head's pass over `rows` copies of a hidden state [1, 1, H].

    bits: of its KV caches.
    """
    caches = head.make_head_caches(bits)
    tokens, hidden = mx.zeros((1, rows), dtype=mx.int32), mx.repeat(state, rows, axis=1)
    mx.eval(tokens, hidden)

    def one_pass() -> mx.array:
        states = head.mtp_forward(tokens, hidden, caches)
        return mx.argmax(head.mtp_logits(states[:, -1:]), axis=-1)

    return _single_pass_ms(one_pass)
