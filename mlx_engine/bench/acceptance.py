"""How far the rules that make drafts come to the bound of rejection sampling."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.filtered_pick import temper
from mlx_engine.bench.report import AcceptanceReport, Plan
from mlx_engine.bench.rows import shares
from mlx_engine.bench.subject import PLAIN, SEED, play
from mlx_engine.engine import Engine
from mlx_engine.sampling.position_noise import gumbel_noise
from mlx_engine.values.options import DraftOptions, DraftRule, SamplingOptions
from mlx_engine.values.stats import count_by_depth

SAMPLED = 0.8
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
    """First drafts by teacher forcing, along the target's own text; chains by playing."""
    sampling = SamplingOptions(temperature=SAMPLED, seed=SEED)
    limit = plan.acceptance_tokens
    texts = [engine.generate(prompt, limit, sampling, PLAIN).tokens for prompt in prompts]
    total = _sum(
        first_draft_chances(engine, prompt, text, plan.acceptance_draws)
        for prompt, text in zip(prompts, texts, strict=True)
    )
    many = max(total.positions, 1)
    return AcceptanceReport(
        temperature=SAMPLED,
        positions=total.positions,
        draws=plan.acceptance_draws,
        bound=total.bound / many,
        shared_noise=total.shared_noise / many,
        greedy=total.greedy / many,
        independent=total.independent / many,
        played_shared_noise=_played(engine, prompts, plan, sampling, "shared-noise"),
        played_greedy=_played(engine, prompts, plan, sampling, "greedy"),
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
    wanted, guessed = (temper(logits, SAMPLED) for logits in (target, head))
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
    sampling: SamplingOptions,
    rule: DraftRule,
) -> tuple[float, ...]:
    draft = DraftOptions(depth=PLAYED_DEPTH, rule=rule)
    runs = [
        play(engine, prompt, plan.acceptance_tokens, sampling, draft, ignore_eos=False)
        for prompt in prompts
    ]
    rounds = [r for run in runs for r in run.rounds]
    return shares(
        count_by_depth(r.accepted for r in rounds), count_by_depth(r.drafted for r in rounds)
    )
