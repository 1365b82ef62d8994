"""The tokens of one conversation, and everything on the device that follows them."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches
from mlx_engine.decoding.device_memory import clear_by_tokens
from mlx_engine.drafting.contract import DraftSource, NoDraft, SourceSnapshot
from mlx_engine.models.contract import Model
from mlx_engine.values.model_description import CHECKPOINTS
from mlx_engine.values.options import AS_THEY_COME, CacheOptions


class Checkpoint(NamedTuple):
    """A place to go back to: the trunk's caches and the draft source after `length` tokens.

    source: None where another source was there; the present one is then told the tokens anew.
    """

    length: int
    caches: CachesSnapshot
    source: SourceSnapshot | None


class TokenSequence:
    """Tokens read by the model, in order; caches and draft source stand after exactly these.

    The newest token of a conversation has been emitted but not read: it is the caller's. model:
    the model as the source wants it run. cache: in how many bits keys and values are kept.
    """

    def __init__(
        self,
        plain: Model,
        source: DraftSource | None = None,
        cache: CacheOptions = AS_THEY_COME,
    ) -> None:
        self._plain = plain
        self.cache = cache
        self._begin(source or NoDraft())

    def _begin(self, source: DraftSource) -> None:
        self.source = source
        self.model = source.target or self._plain
        self.caches = self.model.make_caches(self.cache.bits)
        self.tokens: list[int] = []
        self._checkpoints: list[Checkpoint] = []
        self._start = self._here()

    def forget(self) -> None:
        """Drop everything, as after an error."""
        self._begin(NoDraft())
        mx.clear_cache()

    def use(self, source: DraftSource) -> None:
        """Another source, new, from here on; one that reads hidden states has to begin anew.

        One that runs a model over the tokens has to `catch_up` before it drafts.
        """
        if source.reads_hidden:
            self._begin(source)
            return
        self.source = source
        self.model = self._plain
        self._start = self._start._replace(source=source.snapshot())
        self._checkpoints = [place._replace(source=None) for place in self._checkpoints]
        if not source.runs_a_model:
            self.catch_up()

    @property
    def followed(self) -> int:
        """How many of the tokens the source knows: not all, while one that is new has to read."""
        return self.source.length

    def catch_up(self, most: int | None = None) -> None:
        """Tell the source of tokens it has missed, at most so many."""
        missed = self.tokens[self.followed :][:most]
        if missed:
            unused = mx.zeros((1, len(missed), 0))
            self.source.observe(mx.array(missed, dtype=mx.int32), unused)
            mx.eval(self.source.arrays())

    def commit(self, tokens: Sequence[int], hidden: mx.array) -> None:
        """Keep the first len(tokens) rows of the last pass; hidden [1, rows or more, H]."""
        count = len(tokens)
        self.catch_up()
        self.caches.keep(count)
        self.source.observe(mx.array(list(tokens), dtype=mx.int32), hidden[:, :count])
        self.stand(tokens, self.caches, self.source)

    def stand(self, tokens: Sequence[int], caches: LayerCaches, source: DraftSource) -> None:
        """These have been read too, and this is what stands after them."""
        self.caches, self.source = caches, source
        self.tokens.extend(tokens)
        clear_by_tokens(len(self.tokens) - len(tokens), len(self.tokens))

    def _here(self) -> Checkpoint:
        return Checkpoint(len(self.tokens), self.caches.snapshot(), self.source.snapshot())

    def mark(self) -> None:
        """Make a checkpoint; not between a draft and its round."""
        others = [place for place in self._checkpoints if place.length != len(self.tokens)]
        self._checkpoints = [*others[-(CHECKPOINTS - 1) :], self._here()]
        self.settle()

    def settle(self) -> None:
        """Compute what is still lazy, so that no graph outlives its round."""
        mx.eval(self.caches.arrays(), self.source.arrays())

    def reuse(self, prompt: Sequence[int]) -> int:
        """Go to the longest stored prefix of `prompt`, leaving a token to read; its length."""
        common = _shared_prefix(self.tokens, prompt[:-1])
        if common == len(self.tokens):
            return common
        fitting = [place for place in self._checkpoints if place.length <= common]
        place = max(fitting, key=lambda fit: fit.length, default=self._start)
        self.caches.restore(place.caches)
        del self.tokens[place.length :]
        if place.source is not None:
            self.source.restore(place.source)
        elif self._start.source is not None:
            self.source.restore(self._start.source)
            if not self.source.runs_a_model:
                self.catch_up()
        self._checkpoints = [kept for kept in self._checkpoints if kept.length <= place.length]
        return place.length

    @property
    def nbytes(self) -> int:
        """Bytes of caches, draft source and checkpoints."""
        held = sum(place.caches.nbytes for place in self._checkpoints)
        held += sum(place.source.nbytes for place in self._checkpoints if place.source is not None)
        return self.caches.nbytes + self.source.nbytes + held


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
