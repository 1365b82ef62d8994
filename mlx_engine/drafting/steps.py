"""Drafts written down step by step, so that those of several conversations go on at the same time.

A draft is a generator: it yields a pass that it needs, of a head or of an output head, and is sent
what comes of it. Passes over the same weights that several drafts ask for at the same time are made
as one: the weights are read once, each conversation's rows see its own memory (cache/joint.py), and
none of a row's numbers depend on those beside it.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import apart, joint_caches
from mlx_engine.models.contract import Begin, lazily


class Step(NamedTuple):
    """Rows [1, T, ...] that go through weights, with the caches they see, and come out [1, T, ...].

    alone(*rows, caches), or without caches where there are none. joint: the same of several
    conversations' rows, one after the other, with JointCaches; equal ones are one pass. None where
    each conversation needs its own.
    """

    rows: tuple[mx.array, ...]
    alone: Callable[..., mx.array]
    joint: Callable[..., mx.array] | None
    caches: LayerCaches | None = None


Made = TypeVar("Made")
Steps = Generator[Step, mx.array, Made]
"""Yields passes, is sent their rows, and ends with what it makes."""


def take(every: Sequence[Steps[Made]], begin: Begin = lazily) -> list[Made]:
    """All to their ends."""
    ended: dict[int, Made] = {}
    ready: dict[int, Callable[[], Step]] = {n: its.__next__ for n, its in enumerate(every)}
    while ready:
        asked: dict[int, Step] = {}
        for number, go_on in ready.items():
            try:
                asked[number] = go_on()
            except StopIteration as end:
                ended[number] = end.value
        ready = {}
        for numbers in _alike(asked):
            found = _made([asked[number] for number in numbers])
            for number, rows in zip(numbers, found, strict=True):
                begin(rows)
                ready[number] = partial(every[number].send, rows)
    return [ended[number] for number in range(len(every))]


def take_one(its: Steps[Made]) -> Made:
    """To its end, by itself."""
    return take([its])[0]


def _alike(asked: dict[int, Step]) -> list[list[int]]:
    """Whose steps go together."""
    groups: dict[object, list[int]] = {}
    for number, step in asked.items():
        shapes = [(part.dtype, *part.shape[2:]) for part in step.rows]
        kind = number if step.joint is None else (step.joint, *shapes)
        groups.setdefault(kind, []).append(number)
    return list(groups.values())


def _made(steps: Sequence[Step]) -> list[mx.array]:
    first = steps[0]
    if len(steps) == 1:
        return [first.alone(*first.rows, *(() if first.caches is None else (first.caches,)))]
    assert first.joint is not None
    counts = [step.rows[0].shape[1] for step in steps]
    parts = zip(*(step.rows for step in steps), strict=True)
    rows = [mx.concatenate(list(part), axis=1) for part in parts]
    caches = [step.caches for step in steps if step.caches is not None]
    beside = (joint_caches(caches, counts),) if caches else ()
    return apart(first.joint(*rows, *beside), counts, axis=1)
