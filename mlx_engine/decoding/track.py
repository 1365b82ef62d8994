"""The tokens of one conversation, and everything on the device that stands after them."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import CachesSnapshot
from mlx_engine.drafting.contract import DraftSource, SourceSnapshot
from mlx_engine.models.contract import Adapter

MOST_BOUNDARIES = 6
"""Places a conversation can go back to; each holds one recurrent state."""


class Boundary(NamedTuple):
    """A place to go back to: trunk and draft source after `length` tokens.

    source: None where another source was there; the present one is then told the tokens anew.
    """

    length: int
    caches: CachesSnapshot
    source: SourceSnapshot | None


class Track:
    """Tokens read by the model, in order; caches and draft source stand after exactly these.

    The newest token of a conversation has been emitted but not read: it is the caller's.
    """

    def __init__(self, adapter: Adapter, source: DraftSource) -> None:
        self.adapter = adapter
        self.source = source
        self.caches = adapter.make_caches()
        self.read: list[int] = []
        self._boundaries: list[Boundary] = []
        self._start = self._here()

    def commit(self, tokens: Sequence[int], hidden: mx.array) -> None:
        """Keep the first len(tokens) rows of the last pass; hidden [1, rows or more, H]."""
        count = len(tokens)
        self.caches.keep(count)
        self.source.observe(mx.array(list(tokens), dtype=mx.int32), hidden[:, :count])
        self.read.extend(tokens)

    def follow(self, source: DraftSource, adapter: Adapter) -> None:
        """Another source from here on, new, and one that can do without hidden states.

        adapter: the same model, as this source wants it run.
        """
        self.adapter = adapter
        self._start = self._start._replace(source=source.snapshot())
        self._boundaries = [place._replace(source=None) for place in self._boundaries]
        self.source = source
        self._tell(self.read)

    def _tell(self, tokens: Sequence[int]) -> None:
        if tokens:
            unused = mx.zeros((1, len(tokens), 0))
            self.source.observe(mx.array(list(tokens), dtype=mx.int32), unused)

    def _here(self) -> Boundary:
        return Boundary(len(self.read), self.caches.snapshot(), self.source.snapshot())

    def mark(self) -> None:
        """Remember this place; not between a draft and its round."""
        others = [b for b in self._boundaries if b.length != len(self.read)]
        self._boundaries = [*others[-(MOST_BOUNDARIES - 1) :], self._here()]
        self.settle()

    def settle(self) -> None:
        """Compute what is still lazy, so that no graph outlives its round."""
        mx.eval(self.caches.arrays(), self.source.arrays())

    def reuse(self, prompt: Sequence[int]) -> int:
        """Go to the longest stored prefix of `prompt`, leaving a token to read; its length."""
        common = _shared_prefix(self.read, prompt[:-1])
        if common == len(self.read):
            return common
        fitting = [b for b in self._boundaries if b.length <= common]
        place = max(fitting, key=lambda b: b.length, default=self._start)
        self.caches.restore(place.caches)
        del self.read[place.length :]
        if place.source is not None:
            self.source.restore(place.source)
        elif self._start.source is not None:
            self.source.restore(self._start.source)
            self._tell(self.read)
        self._boundaries = [b for b in self._boundaries if b.length <= place.length]
        return place.length

    def check(self) -> None:
        """Raise AssertionError when tokens, caches and source do not stand at one place."""
        self.caches.check()
        lengths = {len(self.read), self.caches.length, self.source.length}
        assert len(lengths) == 1, f"tokens, caches and source stand at {sorted(lengths)}"

    @property
    def nbytes(self) -> int:
        """Bytes of caches, draft source and boundaries."""
        held = sum(b.caches.nbytes for b in self._boundaries)
        held += sum(b.source.nbytes for b in self._boundaries if b.source is not None)
        return self.caches.nbytes + self.source.nbytes + held


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
