"""What holds for a loaded model on this machine: are rows exact, do the heads fit.

A head of another model, or one read the wrong way, drafts without an error; only hardly anything is
accepted. So one pass of the model over some dozens of tokens, and one of the head, tell: where the
model is sure of the next token, a head that fits often drafts the same one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.choice import KERNELS, Kernels
from mlx_engine.cache.attention import RowsCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Adapter
from mlx_engine.models.decoder import Decoder
from mlx_engine.teacher_forced import by_rows
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import Numerics

ROWS = (2, 9, 8)
"""Of blocks that are compared with passes of one row: the first verify pass, the longest (which
our products cut in two), and the row more at which MLX changes its routine or sorts by expert.
"""

KEYS = (1200, 5000)
"""In the caches while they are compared: stock attention cuts its sums by what there is to see."""

ENOUGH_S = 1.0
"""Seconds after which no further comparison is begun before a first answer."""

ROWS_DIFFER = (
    "Exact numerics were asked for, but on this machine a row's logits change with the rows beside "
    "it: text with drafting may leave the plain text at near ties."
)

TEXT = '''The answer is yes. Here is a short example in Python:

def read_lines(path):
    """Return the lines of a file."""
    with open(path) as file:
        return [line.strip() for line in file if line.strip()]

First we open the file, then we read the lines one by one, and at the end we close the file.
'''
"""Prose and code: every model that talks is sure of some of it."""

MOST_TOKENS = 64
"""Of the text, so that the check costs about as much as a prompt of this length."""

FIRST_ROWS = 4
"""Rows not judged: a head has hardly any context there."""

SURE = 0.3
"""Probability of its first choice from which on the model counts as sure."""

FEWEST = 12
"""Rows with a sure model that a verdict needs; models with random weights have none."""

IMPLAUSIBLE = 0.15
"""Share of agreement below which a head does not fit.

Measured (tests/speed/head_fit.py): heads that fit 0.34 and 0.92, the first in a text unlike all
it was trained on; norms one too low, halves of the join swapped, a foreign head at most 0.08. The
hidden state before instead of after the final norm, or norms one too high, lower acceptance far
less than texts differ: this check is blind there.
"""


def with_numerics(model: LoadedModel, wanted: Numerics) -> ModelDescription:
    """The model's description with the numerics that are in effect here."""
    described = replace(model.description, numerics="fast")
    if wanted == "fast":
        return described
    where = rows_that_differ(model.adapter, model.description.context_length)
    if not where:
        return replace(described, numerics="exact")
    return replace(described, declined=(*described.declined, rows_differ(model.kernels, where)))


def rows_that_differ(adapter: Adapter, context: int, enough_s: float = ENOUGH_S) -> str:
    """Where a row depends on those beside it, "" for nowhere; begins nothing after enough_s."""
    began = perf_counter()
    for where in compare_rows(adapter, context):
        if where or perf_counter() - began > enough_s:
            return where
    return ""


def compare_rows(adapter: Adapter, context: int) -> Iterator[str]:
    """Compare blocks with passes of one row, bit for bit: one block a step, "" where all is alike.

    Of our own layers one of each kind is looked at, so that a step costs little at any size. Caches
    are filled with random keys and values, at most a context full.
    """
    few = adapter.one_of_each_kind() if isinstance(adapter, Decoder) else adapter
    tokens = (mx.arange(max(ROWS))[None] * 7 + 1) % adapter.vocabulary
    room = max(1, context - max(ROWS))
    blocks: dict[int, mx.array] = {}
    for keys in sorted({min(keys, room) for keys in KEYS}):
        together, alone = _filled(few, keys), _filled(few, keys)
        singles: list[mx.array] = []
        for count in ROWS:
            block = few.forward(tokens[:, :count], together)
            together.keep(0)
            for row in range(len(singles), count):
                singles.append(few.forward(tokens[:, row : row + 1], alone))
                alone.keep(1)
            apart = mx.concatenate(singles[:count], axis=1)
            yield _told(block, apart, f"in a pass of {count} rows after {keys:,} tokens")
            if not blocks:
                yield _told_of_logits(few, block)
            blocks[count] = block
    for count in ROWS[1:]:
        yield _told_of_logits(few, blocks[count])


def _told_of_logits(adapter: Adapter, hidden: mx.array) -> str:
    rows = hidden.shape[1]
    singles = [adapter.logits(hidden[:, row : row + 1]) for row in range(rows)]
    apart = mx.concatenate(singles, axis=1)
    return _told(adapter.logits(hidden), apart, f"in the logits of {rows} rows")


def _told(one: mx.array, other: mx.array, where: str) -> str:
    # NaN is a fault of the weights, found when a token is picked; not one of the rows
    return "" if mx.array_equal(one, other, equal_nan=True).item() else where


def _filled(adapter: Adapter, keys: int) -> LayerCaches:
    """Caches after some tokens, of which attention sees so many; states are those of one token."""
    caches = adapter.make_caches()
    mx.eval(adapter.forward(mx.array([[1]]), caches))
    caches.keep(1)
    for cache in caches.layers:
        if isinstance(cache, RowsCache):
            rows = [_random(array, keys - 1) for array in cache.arrays()[:2]]
            cache.write(*rows)
            cache.keep(keys - 1)
    mx.eval(caches.arrays())
    return caches


def _random(like: mx.array, rows: int) -> mx.array:
    batch, heads, _, size = like.shape
    made = mx.random.normal((batch, heads, rows, size), key=mx.random.key(size))
    return made.astype(like.dtype)


def rows_differ(kernels: Kernels, where: str) -> Reason:
    """Why numerics are not exact; names what has no kernel of ours, where others have one."""
    stock = [
        kernel.words
        for name, kernel in KERNELS.items()
        if kernel.is_exact and kernels.why_unused(name)
    ]
    told = f" Stock MLX runs its {' and '.join(stock)}." if stock and kernels.launcher else ""
    return Reason("rows-differ", f"{ROWS_DIFFER} (Seen {where}.){told}")


def with_head_check(model: LoadedModel, description: ModelDescription) -> ModelDescription:
    """The description, with a reason when the MTP heads do not fit; reads the heads."""
    fit = measure_fit(model.adapter, model.tokenizer.encode(TEXT, add_special=True))
    reason = misfit(fit, model.head_origin)
    if reason is None:
        return description
    return replace(description, declined=(*description.declined, reason))


class HeadFit(NamedTuple):
    """Rows where the model was sure, and those of them where the head agreed."""

    judged: int
    agreed: int

    @property
    def share(self) -> float:
        """Agreed of judged, 0 where nothing could be judged."""
        return self.agreed / self.judged if self.judged else 0.0

    @property
    def is_implausible(self) -> bool:
        """Whether a head that fits would hardly ever do so badly."""
        return self.judged >= FEWEST and self.share < IMPLAUSIBLE


def measure_fit(adapter: Adapter, tokens: Sequence[int]) -> HeadFit:
    """Compare the first head's choices with the model's on at most MOST_TOKENS of these tokens."""
    read = mx.array([list(tokens)[:MOST_TOKENS]])
    hidden = adapter.forward(read, adapter.make_caches())
    states = adapter.mtp_forward(read[:, 1:], hidden[:, :-1], adapter.make_head_caches())
    said = by_rows(adapter.logits, hidden[:, 1 + FIRST_ROWS :])
    drafted = by_rows(adapter.mtp_logits, states[:, FIRST_ROWS:])
    judged, agreed = 0, 0
    for model, head in zip(said, drafted, strict=True):
        sure = np.array(mx.softmax(model, axis=-1).max(axis=-1) >= SURE)
        agrees = np.array(mx.argmax(head, axis=-1) == mx.argmax(model, axis=-1))
        judged += int(sure.sum())
        agreed += int((sure & agrees).sum())
    return HeadFit(judged, agreed)


def misfit(fit: HeadFit, origin: str) -> Reason | None:
    """What to tell the user of a head that does not fit; origin: where it comes from."""
    if not fit.is_implausible:
        return None
    return Reason(
        "heads-implausible",
        f"The MTP heads of {origin} seem not to fit this model: in a test text they foresaw "
        f"{fit.agreed} of {fit.judged} tokens the model was sure of. Usual causes: heads of "
        "another model or of another training of it; norm weights stored with or without 1 added; "
        "heads made for the hidden state at another place. Text stays right, but drafting will "
        "not pay.",
    )
