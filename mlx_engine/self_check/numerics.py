"""Which numerics are in effect: whether rows are exact on this machine, and what that costs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import KERNELS, Kernels
from mlx_engine.cache.attention import RowsCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.models.contract import Model
from mlx_engine.models.decoder import Decoder
from mlx_engine.self_check.kernel_states import DOES, why_unused
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import AskedNumerics
from mlx_engine.values.words import Words, joined

ROWS = (2, 9, 8)
"""Of blocks that are compared with passes of one row: the first verify pass, the longest (which
our products cut in two), and the row more at which MLX changes its routine or sorts by expert.
"""

STOCK_ROWS = (*ROWS, DEEPEST + 1)
"""The same where there are no kernels of ours, which are exact for no more than nine rows."""

KEYS = (1200, 5000)
"""In the caches while they are compared: stock attention cuts its sums by what there is to see."""

ENOUGH_S = 0.2
"""Seconds after which no further comparison is begun before a first answer. So it is where there is
no Metal: MLX's CPU routines are not chosen by what there is to see. With Metal all are made, behind
the first answer.
"""

ROWS_DIFFER = Words(
    "On this machine a row's logits change with the rows beside it: text with "
    "drafting may leave the plain text at near ties."
)

ROWS_PENDING = Reason(
    "rows-pending",
    Words(
        "Whether a row's logits change with the rows beside it on this machine is found "
        "out after an answer; until then text with drafting may leave the plain text at "
        "near ties."
    ),
)
MAY_COST = 0.05
"""Share by which exact rows may make a pass slower before "fast" is the default."""

TIMED_ROWS = (1, 4)
"""A plain pass, and one that verifies three drafts."""

REPEATS = 4
"""Of each, in turn; the first warms up, the fastest of the others counts."""


class Found(NamedTuple):
    """What is known of a model's rows here. differ: where, "" for nowhere. cost: share by which
    exact rows make a pass slower, 0 where nobody asked.
    """

    differ: str = ""
    cost: float = 0.0

    def costs_too_much(self, asked: AskedNumerics) -> bool:
        """Whether exact rows are given up for speed: nobody insists on them."""
        return asked == "auto" and self.cost > MAY_COST

    def as_words(self) -> str:
        """To be remembered."""
        return self.differ or f"exact {self.cost:.4f}"

    @staticmethod
    def of_words(words: str) -> "Found":
        """What `as_words` made; other words say where rows differ."""
        kind, _, cost = words.partition(" ")
        try:
            return Found("", float(cost)) if kind == "exact" else Found(words)
        except ValueError:
            return Found()


def with_numerics(
    described: ModelDescription, asked: AskedNumerics, found: Found | Reason, kernels: Kernels
) -> ModelDescription:
    """The description with the numerics in effect; found may be the reason why that is unknown."""
    others = tuple(reason for reason in described.declined if reason.code not in CODES)
    fast = replace(described, numerics="fast", declined=others)
    if asked == "fast":
        return fast
    if isinstance(found, Reason):
        return replace(fast, declined=(*others, found))
    if found.differ:
        return replace(fast, declined=(*others, rows_differ(kernels, found.differ)))
    if found.costs_too_much(asked):
        return replace(fast, declined=(*others, exact_costs(found.cost)))
    return replace(fast, numerics="exact")


def rows_that_differ(model: Model, context: int, enough_s: float = ENOUGH_S) -> str:
    """Where a row depends on those beside it, "" for nowhere; begins nothing after enough_s."""
    began = perf_counter()
    for where in compare_rows(model, context, STOCK_ROWS):
        if where or perf_counter() - began > enough_s:
            return where
    return ""


def compare_rows(model: Model, context: int, counts: Sequence[int] = ROWS) -> Iterator[str]:
    """Compare blocks with passes of one row, bit for bit: one block a step, "" where all is alike.

    Of our own layers one of each kind is looked at, so that a step costs little at any size. Caches
    are filled with random keys and values, at most a context full.
    """
    few = model.one_of_each_kind() if isinstance(model, Decoder) else model
    tokens = (mx.arange(max(counts))[None] * 7 + 1) % model.vocabulary
    room = max(1, context - max(counts))
    blocks: dict[int, mx.array] = {}
    for keys in sorted({min(keys, room) for keys in KEYS}):
        drawn: dict[tuple[int, ...], mx.array] = {}
        together, alone = (_filled(few, keys, drawn) for _ in range(2))
        singles: list[mx.array] = []
        for count in counts:
            block = few.forward(tokens[:, :count], together)
            together.commit(0)
            for row in range(len(singles), count):
                singles.append(few.forward(tokens[:, row : row + 1], alone))
                alone.commit(1)
            apart = mx.concatenate(singles[:count], axis=1)
            yield _told(block, apart, f"in a pass of {count} rows after {keys:,} tokens")
            if not blocks:
                yield _told_of_logits(few, block)
            blocks[count] = block
    for count in counts[1:]:
        yield _told_of_logits(few, blocks[count])


def _told_of_logits(model: Model, hidden: mx.array) -> str:
    rows = hidden.shape[1]
    singles = [model.logits(hidden[:, row : row + 1]) for row in range(rows)]
    apart = mx.concatenate(singles, axis=1)
    return _told(model.logits(hidden), apart, f"in the logits of {rows} rows")


def _told(one: mx.array, other: mx.array, where: str) -> str:
    # NaN is a fault of the weights, found when a token is picked; not one of the rows
    return "" if mx.array_equal(one, other, equal_nan=True).item() else where


def _filled(model: Model, keys: int, drawn: dict[tuple[int, ...], mx.array]) -> LayerCaches:
    """Caches after some tokens, of which attention sees so many; states are those of one token.

    drawn: random rows by their shape, which are drawn once for all caches.
    """
    caches = model.make_caches()
    mx.eval(model.forward(mx.array([[1]]), caches))
    caches.commit(1)
    for cache in caches.layers:
        if isinstance(cache, RowsCache):
            rows = [_random(array, keys - 1, drawn) for array in cache.shown()]
            cache.write(*rows)
            cache.commit(keys - 1)
    mx.eval(caches.arrays())
    return caches


def _random(like: mx.array, rows: int, drawn: dict[tuple[int, ...], mx.array]) -> mx.array:
    shape = (*like.shape[:2], rows, like.shape[3])
    if shape not in drawn:
        drawn[shape] = mx.random.normal(shape, key=mx.random.key(shape[3]))
    return drawn[shape].astype(like.dtype)


@dataclass(slots=True)
class ExactCost:
    """Times passes with exact rows against passes with whatever is faster, one pass a step.

    pass_ms: of so many rows. share: what exact rows cost in the end, by the worse of TIMED_ROWS.
    """

    kernels: Kernels
    pass_ms: Callable[[int], float]
    share: float = 0.0

    def steps(self) -> Iterator[None]:
        """Rows are exact again behind each of them."""
        worst = -1.0
        for rows in TIMED_ROWS:
            fastest = {True: float("inf"), False: float("inf")}
            for repeat in range(REPEATS):
                for exact in (True, False):
                    self.kernels.want(exact=exact)
                    try:
                        took = self.pass_ms(rows)
                    finally:
                        self.kernels.want(exact=True)
                    if repeat:
                        fastest[exact] = min(fastest[exact], took)
                    yield
            worst = max(worst, fastest[True] / fastest[False] - 1)
        self.share = worst


def pass_timer(model: Model) -> Callable[[int], float]:
    """Milliseconds of a pass of so many rows after a short text, all layers and logits."""
    tokens = (mx.arange(32)[None] * 7 + 1) % model.vocabulary
    caches = model.make_caches()
    mx.eval(model.forward(tokens, caches))
    caches.commit(tokens.shape[1])

    def pass_ms(rows: int) -> float:
        mx.eval(caches.arrays())
        began = perf_counter()
        mx.eval(model.logits(model.forward(tokens[:, :rows], caches)))
        caches.commit(0)
        return 1000 * (perf_counter() - began)

    return pass_ms


def rows_unknown(error: Exception) -> Reason:
    """Why it stays unknown whether rows are exact: `error` ended the comparison."""
    told = str(error) or type(error).__name__
    return Reason(
        "rows-unknown",
        Words(
            "Comparing rows behind an answer ended with an error, so text with drafting may "
            "leave the plain text at near ties; it is tried again at the next load. "
            "({told})",
            told=told,
        ),
    )


def exact_costs(cost: float) -> Reason:
    """Why numerics are fast though rows could be exact."""
    return Reason(
        "exact-costs",
        Words(
            "Exact rows would make a pass {percent:.0f} % slower on this machine, and more "
            "than {most:.0f} % is not worth it by default: text with drafting may "
            "leave the plain text at near ties. Choose exact numerics to have them all the "
            "same.",
            percent=100 * cost,
            most=100 * MAY_COST,
        ),
    )


def rows_differ(kernels: Kernels, where: str) -> Reason:
    """Why numerics are not exact; names what has no kernel of ours, where others have one."""
    stock = [
        DOES[name]
        for name, kernel in KERNELS.items()
        if kernel.is_exact and why_unused(kernels, name)
    ]
    seen = Words("(Seen {where}.)", where=where)
    told = ""
    if stock and kernels.launcher:
        told = Words("Stock MLX runs its {kernels}.", kernels=joined(stock, ", "))
    return Reason("rows-differ", joined((ROWS_DIFFER, seen, told), " "))


CODES = ("rows-differ", ROWS_PENDING.code, "rows-unknown", "exact-costs")
"""Of reasons that are about numerics."""
