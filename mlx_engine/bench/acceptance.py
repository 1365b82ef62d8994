"""How far drafting rules come to the bound of rejection sampling, along the target's own text."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.bench.drafting import play, shares
from mlx_engine.bench.report import AcceptanceReport, Plan
from mlx_engine.bench.subject import PLAIN, SEED, chat_prompts
from mlx_engine.engine import Engine
from mlx_engine.sampling.logit_filters import filter_tempered, temper
from mlx_engine.sampling.position_noise import gumbel_noise
from mlx_engine.values.options import DraftOptions, DraftRule, SamplingOptions
from mlx_engine.values.stats import count_by_depth

TEMPERATURE = 0.8
DEPTH = 3
ROWS = 32
"""Positions looked at together; a large vocabulary makes rows of a megabyte."""


class Chances(NamedTuple):
    """Sums over positions (see AcceptanceReport)."""

    positions: int
    bound: float
    shared_noise: float
    greedy: float
    independent: float


def measure_acceptance(engine: Engine, plan: Plan) -> AcceptanceReport:
    """First drafts by teacher forcing, chains by playing."""
    prompts = chat_prompts(engine, plan.acceptance_prompts)
    sampling = SamplingOptions(temperature=TEMPERATURE, seed=SEED)
    sums = [0.0] * len(Chances._fields)
    for prompt in prompts:
        text = engine.generate(prompt, plan.draft_tokens, sampling, PLAIN).tokens
        found = first_draft_chances(engine, prompt, text, plan.acceptance_draws)
        sums = [a + b for a, b in zip(sums, found, strict=True)]
    total = Chances(int(sums[0]), *sums[1:])
    many = max(total.positions, 1)
    return AcceptanceReport(
        temperature=TEMPERATURE,
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
        return Chances(0, 0.0, 0.0, 0.0, 0.0)
    first = len(prompt) - 1  # the head's row for text[1], from the prompt's last state and text[0]
    target = mx.array(engine.logits(tokens)[first + 1 : -1])
    head = mx.array(engine.draft_logits(tokens)[0][first:-1])
    sums = [0.0] * len(Chances._fields)
    for start in range(0, target.shape[0], ROWS):
        end = min(start + ROWS, target.shape[0])
        positions = range(first + 2 + start, first + 2 + end)
        found = chances(target[start:end], head[start:end], positions, draws)
        sums = [a + b for a, b in zip(sums, found, strict=True)]
    return Chances(int(sums[0]), *sums[1:])


def chances(target: mx.array, head: mx.array, positions: Sequence[int], draws: int) -> Chances:
    """Sums over rows of logits [R, V]; `positions` name the noise of each row."""
    wanted, guessed = (filter_tempered(temper(logits, TEMPERATURE)) for logits in (target, head))
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
    draft = DraftOptions(depth=DEPTH, rule=rule)
    rounds = [
        played
        for prompt in prompts
        for played in play(engine, prompt, plan.draft_tokens, sampling, draft).rounds
    ]
    drafted = count_by_depth(r.drafted for r in rounds)
    return shares(count_by_depth(r.accepted for r in rounds), drafted)
