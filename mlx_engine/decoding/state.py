"""The state of one conversation: its tokens, and the caches and the drafter that have read them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.cache.attention import shift_positions
from mlx_engine.cache.contract import WORTH_A_TOKEN, CachesSnapshot, RowCount
from mlx_engine.drafting.contract import DrafterSnapshot, TargetRows
from mlx_engine.drafting.drafter import Drafter, NoDraft
from mlx_engine.models.contract import Model
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.model_description import CHECKPOINTS
from mlx_engine.values.options import UNQUANTISED, CacheOptions

MIN_CHECKPOINT_DISTANCE = 512
"""Tokens between two checkpoints on the way through a long prompt, at least."""

CLEAR_EVERY = 256
"""Tokens between two clearings of MLX's buffer cache. KV buffers grow by so many tokens
(cache/attention.py), and a freed buffer of a smaller size is of no use again."""


class Checkpoint(NamedTuple):
    """Snapshot of a conversation after `length` tokens: the model's caches and the drafter.

    drafter: None if another drafter was in use; the present one then reads the tokens again.
    is_on_the_way: made in the middle of a prompt, to which later prompts go back less often.
    """

    length: int
    caches: CachesSnapshot
    drafter: DrafterSnapshot | None
    is_on_the_way: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of memory that only this checkpoint keeps alive."""
        return self.caches.nbytes + (0 if self.drafter is None else self.drafter.nbytes)


class SharedPrompts(Protocol):
    """Protocol of the prompts that conversations share; PromptCache implements it."""

    def reuse_prefix(self, sequence: "SequenceState", prompt_tokens: Sequence[int]) -> None:
        """Let a conversation take over the longest prefix of its prompt that another has read."""

    def answer_ended(self, sequence: "SequenceState") -> None:
        """Note that an answer has ended, and drop conversations beyond the memory limit."""


class SequenceState:
    """State of one conversation: its tokens, the caches and drafter that have read them.

    The newest token of the conversation has been emitted but not read. tokens: those read, numbers
    below 0 where a picture is (pictures.py). model: the target, wrapped
    if the drafter reads more of it than hidden states. cache: bits of keys and values. shared:
    prompts of other conversations. chat: id under which prompts are saved, None outside chats.

    While an answer runs (`is_busy`) two more parts change: last, the newest token, int32 [1], lazy;
    and sampler, which counts tokens for penalties.
    """

    last: mx.array
    sampler: Sampler

    def __init__(
        self,
        plain_model: Model,
        drafter: Drafter | None = None,
        cache: CacheOptions = UNQUANTISED,
        shared: SharedPrompts | None = None,
        chat: str | None = None,
    ) -> None:
        self._plain = plain_model
        self.cache = cache
        self.chat = chat
        self._shared = shared
        self.is_busy = False
        self._set_drafter(drafter or NoDraft())

    def _set_drafter(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.model = drafter.target or self._plain
        self.caches = self.model.make_caches(self.cache.bits)
        self.tokens: list[int] = []
        self.checkpoints: list[Checkpoint] = []
        self._empty = self.snapshot()

    @property
    def can_commit_lazily(self) -> bool:
        """Whether a round can be committed while only the device knows how many rows it accepted.

        Needs the engine's own layers (not mlx-lm's), a drafter that allows it, and no grammar.
        """
        is_free = not self.sampler.depends_on_tokens
        return is_free and self.model.joint_forward is not None and self.drafter.can_follow

    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        """Append to the conversation the first `count` rows of the last pass.

        Not committing rolls the pass back. count: a RowCount, which only the device knows, is
        allowed if `can_follow`; the host has to know it before the next commit. The host passes
        the token ids to `append` once it knows them.
        """
        self.caches.commit(count)
        self.drafter.commit(rows, count)
        if rows.picked is None:  # of a prompt
            return
        self.sampler.commit(rows.picked, count)
        if isinstance(count, int):
            self.last = rows.picked[count - 1 : count]
        else:
            self.last = mx.take(rows.picked, count.length_with_count(-1))

    def append(self, tokens: Sequence[int]) -> None:
        """Append the token ids of committed rows to the conversation.

        Clears MLX's buffer cache every CLEAR_EVERY tokens.
        """
        before = len(self.tokens)
        self.tokens.extend(tokens)
        self.drafter.append(text_only_ids(tokens))
        if before // CLEAR_EVERY != len(self.tokens) // CLEAR_EVERY:
            mx.clear_cache()

    def append_prompt_rows(
        self,
        tokens: Sequence[int],
        hidden: mx.array,
        pictures: PictureRows | None = None,
        *,
        is_far: bool = False,
    ) -> None:
        """Append prompt tokens that a pass has read. hidden: their hidden states [1, rows, H].

        pictures: what stands in rows of pictures. is_far: the tokens are far before the answer, so
        MTP heads need not read them.
        """
        count = len(tokens)
        self.catch_up()
        read = mx.array(text_only_ids(tokens), dtype=mx.int32)
        rows = TargetRows(read, hidden, pictures=pictures)
        if is_far:
            self.caches.commit(count)
            self.drafter.skip_prompt_rows(rows)
        else:
            self.commit(rows, count)
        self.append(tokens)

    def shift_positions(self, shift: int | None) -> None:
        """Set how far RoPE positions of the next rows are ahead of their row numbers.

        None: the conversation has no pictures.
        """
        shift_positions(self.caches, shift or 0)
        self.drafter.shift_positions(shift)

    def reset_state(self) -> None:
        """Drop the conversation's tokens, caches and drafter, as after an error."""
        self._set_drafter(NoDraft())
        mx.clear_cache()

    def drop_tokens(self) -> None:
        """Drop the conversation's tokens to free memory; the next answer reads them again."""
        self._go_back_to(self._empty)

    @contextmanager
    def during_answer(self) -> Iterator[None]:
        """Context of a running answer: nobody frees the caches; an error drops them."""
        self.is_busy = True
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException:
            self.reset_state()
            raise
        finally:
            self.is_busy = False
            if self._shared is not None:
                self._shared.answer_ended(self)

    def replace_drafter(self, drafter: Drafter) -> None:
        """Replace the conversation's drafter. One that reads hidden states begins at token 0.

        A drafter that runs a model over the tokens has to `catch_up` before it drafts.
        """
        if drafter.reads_hidden:
            self._set_drafter(drafter)
            return
        self.drafter = drafter
        self.model = self._plain
        self._empty = self._empty._replace(drafter=drafter.snapshot())
        self.checkpoints = [place._replace(drafter=None) for place in self.checkpoints]
        if not drafter.runs_a_model:
            self.catch_up()

    @property
    def drafter_length(self) -> int:
        """Number of tokens that the drafter has read; fewer than all until `catch_up` is done."""
        return self.drafter.length

    def catch_up(self, at_most_tokens: int | None = None) -> None:
        """Have the drafter read tokens of the conversation that it has not read, all or so many."""
        missed = text_only_ids(self.tokens[self.drafter_length :][:at_most_tokens])
        if missed:
            unused = mx.zeros((1, len(missed), 0))
            self.drafter.commit(TargetRows(mx.array(missed, dtype=mx.int32), unused), len(missed))
            self.drafter.append(missed)
            mx.eval(self.drafter.arrays())

    def snapshot(self) -> Checkpoint:
        """Snapshot the conversation now, lazily; the drafter first reads its unread rows."""
        self.drafter.read_unread_rows()
        return self._lazy_snapshot()

    def _lazy_snapshot(self) -> Checkpoint:
        """Snapshot the conversation now, lazily, with the drafter's unread rows as unread."""
        return Checkpoint(len(self.tokens), self.caches.snapshot(), self.drafter.snapshot())

    def add_checkpoint(self) -> int:
        """Save a checkpoint at the present length; evaluates caches and drafter.

        The drafter first reads its unread rows; returns their number.
        """
        read = self.drafter.read_unread_rows()
        self._add_checkpoint(self._lazy_snapshot())
        return read

    def _add_checkpoint(self, checkpoint: Checkpoint) -> None:
        others = [place for place in self.checkpoints if place.length != len(self.tokens)]
        self.checkpoints = thin_out_checkpoints([*others, checkpoint])
        self.evaluate()

    def add_checkpoint_if_far(self) -> None:
        """Save a checkpoint if the last one is far back, measured by the bytes of a new one.

        The drafter's unread rows are saved as unread.
        """
        last = self.checkpoints[-1] if self.checkpoints else self._empty
        apart = max(MIN_CHECKPOINT_DISTANCE, self.caches.snapshot().nbytes // WORTH_A_TOKEN)
        if len(self.tokens) - last.length >= apart:
            self._add_checkpoint(self._lazy_snapshot()._replace(is_on_the_way=True))

    def evaluate(self) -> None:
        """Evaluate caches and drafter, so that no lazy graph remains."""
        mx.eval(self.caches.arrays(), self.drafter.arrays())

    def reuse_prefix(self, prompt: Sequence[int]) -> int:
        """Go to the longest prefix of `prompt` that some conversation has read; return its length.

        At least one token of the prompt is left to read.
        """
        wanted = prompt[:-1]
        if self._shared is not None:
            self._shared.reuse_prefix(self, wanted)
        common = shared_prefix(self.tokens, wanted)
        if common < len(self.tokens):
            self._go_back_to(self._longest_snapshot(common))
        elif common:
            self.add_checkpoint()  # of what is behind it another conversation may want less
        return len(self.tokens)

    def reusable_length(self, prompt_tokens: Sequence[int]) -> int:
        """Return how many wanted tokens need not be read again, thanks to this conversation."""
        common = shared_prefix(self.tokens, prompt_tokens)
        if common == len(self.tokens) and not self.is_busy:
            return common
        return self._longest_snapshot(common).length

    def snapshot_at(self, count: int) -> Checkpoint:
        """Return a snapshot after the first `count` tokens, or the nearest one before."""
        return self.snapshot() if count >= len(self.tokens) else self._longest_snapshot(count)

    def copy_prefix(self, other_sequence: "SequenceState", prompt_tokens: Sequence[int]) -> None:
        """Take over the longest prefix of the wanted tokens that another conversation has read.

        Arrays are shared until one of the two writes to them, which then copies.
        """
        common = shared_prefix(other_sequence.tokens, prompt_tokens)
        place = (
            other_sequence._longest_snapshot(common)
            if other_sequence.is_busy
            else other_sequence.snapshot_at(common)
        )
        self.tokens = other_sequence.tokens[: place.length]
        self.caches = other_sequence.caches.fork()
        self.caches.restore(place.caches)
        known = [kept for kept in other_sequence.checkpoints if kept.length <= place.length]
        if place.drafter is not None and self._has_same_drafter(other_sequence):
            self.drafter.copy_state(other_sequence.drafter, place.drafter)
            self.drafter.append(text_only_ids(self.tokens))
            self.checkpoints = known
        else:
            self._reset_drafter()
            self.checkpoints = [kept._replace(drafter=None) for kept in known]

    def set_restored_tokens(self, tokens: Sequence[int], newest: mx.array | None) -> None:
        """Set the tokens that a saved prompt has filled the caches with, the drafter's included.

        newest: hidden state of the last token [1, 1, H] for MTP heads.
        """
        memories = tuple(caches.snapshot() for caches in self.drafter.caches)
        snapshot = DrafterSnapshot(len(tokens), memories, newest)
        self.tokens, self.checkpoints = list(tokens), []
        self.drafter.copy_state(self.drafter, snapshot)
        self.drafter.append(text_only_ids(self.tokens))
        self.add_checkpoint()

    def can_copy_prefix(self, other_sequence: "SequenceState") -> bool:
        """Whether this conversation can take over tokens that another one has read."""
        can_follow = not self.drafter.reads_hidden or self._has_same_drafter(other_sequence)
        return (
            self.model is other_sequence.model and self.cache == other_sequence.cache and can_follow
        )

    def _has_same_drafter(self, other_sequence: "SequenceState") -> bool:
        mine, its = self.drafter, other_sequence.drafter
        return type(mine) is type(its) and mine.options.source == its.options.source

    def _longest_snapshot(self, common: int) -> Checkpoint:
        """Return the longest snapshot of at most `common` tokens, an empty one if need be."""
        drafter = self.drafter.restorable_length(common) if self.caches.keeps_all_rows else None
        if drafter is not None:
            return Checkpoint(
                drafter.length, self.caches.snapshot_at_length(drafter.length), drafter
            )
        fitting = [place for place in self.checkpoints if place.length <= common]
        return max(fitting, key=lambda fit: fit.length, default=self._empty)

    def _go_back_to(self, place: Checkpoint) -> None:
        self.caches.restore(place.caches)
        del self.tokens[place.length :]
        if place.drafter is not None:
            self.drafter.restore(place.drafter)
        else:
            self._reset_drafter()
        self.checkpoints = [kept for kept in self.checkpoints if kept.length <= place.length]

    def _reset_drafter(self) -> None:
        """Reset the drafter; one that runs a model reads the tokens again in `catch_up`."""
        if self._empty.drafter is not None:
            self.drafter.restore(self._empty.drafter)
        if not self.drafter.runs_a_model:
            self.catch_up()

    @property
    def nbytes(self) -> int:
        """Bytes of the conversation's caches, drafter and checkpoints."""
        return self.live_nbytes + sum(place.nbytes for place in self.checkpoints)

    @property
    def live_nbytes(self) -> int:
        """Bytes of the conversation's caches and drafter, without checkpoints.

        Conversations may share checkpoints.
        """
        return self.caches.nbytes + self.drafter.nbytes


def thin_out_checkpoints(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Keep at most CHECKPOINTS checkpoints of a conversation, with the first and the newest.

    Drops the one whose neighbours are closest together, relative to its distance from the end; a
    checkpoint made in the middle of a prompt is dropped as if they were four times closer.
    """
    kept = list(checkpoints)
    end = kept[-1].length + 1

    def gap_cost(n: int) -> float:
        gap = (kept[n + 1].length - kept[n - 1].length) / (end - kept[n].length)
        return gap / 4 if kept[n].is_on_the_way else gap

    while len(kept) > CHECKPOINTS:
        del kept[min(range(1, len(kept) - 1), key=gap_cost)]
    return kept


def text_only_ids(tokens: Sequence[int], placeholder_id: int = 0) -> list[int]:
    """Token ids for what sees no pictures: `placeholder_id` where a picture's content stands."""
    return [token if token >= 0 else placeholder_id for token in tokens]


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two token lists have in common at their beginning."""
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
