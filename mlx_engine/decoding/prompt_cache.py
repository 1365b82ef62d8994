"""Prefix cache: prompts that an engine has read, shared by its conversations, bounded in bytes."""

from collections.abc import Sequence
from weakref import ReferenceType, WeakKeyDictionary, ref

from mlx_engine.cache.prompt_files import PromptFiles, SavedConversation
from mlx_engine.cache.prompt_format import CacheState
from mlx_engine.decoding.state import SequenceState
from mlx_engine.models.contract import Model
from mlx_engine.values.options import UNQUANTISED, CacheOptions

MIN_BRANCH_TOKENS = 16
"""Tokens that another conversation must have read beyond one's own to branch off it."""

CLOSING_S = 2.0
"""Seconds that closing waits for files that are still being written."""


class PromptCache:
    """All conversations that have read a prompt; a new one may branch off any of them.

    Prefixes are shared copy on write: MLX never changes an array that has another holder, so the
    first write after a branch copies. A conversation without an owner whose tokens all belong to
    the branch is dropped before that write, so nothing is copied. Beyond `most_bytes` the least
    recently used conversations are dropped; their next answer reads them again. The newest one
    stays whatever its size; with a limit of 0 nothing stays or is shared.
    """

    def __init__(self, model: Model, most_bytes: int, files: PromptFiles | None = None) -> None:
        """Make an empty prefix cache. files: saves prompts on disk; None for memory only."""
        self.most_bytes = most_bytes
        self.files = files
        self._model = model
        self._known: list[SequenceState] = []  # least recently used first
        self._owners = WeakKeyDictionary[SequenceState, ReferenceType[object]]()
        self._unsaved: dict[SequenceState, int] = {}
        self._tags = WeakKeyDictionary[SequenceState, str]()  # what computed the first rows

    def new_sequence(
        self,
        owner: object | None = None,
        cache: CacheOptions = UNQUANTISED,
        chat: str | None = None,
    ) -> SequenceState:
        """Make a new conversation. owner: object that can continue it, None if only branches will.
        chat: id of the chat in the saved files.
        """
        made = SequenceState(self._model, cache=cache, shared=self, chat=chat)
        if owner is not None:
            self._owners[made] = ref(owner)
        return made

    def reuse_prefix(self, sequence: SequenceState, prompt_tokens: Sequence[int]) -> None:
        """Fill a conversation with the read or saved prompt that has most of the wanted tokens.

        Done only if that saves MIN_BRANCH_TOKENS tokens of reading.
        """
        others = [other for other in self._known if other is not sequence]
        self._known = [*others, sequence]
        if self.most_bytes == 0:
            return
        reached = {
            other: other.reusable_length(prompt_tokens)
            for other in others
            if sequence.can_copy_prefix(other)
        }
        best = max(reached, key=reached.__getitem__, default=sequence)
        far, own = reached.get(best, 0), sequence.reusable_length(prompt_tokens)
        if own == 0:
            self._tags.pop(sequence, None)
        if self._restore_saved_prompt(sequence, prompt_tokens, max(far, own) + MIN_BRANCH_TOKENS):
            return
        if best is not sequence and far >= own + MIN_BRANCH_TOKENS:
            sequence.copy_prefix(best, prompt_tokens)
            self._tags[sequence] = self._tags.get(best, "")
            if self._is_unused(best) and len(best.tokens) == len(sequence.tokens):
                self._known.remove(best)
        elif self.files is not None:
            self._tags.setdefault(sequence, self.files.provenance_tag)

    def answer_ended(self, sequence: SequenceState) -> None:
        """Note a conversation to be saved, and drop the least recently used beyond the limit."""
        if self.files is not None and any(known is sequence for known in self._known):
            self._unsaved[sequence] = len(sequence.tokens)
        while self.nbytes > self.most_bytes:
            idle = [known for known in self._known if not known.is_busy]
            if not idle or (idle[0] is self._known[-1] and self.most_bytes):
                return
            self.drop_sequence(idle[0])

    def note_shared_prefix(self, sequence: SequenceState, count: int) -> None:
        """Note how many tokens the next prompt shares with a conversation that is to be saved."""
        if sequence in self._unsaved:
            self._unsaved[sequence] = count

    def save_prompts(self) -> None:
        """Save to disk the prompts of conversations that have had answers since the last save.

        Of each the state where the next prompt goes on is saved, and the first checkpoint, with
        which other chats may begin. While the disk is still writing, nothing is saved.
        """
        if self.files is None or self.files.is_writing or not self._unsaved:
            return
        tag, unsaved = self.files.provenance_tag, self._unsaved
        self._unsaved = {}
        self.files.save_states(
            (_saved_conversation(sequence), _states_to_save(sequence, count))
            for sequence, count in unsaved.items()
            if not sequence.is_busy and self._tags.get(sequence) == tag
        )

    def close(self) -> None:
        """Save prompts that are not saved yet, for at most CLOSING_S seconds."""
        if self.files is not None:
            self.files.wait(CLOSING_S / 2)
            self.save_prompts()
            self.files.wait(CLOSING_S / 2)

    def _restore_saved_prompt(
        self, sequence: SequenceState, prompt_tokens: Sequence[int], shortest_prefix: int
    ) -> bool:
        """Restore the longest saved prefix of a prompt; False if it is below `shortest_prefix`."""
        if self.files is None:
            return False
        found = self.files.restore(
            _saved_conversation(sequence), prompt_tokens, shortest_prefix, sequence.drop_tokens
        )
        if found is None:
            return False
        sequence.set_restored_tokens(prompt_tokens[: found.length], found.newest)
        self._tags[sequence] = self.files.provenance_tag
        return True

    def drop_sequence(self, sequence: SequenceState) -> None:
        """Drop the tokens of a conversation; during an answer they are freed with their owner."""
        self._known = [other for other in self._known if other is not sequence]
        self._unsaved.pop(sequence, None)
        if not sequence.is_busy:
            sequence.drop_tokens()

    def drop_idle_chats(self) -> None:
        """Drop the tokens of all conversations without a running answer."""
        for sequence in [known for known in self._known if not known.is_busy]:
            self.drop_sequence(sequence)

    @property
    def nbytes(self) -> int:
        """Bytes that all conversations hold; a shared checkpoint counts once."""
        places = [place for sequence in self._known for place in sequence.checkpoints]
        shared = {id(place.caches): place.nbytes for place in places}
        return sum(sequence.live_nbytes for sequence in self._known) + sum(shared.values())

    def _is_unused(self, sequence: SequenceState) -> bool:
        owner = self._owners.get(sequence)
        return not sequence.is_busy and (owner is None or owner() is None)


def _saved_conversation(sequence: SequenceState) -> SavedConversation:
    cache, source = sequence.cache, sequence.drafter
    kind = f"{cache.bits} {cache.head_bits} {type(source).__name__} {source.options.source}"
    return SavedConversation(
        kind, sequence.tokens, (sequence.caches, *source.caches), sequence.chat
    )


def _states_to_save(sequence: SequenceState, count: int) -> list[CacheState]:
    """Caches of a conversation to save: at the first checkpoint, and after `count` tokens."""
    return [
        CacheState(place.length, (place.caches, *place.drafter.caches), place.drafter.newest)
        for place in (*sequence.checkpoints[:1], sequence.snapshot_at(count))
        if place.drafter is not None
    ]
