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
        self._unsaved: dict[TokenSequence, int] = {}
        self._ways = WeakKeyDictionary[TokenSequence, str]()
        self._model = model
        self._known: list[TokenSequence] = []  # least recently used first
        self._owners = WeakKeyDictionary[TokenSequence, ReferenceType[object]]()

    def sequence(
        self,
        owner: object | None = None,
        cache: CacheOptions = AS_THEY_COME,
        chat: str | None = None,
    ) -> TokenSequence:
        """A new conversation; owner: who can go on with it, None where only others will. chat: what
        its files are known by.
        """
        made = TokenSequence(self._model, cache=cache, beside=self, chat=chat)
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
        if self._is_in_files(to, wanted, max(far, own) + WORTH_A_COPY):
            return
        if best is to or far < own + WORTH_A_COPY:
            self._note_way(to, to)
            return
        to.branch(best, wanted)
        self._note_way(to, best)
        if self._is_free(best) and len(best.tokens) == len(to.tokens):
            self._known.remove(best)

    def left(self, sequence: TokenSequence) -> None:
        """An answer has ended: make room."""
        if self.files is not None and any(one is sequence for one in self._known):
            self._note_way(sequence, sequence)
            self._unsaved[sequence] = len(sequence.tokens)
        while self.nbytes > self.most_bytes:
            idle = [one for one in self._known if not one.is_busy]
            if not idle or (idle[0] is self._known[-1] and self.most_bytes):
                return
            self.drop(idle[0])

    def goes_on(self, sequence: TokenSequence, count: int) -> None:
        """The next question to a conversation that is to be saved begins with so many tokens."""
        if sequence in self._unsaved:
            self._unsaved[sequence] = count

    def save(self) -> None:
        """Put away what answers have read since the last time, where files are kept and the same
        has computed all of it.
        """
        unsaved, self._unsaved = self._unsaved, {}
        for one, count in unsaved.items():
            if self.files is not None and not one.is_busy and self._ways[one] == self.files.way:
                self.files.save(one, count)

    def _is_in_files(self, to: TokenSequence, wanted: Sequence[int], beyond: int) -> bool:
        """Whether it stands now where a file does, so many tokens on at least."""
        if self.files is None or not self.files.fill(to, wanted, beyond):
            return False
        self._ways[to] = self.files.way
        return True

    def _note_way(self, to: TokenSequence, begun: TokenSequence) -> None:
        """What computes its rows from here on has computed those before, or they are of no use to
        files; begun: whose they are.
        """
        if self.files is not None:
            now = self.files.way
            is_one = not to.tokens or self._ways.get(begun, now) == now
            self._ways[to] = now if is_one else ""

    def drop(self, one: TokenSequence) -> None:
        """Let go what one has read; while its answer runs, as soon as its owner does."""
        self._known = [other for other in self._known if other is not one]
        self._unsaved.pop(one, None)
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
