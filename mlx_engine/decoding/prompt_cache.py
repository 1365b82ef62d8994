"""What an engine's conversations have read, for any of them to go on from; bounded in bytes."""

from collections.abc import Sequence
from weakref import ReferenceType, WeakKeyDictionary, ref

from mlx_engine.decoding.prompt_files import PromptFiles
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

    def __init__(self, model: Model, most_bytes: int, files: PromptFiles | None = None) -> None:
        """files: where to put away what is read, too."""
        self.most_bytes = most_bytes
        self.files = files
        self._unsaved: list[TokenSequence] = []
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
        far, own = reached.get(best, 0), to.reach(wanted)
        if self.files is not None:
            in_files = self.files.longest(to, wanted)
            if in_files >= max(far, own) + WORTH_A_COPY and self.files.fill(to, wanted):
                return
        if best is to or far < own + WORTH_A_COPY:
            return
        to.branch(best, wanted)
        if self._is_free(best) and len(best.tokens) == len(to.tokens):
            self._known.remove(best)

    def left(self, sequence: TokenSequence) -> None:
        """An answer has ended: make room."""
        if self.files is not None:
            self._unsaved = [*(one for one in self._unsaved if one is not sequence), sequence]
        while self.nbytes > self.most_bytes:
            idle = [one for one in self._known if not one.is_busy]
            if not idle or (idle[0] is self._known[-1] and self.most_bytes):
                return
            self.drop(idle[0])

    def save(self) -> None:
        """Put away what answers have read since the last time, where files are kept."""
        unsaved, self._unsaved = self._unsaved, []
        for one in unsaved:
            if self.files is not None and not one.is_busy:
                self.files.save(one)

    def drop(self, one: TokenSequence) -> None:
        """Let go what one has read; while its answer runs, as soon as its owner does."""
        self._known = [other for other in self._known if other is not one]
        self._unsaved = [other for other in self._unsaved if other is not one]
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
