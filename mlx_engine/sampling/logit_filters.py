"""Penalties, temperature and filters as pure functions on logits.

Logits are float32 [R, V]. Penalties and bias come first, on raw logits; then temperature; then the
filters. Each filter is judged on the full softmax of the tempered logits and what all of them keep
stays, so their order means nothing. Every filter keeps a number of the most likely tokens, equal
ones by lower token id, and at least one. Rows never look at each other: sums that a filter depends
on are sums of integers, which no order of adding can change.
"""

import mlx.core as mx

from metal_kernels.stock import MLX

_COLDEST = 1e-30  # divides any float32 logits without making 0 / 0
_WHOLE = 2.0**31  # units of probability in a softmax that sums to 1


def repetition_penalty(logits: mx.array, seen: mx.array, penalty: float) -> mx.array:
    """Divide positive and multiply negative logits of seen tokens (CTRL, Keskar et al. 2019).

    seen: bool [R, V] or [V].
    """
    penalised = mx.where(logits > 0, logits / penalty, logits * penalty)
    return mx.where(seen, penalised, logits)


def presence_and_frequency_penalty(
    logits: mx.array, counts: mx.array, presence: float, frequency: float
) -> mx.array:
    """Subtract `presence` once and `frequency` per use; counts: int32 [R, V]."""
    return logits - presence * (counts > 0) - frequency * counts


def temper(logits: mx.array, temperature: float) -> mx.array:
    """Divide by a temperature above 0; each row is shifted so that its largest logit is 0.

    The shift changes no softmax, and it keeps precision and range at very low temperatures.
    """
    largest = mx.max(logits, axis=-1, keepdims=True)
    return (logits - largest) / max(temperature, _COLDEST)


def filter_tempered(
    tempered: mx.array, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> mx.array:
    """Tempered logits with -inf for every token that a filter takes out.

    top_k 0, top_p 1 and min_p 0 are off and cost nothing. top_k keeps exactly top_k tokens. top_p
    keeps the fewest tokens that together reach top_p (nucleus, Holtzman et al. 2020). min_p keeps
    tokens at least min_p times as likely as the likeliest (Nguyen et al. 2024).
    """
    vocabulary = tempered.shape[-1]
    kept = tempered
    if 0 < top_k < vocabulary or top_p < 1:
        count = top_k if 0 < top_k < vocabulary else vocabulary
        descending = MLX.highest(tempered, count)[:, ::-1]
        kept = _keep_highest(tempered, descending, _nucleus_size(tempered, descending, top_p))
    if min_p > 0:
        likely = mx.exp(tempered) >= min_p
        kept = mx.where(likely, kept, -mx.inf)
    return kept


def _nucleus_size(tempered: mx.array, descending: mx.array, top_p: float) -> mx.array:
    """How many of the highest values reach top_p of the whole row, int32 [R, 1], at least 1."""
    rows, count = descending.shape
    if top_p >= 1:
        return mx.full((rows, 1), count, dtype=mx.int32)
    total = mx.logsumexp(tempered, axis=-1, keepdims=True)
    whole = mx.sum(_probability_units(tempered, total), axis=-1, keepdims=True)
    units = _probability_units(descending, total)
    before = mx.cumsum(units, axis=-1) - units
    needed = before.astype(mx.float32) < top_p * whole.astype(mx.float32)
    return mx.maximum(mx.sum(needed, axis=-1, keepdims=True), 1)


def _probability_units(tempered: mx.array, total: mx.array) -> mx.array:
    """Probabilities as integers, uint32: their sums are exact in any order."""
    return mx.round(mx.exp(tempered - total) * _WHOLE).astype(mx.uint32)


def _keep_highest(tempered: mx.array, descending: mx.array, size: mx.array) -> mx.array:
    """-inf for all but the `size` [R, 1] highest of each row, equal ones by lower token id."""
    threshold = mx.take_along_axis(descending, size - 1, axis=-1)
    above = tempered > threshold
    level = tempered == threshold
    room = size - mx.sum(above, axis=-1, keepdims=True)
    kept = above | (level & (mx.cumsum(level, axis=-1) <= room))
    return mx.where(kept, tempered, -mx.inf)
