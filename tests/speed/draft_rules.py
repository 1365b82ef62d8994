"""Probability that a first draft is accepted, by draft rule, against rejection sampling's bound.

    PYTHONPATH=. python tests/speed/draft_rules.py [MODEL] [--prompts 6] [--tokens 96] [--draws 16]

By teacher forcing along the model's own text at temperature 0.8. Without MODEL the built-in one.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import mlx.core as mx

import mlx_engine
from metal_kernels.filtered_pick import apply_temperature
from mlx_engine.bench.arms import questions
from mlx_engine.engine import Engine
from mlx_engine.sampling.position_noise import gumbel_noise
from mlx_engine.values.options import DraftOptions, SamplingOptions

HOT = SamplingOptions(temperature=0.8, seed=1)
ROWS = 32
"""Positions compared at once; a row of a large vocabulary takes a megabyte."""


class Chances(NamedTuple):
    """Sums over positions.

    bound: 1 - total variation distance, reached by rejection sampling and exceeded by no rule.
    shared_noise: over `draws` seeds a position. greedy: the head's likeliest token. independent:
    two independent draws.
    """

    positions: int = 0
    bound: float = 0.0
    shared_noise: float = 0.0
    greedy: float = 0.0
    independent: float = 0.0


def _sum(found: Iterable[Chances]) -> Chances:
    return Chances(*(sum(parts) for parts in zip(*found, strict=True)))


def _first_drafts(
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
        chances(target[rows], head[rows], positions[rows], draws)
        for rows in (slice(start, start + ROWS) for start in range(0, target.shape[0], ROWS))
    )


def chances(target: mx.array, head: mx.array, positions: Sequence[int], draws: int) -> Chances:
    """Sums over rows of logits [R, V]; `positions` key the noise of each row."""
    wanted, guessed = (apply_temperature(logits, HOT.temperature) for logits in (target, head))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--prompts", type=int, default=6, help="the shortest so many of nine")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--draws", type=int, default=16)
    given = parser.parse_args()
    with mlx_engine.load(given.model) as engine:
        every = (question.tokens for question in questions(engine))
        prompts = sorted(every, key=len)[: given.prompts]
        texts = [
            engine.generate(one, given.tokens, HOT, DraftOptions("none")).tokens for one in prompts
        ]
        total = _sum(
            _first_drafts(engine, prompt, text, given.draws)
            for prompt, text in zip(prompts, texts, strict=True)
        )
    print(f"{total.positions} positions, temperature {HOT.temperature:g}")
    for name, share in list(total._asdict().items())[1:]:
        print(f"{name:<14}{share / max(total.positions, 1):.3f}")


if __name__ == "__main__":
    main()
