"""What the sampler should do, written slowly from its contract in float64, one row at a time."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mlx_engine.values.options import SamplingOptions

Row = NDArray[np.float64]


def penalised_row(
    logits: Sequence[float], prompt: Sequence[int], answer: Sequence[int], options: SamplingOptions
) -> Row:
    used = Counter(answer)
    row = []
    for token, logit in enumerate(np.asarray(logits, dtype=np.float64)):
        value = float(logit)
        if token in used or token in prompt:
            penalty = options.repetition_penalty
            value = value / penalty if value > 0 else value * penalty
        if token in used:
            value -= options.presence_penalty + options.frequency_penalty * used[token]
        row.append(value + options.logit_bias.get(token, 0.0))
    return np.array(row)


def softmax(row: Row) -> Row:
    weights = np.exp(row - row.max())
    return np.asarray(weights / weights.sum())


def kept_tokens(tempered: Row, top_k: int, top_p: float, min_p: float) -> set[int]:
    shares = softmax(tempered)
    ranked = sorted(range(len(tempered)), key=lambda token: (-tempered[token], token))
    highest = set(ranked[:top_k] if top_k else ranked)
    nucleus = set(ranked)
    if top_p < 1:
        nucleus, mass = set(), 0.0
        for token in ranked:
            nucleus.add(token)
            mass += shares[token]
            if mass >= top_p:
                break
    likely = {token for token in ranked if shares[token] >= min_p * shares.max()}
    return highest & nucleus & likely


def is_close_call(tempered: Row, top_p: float, min_p: float, margin: float = 1e-5) -> bool:
    """Whether float32 may rightly decide top-p or min-p otherwise than float64."""
    shares = softmax(tempered)
    mass = np.cumsum(np.sort(shares)[::-1])
    near_nucleus = top_p < 1 and np.abs(mass - top_p).min() < margin
    return bool(near_nucleus or np.abs(shares / shares.max() - min_p).min() < margin)


def picked_share(row: Row, options: SamplingOptions) -> Row:
    """The exact distribution that a penalised row is drawn from at a temperature above 0."""
    tempered = row / options.temperature
    kept = kept_tokens(tempered, options.top_k, options.top_p, options.min_p)
    shares = np.array([s if t in kept else 0.0 for t, s in enumerate(softmax(tempered))])
    return np.asarray(shares / shares.sum())
