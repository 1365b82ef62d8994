"""What an engine's conversations have read, for any of them to go on from; bounded in bytes."""

from collections.abc import Sequence
from weakref import ReferenceType, WeakKeyDictionary, ref

from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.models.contract import Model
from mlx_engine.values.options import AS_THEY_COME, CacheOptions

WORTH_A_COPY = 16
"""Tokens another conversation must have read beyond one's own to be branched off."""


class PromptCache:
    """All conversations with anything read, each of which another may branch off.

    Beginnings are shared copy on write: MLX never changes an array that somebody else holds, so
    the first to write after a branch copies what it keeps, once. A conversation that nobody owns
    any more, and all of which another goes on from, is let go before that writes: nothing is
    copied then. Beyond `most_bytes` the least recently used are dropped, whoever owns them; they
    are read again when they go on. The newest stays whatever its size; with a bound of 0 nothing
    stays, and nothing is shared.
    """

    def __init__(self, model: Model, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._model = model
        self._known: list[TokenSequence] = []  # least recently used first
        self._owners = WeakKeyDictionary[TokenSequence, ReferenceType[object]]()

    def sequence(
        self, owner: object | None = None, cache: CacheOptions = AS_THEY_COME
    ) -> TokenSequence:
        """A new conversation; owner: who can go on with it, None where only others will."""
        made = TokenSequence(self._model, cache=cache, beside=self)
        if owner is not None:
            self._owners[made] = ref(owner)
        return made

    def lend(self, to: TokenSequence, wanted: Sequence[int]) -> None:
        """Have it branch off the one that has read most of these tokens, if that is worth it."""
        others = [other for other in self._known if other is not to]
        self._known = [*others, to]
        if self.most_bytes == 0:
            return
        reached = {other: other.reach(wanted) for other in others if to.can_branch(other)}
        best = max(reached, key=reached.__getitem__, default=to)
        if best is to or reached[best] < to.reach(wanted) + WORTH_A_COPY:
            return
        to.branch(best, wanted)
        if self._is_free(best) and len(best.tokens) == len(to.tokens):
            self._known.remove(best)

    def left(self, sequence: TokenSequence) -> None:
        """An answer has ended: make room."""
        del sequence
        while self.nbytes > self.most_bytes:
            idle = [one for one in self._known if not one.is_busy]
            if not idle or (idle[0] is self._known[-1] and self.most_bytes):
                return
            self.drop(idle[0])

    def drop(self, one: TokenSequence) -> None:
        """Let go what one has read; while its answer runs, as soon as its owner does."""
        self._known = [other for other in self._known if other is not one]
        if not one.is_busy:
            one.shed()

    def forget(self) -> None:
        """Drop all that was read but for answers that run."""
        for one in [one for one in self._known if not one.is_busy]:
            self.drop(one)

    @property
    def nbytes(self) -> int:
        """Bytes of all conversations; a checkpoint that several share counts once."""
        places = [place for one in self._known for place in one.checkpoints]
        shared = {id(place.caches): place.nbytes for place in places}
        return sum(one.live_nbytes for one in self._known) + sum(shared.values())

    def _is_free(self, one: TokenSequence) -> bool:
        owner = self._owners.get(one)
        return not one.is_busy and (owner is None or owner() is None)
