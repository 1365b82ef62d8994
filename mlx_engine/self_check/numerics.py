"""Whether a row's bits depend on the other rows of a pass, and what exact rows cost."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import lru_cache
from time import perf_counter

import mlx.core as mx

from metal_kernels.choice import Kernels
from mlx_engine.cache.attention import RowsCache
from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.models.contract import Model
from mlx_engine.models.decoder import Decoder
from mlx_engine.self_check.kernel_record import ExactRows
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import AskedNumerics
from mlx_engine.values.words import Words, join_words

ROWS = (2, 9, 8)
"""Row counts of compared passes: the shortest verify pass, the longest (which our products cut in
two), and one row more than MLX takes before it changes its routine or sorts by expert.
"""

STOCK_ROWS = (*ROWS, DEEPEST + 1)
"""Row counts of compared passes without our kernels, which are exact for up to nine rows."""

KEY_COUNTS = (1200, 5000)
"""Keys in the caches of compared passes: stock attention cuts its sums by their number."""

COMPARING_S = 0.2
"""Seconds after which, without Metal, no further comparison begins before the first answer. MLX's
CPU routines do not depend on the number of keys. With Metal all comparisons follow that answer.
"""

ROWS_DIFFER = Words(
    "On this computer the chance of a token depends a little on how many tokens are computed at "
    "once: where two are almost equally likely, text with drafting may differ from text without it."
)

ROWS_PENDING = Reason(
    "rows-pending",
    Words(
        "Whether text with drafting can differ from text without it on this computer is checked "
        "after an answer. Until then it may, where two tokens are almost equally likely.",
    ),
)
MOST_COST = 0.05
"""Share by which exact rows may make a pass slower before "fast" is the default."""

TIMED_ROWS = (1, 4)
"""Row counts of timed passes: a plain pass, and one that verifies three drafted tokens."""

REPEATS = 4
"""Timed passes of each kind, by turns; the first warms up, the fastest of the others counts."""


def are_exact_rows_too_slow(exact_rows: ExactRows, requested_numerics: AskedNumerics) -> bool:
    """Whether bit-equal rows cost too much for `numerics="auto"`, which then uses fast kernels."""
    return requested_numerics == "auto" and exact_rows.cost > MOST_COST


def with_numerics(
    described: ModelDescription, requested_numerics: AskedNumerics, exact_rows: ExactRows | Reason
) -> ModelDescription:
    """Return the model's description with the numerics in effect and why rows are not exact.

    exact_rows: a Reason where it is unknown whether rows are exact.
    """
    declined = [reason for reason in described.declined if reason.code not in CODES]
    why = (
        exact_rows
        if isinstance(exact_rows, Reason)
        else why_not_exact(exact_rows, requested_numerics)
    )
    if requested_numerics != "fast" and why is not None:
        declined.append(why)
    is_exact = requested_numerics != "fast" and why is None
    return replace(described, numerics="exact" if is_exact else "fast", declined=tuple(declined))


def why_not_exact(exact_rows: ExactRows, requested_numerics: AskedNumerics) -> Reason | None:
    """Return why a row's results may depend on the number of rows in its pass; None if not."""
    if exact_rows.differ:
        told = ROWS_DIFFER, Words("(Seen {where}.)", where=exact_rows.differ)
        return Reason("rows-differ", join_words(told, " "))
    if are_exact_rows_too_slow(exact_rows, requested_numerics):
        words = Words(
            "Exact precision would make a step {percent:.0f}% slower on this computer, more than "
            "the {most:.0f}% accepted by default. So where two tokens are almost equally likely, "
            "text with drafting may differ from text without it, unless exact precision is chosen.",
            percent=100 * exact_rows.cost,
            most=100 * MOST_COST,
        )
        return Reason("exact-costs", words)
    return None


def rows_that_differ(model: Model, context: int, longest_s: float = COMPARING_S) -> str:
    """Say where in a model a row depends on the rows beside it, "" for nowhere.

    Begins no comparison after longest_s seconds.
    """
    began = perf_counter()
    for where in compare_row_counts(model, context, STOCK_ROWS):
        if where or perf_counter() - began > longest_s:
            return where
    return ""


def compare_row_counts(
    model: Model, context: int, counts: Sequence[int] = ROWS
) -> Generator[str, None, None]:
    """Compare a model's passes of several rows with passes of one row, bit for bit, in steps.

    Yields where they differ, "" where they are equal. Of our own models one layer of each kind is
    compared, so that a step takes as long at any size. Caches hold random keys and values, at most
    a context full.
    """
    few = model.with_distinct_layers() if isinstance(model, Decoder) else model
    tokens = (mx.arange(max(counts))[None] * 7 + 1) % model.vocabulary
    room = max(1, context - max(counts))
    blocks: dict[int, mx.array] = {}
    for keys in sorted({min(keys, room) for keys in KEY_COUNTS}):
        together, alone = _random_caches(few, keys), _random_caches(few, keys)
        singles: list[mx.array] = []
        for count in counts:
            block = few.forward(tokens[:, :count], together)
            together.commit(0)
            for row in range(len(singles), count):
                singles.append(few.forward(tokens[:, row : row + 1], alone))
                alone.commit(1)
            rows = mx.concatenate(singles[:count], axis=1)
            yield _describe_difference(
                block, rows, f"with {count} tokens at once, after {keys:,} tokens"
            )
            if not blocks:
                yield _logits_difference(few, block)
            blocks[count] = block
    for count in counts[1:]:
        yield _logits_difference(few, blocks[count])


def _logits_difference(model: Model, hidden: mx.array) -> str:
    rows = hidden.shape[1]
    singles = [model.logits(hidden[:, row : row + 1]) for row in range(rows)]
    alone = mx.concatenate(singles, axis=1)
    return _describe_difference(
        model.logits(hidden), alone, f"in the chances of {rows} tokens at once"
    )


def _describe_difference(
    joint_outputs: mx.array, single_outputs: mx.array, place_in_model: str
) -> str:
    # NaN is a fault of the weights, found when a token is picked; not one of the rows
    return (
        ""
        if mx.array_equal(joint_outputs, single_outputs, equal_nan=True).item()
        else place_in_model
    )


def _random_caches(model: Model, keys: int) -> LayerCaches:
    """Make caches of `keys` random keys and values; recurrent states are those after one token.

    Where entries are made of several tokens, first follow as many real ones, of equal tokens.
    """
    caches = model.make_caches()
    ratios = [cache.ratio for cache in caches.layers if isinstance(cache, CompressedCache)]
    real = min(keys, max([1, *ratios]))
    mx.eval(model.forward(mx.ones((1, real), mx.int32), caches))
    caches.commit(real)

    @lru_cache
    def random_normal(shape: tuple[int, ...]) -> mx.array:
        return mx.random.normal(shape, key=mx.random.key(shape[3]))

    def random_like(template_array: mx.array, count: int) -> mx.array:
        shape = (*template_array.shape[:2], count, template_array.shape[3])
        return random_normal(shape).astype(template_array.dtype)

    for cache in caches.layers if keys > real else ():
        if isinstance(cache, RowsCache):
            cache.append(*(random_like(array, keys - real) for array in cache.buffers))
            if isinstance(cache, CompressedCache) and (known := cache.entries(1)):
                count = len(cache.entries_to_make)
                cache.write_entries(*(random_like(array, count) for array in known))
            cache.commit(keys - real)
    mx.eval(caches.arrays())
    return caches


def exact_rows_cost(
    kernels: Kernels, pass_ms: Callable[[int], float]
) -> Generator[None, None, float]:
    """Time passes with exact rows against passes with the fastest kernels, one pass a step.

    pass_ms: milliseconds of a pass of n rows. Rows are exact again after each step. Returns the
    share by which exact rows make a pass slower, the larger of TIMED_ROWS.
    """
    shares = []
    for rows in TIMED_ROWS:
        fastest = {True: float("inf"), False: float("inf")}
        for repeat in range(REPEATS):
            for exact in (True, False):
                kernels.set_exact_numerics(exact=exact)
                try:
                    took = pass_ms(rows)
                finally:
                    kernels.set_exact_numerics(exact=True)
                if repeat:
                    fastest[exact] = min(fastest[exact], took)
                yield
        shares.append(fastest[True] / fastest[False] - 1)
    return max(shares)


def comparison_failed_reason(error: Exception) -> Reason:
    """Return the reason for fast numerics where an error ended the comparison of rows."""
    return Reason(
        "rows-unknown",
        Words(
            "Checking whether text with drafting can differ from text without it ended with an "
            "error and is repeated at the next load. Until then it may, where two tokens are "
            "almost equally likely. ({told})",
            told=str(error) or type(error).__name__,
        ),
    )


CODES = ("rows-differ", ROWS_PENDING.code, "rows-unknown", "exact-costs")
"""Codes of the reasons for fast numerics."""
