"""How far the rules of drafts come to the bound of rejection sampling, and what packed keys cost.

Both by teacher forcing along the model's own text, for logits, and by playing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.filtered_pick import temper
from mlx_engine.bench.report import AcceptanceReport, CacheRow, Plan
from mlx_engine.bench.rows import shares
from mlx_engine.bench.subject import PLAIN, SEED, asked, pinned, play
from mlx_engine.engine import Engine
from mlx_engine.sampling.position_noise import gumbel_noise
from mlx_engine.values.options import (
    CacheBits,
    CacheOptions,
    DraftOptions,
    DraftRule,
    SamplingOptions,
)
from mlx_engine.values.stats import count_by_depth

HOT = SamplingOptions(temperature=0.8, seed=SEED)
PLAYED_DEPTH = 3
ROWS = 32
"""Positions looked at together; a large vocabulary makes rows of a megabyte."""


class Chances(NamedTuple):
    """Sums over positions (see AcceptanceReport)."""

    positions: int = 0
    bound: float = 0.0
    shared_noise: float = 0.0
    greedy: float = 0.0
    independent: float = 0.0


def _sum(found: Iterable[Chances]) -> Chances:
    return Chances(*(sum(parts) for parts in zip(*found, strict=True)))


def measure_acceptance(
    engine: Engine, prompts: Sequence[Sequence[int]], plan: Plan
) -> AcceptanceReport:
    """First drafts by teacher forcing, chains by playing."""
    limit = plan.acceptance_tokens
    texts = [engine.generate(prompt, limit, HOT, PLAIN).tokens for prompt in prompts]
    total = _sum(
        first_draft_chances(engine, prompt, text, plan.acceptance_draws)
        for prompt, text in zip(prompts, texts, strict=True)
    )
    many = max(total.positions, 1)
    return AcceptanceReport(
        temperature=HOT.temperature,
        positions=total.positions,
        draws=plan.acceptance_draws,
        bound=total.bound / many,
        shared_noise=total.shared_noise / many,
        greedy=total.greedy / many,
        independent=total.independent / many,
        played_shared_noise=_played(engine, prompts, plan, "shared-noise"),
        played_greedy=_played(engine, prompts, plan, "greedy"),
    )


def first_draft_chances(
    engine: Engine, prompt: Sequence[int], text: Sequence[int], draws: int
) -> Chances:
    """For every token of `text` after the first: target row t + 1 against head row t."""
    tokens = [*prompt, *text]
    if len(text) < 2:
        return Chances()
    first = len(prompt) - 1  # the head's row for text[1], from the prompt's last state and text[0]
    target = mx.array(engine.logits(tokens)[first + 1 : -1])
    head = mx.array(engine.draft_logits(tokens)[0][first:-1])
    positions = range(first + 2, first + 2 + target.shape[0])
    return _sum(
        chances(target[some], head[some], positions[some], draws)
        for some in (slice(start, start + ROWS) for start in range(0, target.shape[0], ROWS))
    )


def chances(target: mx.array, head: mx.array, positions: Sequence[int], draws: int) -> Chances:
    """Sums over rows of logits [R, V]; `positions` name the noise of each row."""
    wanted, guessed = (temper(logits, HOT.temperature) for logits in (target, head))
    p, q = (mx.softmax(logits, axis=-1) for logits in (wanted, guessed))
    likeliest = mx.argmax(head, axis=-1, keepdims=True)
    same = mx.array(0.0)
    for seed in range(draws):
        noise = gumbel_noise(seed, positions, target.shape[1])
        picks = (mx.argmax(logits + noise, axis=-1) for logits in (wanted, guessed))
        same = same + mx.sum(next(picks) == next(picks)) / draws
        mx.eval(same)
    return Chances(
        positions=len(positions),
        bound=float(mx.sum(mx.minimum(p, q))),
        shared_noise=float(same),
        greedy=float(mx.sum(mx.take_along_axis(p, likeliest, axis=-1))),
        independent=float(mx.sum(p * q)),
    )


def _played(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    rule: DraftRule,
) -> tuple[float, ...]:
    draft = DraftOptions(depth=PLAYED_DEPTH, rule=rule)
    settings = asked(HOT, draft, plan.acceptance_tokens, ignore_eos=False)
    runs = [play(engine, prompt, settings) for prompt in prompts]
    rounds = [r for run in runs for r in run.rounds]
    return shares(
        count_by_depth(r.accepted for r in rounds), count_by_depth(r.drafted for r in rounds)
    )


def measure_formats(
    engine: Engine, prompts: Sequence[Sequence[int]], plan: Plan
) -> tuple[CacheRow, ...]:
    """Of 16, 8 and 4 bits, against the logits of 16."""
    texts = [engine.generate(one, plan.acceptance_tokens, HOT, PLAIN).tokens for one in prompts]
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
        plain = engine.generate(prompt, limit, HOT, PLAIN, cache=cache)
        made = engine.generate(prompt, limit, HOT, pinned(PLAYED_DEPTH), cache=cache)
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
