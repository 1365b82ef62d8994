"""One pass of the target: rows of one conversation, or of several, and the tokens it picks.

Of several the rows lie one after the other: weights and output head are read once for all, each
attends to its own memory (cache/joint.py), and none of a row's numbers depend on those beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import apart, joint_caches
from mlx_engine.drafting.contract import DraftSource
from mlx_engine.models.contract import Begin, Model, lazily
from mlx_engine.sampling.sampler import Sampler


@dataclass(slots=True)
class State:
    """What a round goes on from, after the tokens that caches and source have read.

    model: as the source wants it run. last: the newest token, which nothing has read yet, int32
    [1]; it may still be on its way.
    """

    model: Model
    caches: LayerCaches
    source: DraftSource
    sampler: Sampler
    last: mx.array

    @property
    def can_pend(self) -> bool:
        """Whether it can stand after rows of which only the device knows how many there are: its
        layers are ours, as those that read several conversations in one pass.
        """
        return self.model.joint is not None and self.source.can_pend

    def commit(self, rows: int, found: "Verified") -> None:
        """Append the first rows of the last pass."""
        kept = found.first(rows)
        self.caches.commit(rows)
        self.source.observe(kept.tokens, kept.hidden)
        self.sampler.commit(kept.picked)
        self.last = kept.picked[-1:]

    def follow(self, found: "Verified", accepted: mx.array) -> RowCount:
        """Append the accepted drafts of the last pass and the row before them, where `can_pend`;
        accepted: int32 [1].

        `resolve` has to follow before the next commit.
        """
        count = RowCount(accepted + 1, found.picked.shape[0])
        self.caches.commit(count)
        self.source.pend(found.picked, found.hidden, count)
        self.sampler.pend(found.picked, count.rows)
        self.last = mx.take(found.picked, accepted)
        return count

    def resolve(self, count: RowCount, rows: int) -> None:
        """The host knows how many rows were appended: as many as the device counted, or fewer where
        nothing goes on from them; none to roll back.
        """
        count.known = rows
        self.source.settle(rows)
        self.sampler.settle()


class Asked(NamedTuple):
    """Asked of a pass: the newest token of a state and k drafted ones after it, int32 [k].

    position: of the token that the first row picks.
    """

    state: State
    drafted: mx.array
    position: int

    @property
    def tokens(self) -> mx.array:
        """int32 [k + 1]."""
        drafted = self.drafted
        return mx.concatenate([self.state.last, drafted]) if drafted.size else self.state.last

    @property
    def rows(self) -> int:
        """k + 1."""
        return 1 + int(self.drafted.shape[0])


class Verified(NamedTuple):
    """What a pass makes of rows; lazy.

    Row i follows i drafted tokens. tokens: of the rows, int32 [k + 1]; picked: the target's, those
    after them, -1 where a logit of the row is not finite; hidden: [1, k + 1, H].
    """

    tokens: mx.array
    picked: mx.array
    hidden: mx.array

    def first(self, rows: int) -> "Verified":
        """Of the first rows only: all there are, in a round without a draft."""
        if rows == len(self.picked):
            return self
        return Verified(self.tokens[:rows], self.picked[:rows], self.hidden[:, :rows])


def verify(asked: Sequence[Asked], begin: Begin = lazily) -> list[Verified]:
    """Run the rows as one block; the caller decides how many of each the caches keep.

    Where there are several conversations, their states have one model, which has joint passes.
    """
    tokens, counts = [one.tokens for one in asked], [one.rows for one in asked]
    model = asked[0].state.model
    if len(asked) == 1:
        hidden = [model.forward(tokens[0][None], asked[0].state.caches, begin=begin)]
    else:
        assert model.joint is not None
        caches = joint_caches([one.state.caches for one in asked], counts)
        states = model.joint(mx.concatenate(tokens)[None], caches, begin=begin)
        hidden = apart(states, counts, axis=1)
    picked: dict[int, mx.array] = {}
    ways = [_way(one, its) for one, its in zip(asked, hidden, strict=True)]
    for way in dict.fromkeys(ways):
        those = [number for number, its in enumerate(ways) if its == way]
        pick = _from_logits if way is None else _by_kernel
        made = pick(model, [asked[number] for number in those], [hidden[n] for n in those])
        picked.update(zip(those, made, strict=True))
    return [
        Verified(its, picked[number], states)
        for number, (its, states) in enumerate(zip(tokens, hidden, strict=True))
    ]


class _Way(NamedTuple):
    """How a kernel picks tokens without logits; rows that differ in nothing else go together."""

    is_drawn: bool
    temperature: float


def _way(one: Asked, hidden: mx.array) -> _Way | None:
    """None where options, model or kernel want logits; that depends on nobody else's rows."""
    model = one.state.model
    if model.output_rows is None or not model.output_rows.takes(hidden[..., : model.hidden_size]):
        return None
    how = one.state.sampler.choosing(one.position, one.rows)
    return None if how is None else _Way(how.keys is not None, how.temperature)


def _from_logits(
    model: Model, asked: Sequence[Asked], hidden: Sequence[mx.array]
) -> list[mx.array]:
    logits = model.logits(_joined(hidden, axis=1)).squeeze(0)
    parts = apart(logits, [one.rows for one in asked], axis=0)
    made = []
    for one, its in zip(asked, parts, strict=True):
        sampler = one.state.sampler
        picked = sampler.pick(its, one.position, one.drafted)
        made.append(sampler.marked(its, picked))
    return made


def _by_kernel(model: Model, asked: Sequence[Asked], hidden: Sequence[mx.array]) -> list[mx.array]:
    """The kernel picks -1 where a logit is not finite."""
    assert model.output_rows is not None
    hows = [one.state.sampler.choosing(one.position, one.rows) for one in asked]
    first, keys = hows[0], [how.keys for how in hows if how is not None and how.keys is not None]
    assert first is not None
    how = first._replace(keys=_joined(keys, axis=0)) if keys else first
    states = _joined(hidden, axis=1)[..., : model.hidden_size]
    return apart(model.output_rows.pick(states, how), [one.rows for one in asked], axis=0)


def _joined(parts: Sequence[mx.array], axis: int) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(list(parts), axis=axis)
