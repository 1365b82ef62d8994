"""What keys and values in 8 and 4 bits cost: logits and acceptance against those of 16 bits."""

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mlx_engine.bench.report import CacheRow, Plan
from mlx_engine.bench.subject import PLAIN, SEED, pinned
from mlx_engine.engine import Engine
from mlx_engine.values.options import CacheBits, CacheOptions, SamplingOptions

DEPTH = 3
SAMPLED = SamplingOptions(temperature=0.8, seed=SEED)


def measure_formats(
    engine: Engine, prompts: Sequence[Sequence[int]], plan: Plan
) -> tuple[CacheRow, ...]:
    """Logits by teacher forcing along the model's own text in 16 bits; acceptance by playing."""
    texts = [engine.generate(one, plan.acceptance_tokens, SAMPLED, PLAIN).tokens for one in prompts]
    along = [[*prompt, *text] for prompt, text in zip(prompts, texts, strict=True)]
    truth = [engine.logits(tokens) for tokens in along]
    formats: tuple[CacheBits, ...] = get_args(CacheBits)
    return tuple(_row(engine, prompts, along, truth, plan, bits) for bits in formats)


def _row(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    along: Sequence[Sequence[int]],
    truth: Sequence[NDArray[np.float32]],
    plan: Plan,
    bits: CacheBits,
) -> CacheRow:
    cache = CacheOptions(bits, bits)
    found = [engine.logits(tokens, cache) for tokens in along]
    pairs = list(zip(truth, found, strict=True))
    apart = np.concatenate([np.abs(one - other).max(-1) for one, other in pairs])
    kl = np.concatenate([divergence(one, other) for one, other in pairs])
    same = np.concatenate([one.argmax(-1) == other.argmax(-1) for one, other in pairs])
    limit, drafted, accepted, is_same = plan.acceptance_tokens, 0, 0, True
    for prompt in prompts:
        plain = engine.generate(prompt, limit, SAMPLED, PLAIN, cache=cache)
        made = engine.generate(prompt, limit, SAMPLED, pinned(DEPTH), cache=cache)
        drafted, accepted = drafted + made.stats.drafted, accepted + made.stats.accepted
        is_same = is_same and made.tokens == plain.tokens
    return CacheRow(
        bits=bits,
        bytes_per_token=engine.description.cache_bytes(cache),
        difference=float(apart.mean()),
        divergence=float(kl.mean()),
        likeliest=float(same.mean()),
        accepted=accepted / drafted if drafted else None,
        is_same=is_same,
    )


def divergence(truth: NDArray[np.float32], found: NDArray[np.float32]) -> NDArray[np.float64]:
    """Kullback and Leibler's, of rows of logits [T, V], in nats, [T]."""
    one, other = (_log_probabilities(logits) for logits in (truth, found))
    rows: NDArray[np.float64] = (np.exp(one) * (one - other)).sum(-1)
    return rows


def _log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    rows: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return rows
