"""Measuring side by side: runs in turn, medians, paired ratios."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from mlx_engine.bench.report import Contest

T = TypeVar("T")


def in_turn(sides: Sequence[Callable[[], T]], repeats: int) -> list[list[T]]:
    """Results by side; every other turn goes backwards, so no side is always second."""
    results: list[list[T]] = [[] for _ in sides]
    for turn in range(repeats):
        order = range(len(sides)) if turn % 2 == 0 else range(len(sides) - 1, -1, -1)
        for side in order:
            results[side].append(sides[side]())
    return results


def contest(ours: Sequence[float], theirs: Sequence[float]) -> Contest:
    """Compare results that were measured pair by pair; a pair with nothing in it does not count."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b > 0]
    return Contest(median(ours), median(theirs), median(ratios) if ratios else 0.0)


def shares(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float, ...]:
    """accepted[d] / drafted[d]; `accepted` may be shorter."""
    padded = [*accepted, *([0] * (len(drafted) - len(accepted)))]
    return tuple(won / tried for won, tried in zip(padded, drafted, strict=True))
