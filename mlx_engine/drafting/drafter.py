"""A drafter follows one conversation, drafts its next tokens, and goes back to earlier places.

A model that drafts as an MTP head does has a HeadMemory: its caches in the conversation, and the
committed rows that it has not read yet. A row pairs token x_k with the target's hidden state of
position k-1; a small model reads the tokens alone. Caches hold TRUE rows only: a round's committed
rows wait, and are read in the same pass that makes the next draft; how many of them count may be
known to the device alone by then.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.drafting.contract import (
    DEEPEST,
    ROWS_OF_A_PROMPT,
    Draft,
    DrafterSnapshot,
    DraftOffer,
    DraftRequest,
    TargetRows,
    UnreadRowArrays,
    empty_draft,
)
from mlx_engine.drafting.lookup import PromptLookup
from mlx_engine.drafting.output_head import OutputHead
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheBits, DraftOptions, DraftOutput

FLUSH_ROWS = 64
"""Committed rows that may wait for the next draft; more are read without one."""

MOST_WAITING = 2048
"""Rows that may wait while the drafter is paused."""

FEW_WAITING = 32
"""Rows that a draft reads in its own pass; more are read before, to stay there if it is undone."""


FORCED_CHANCE = 0.98
"""Chance that a token that must follow is picked: other tokens may spell the same text."""


class Drafter(ABC):
    """Follows the tokens of one conversation and drafts the next ones; base class of all sources.

    reads_hidden: drafts need the target's hidden states, so the drafter has to be there when the
    target reads; other drafters can read a conversation's tokens later. can_follow: rows can be
    committed, and drafted after, before the host knows their number. target: the model to run in
    the target's place, None for the target itself. offer: what the drafter's model offers for every
    round, None without a model. lookup: prompt lookup, which drafts too, None where the options
    name none. adapting: output heads that take in the conversation's tokens. is_ready: the present
    options ask for this drafter; why_nothing: the reason to give where it offers no draft.
    is_paused: the next round drafts nothing, so committed rows are read later: they cost nothing
    but memory, and plain rounds are as fast as without a drafter.
    """

    reads_hidden: bool = False
    can_follow: bool = False
    target: Model | None = None
    offer: DraftOffer | None = None
    adapting: Sequence[OutputHead] = ()
    lookup: PromptLookup | None = None
    is_ready = True
    why_nothing: Reason | None = None

    def __init__(self, options: DraftOptions, *caches: LayerCaches) -> None:
        self.options = options
        self.is_paused = False
        self._length = 0
        self._count: RowCount | None = None
        self.caches = caches
        self._newest: mx.array | None = None

    @property
    def length(self) -> int:
        """Number of committed tokens, without those of a count that the host does not know yet."""
        self._resolve_length()
        return self._length

    @property
    def runs_a_model(self) -> bool:
        """Whether reading a conversation's tokens takes passes of a model."""
        return bool(self.caches)

    @property
    def nbytes(self) -> int:
        """Bytes that the drafter holds for its conversation."""
        nbytes = sum(caches.nbytes for caches in self.caches)
        nbytes += 0 if self._newest is None else self._newest.nbytes
        return nbytes if self.lookup is None else nbytes + self.lookup.ngrams.nbytes

    @property
    def output_head(self) -> DraftOutput | None:
        """The output head that MTP heads draft with; None where no MTP head drafts."""
        return None

    def load_weights(self) -> None:
        """Read the weights that draft into memory, before the first draft. Raises EngineError."""
        return

    def adopt_options(self, options: DraftOptions) -> None:
        """Apply the draft options that may change between rounds: rule, min_probability, output."""
        self.options = options

    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        """Append to the conversation the first `count` rows of the target's pass.

        Called once for every committed token, in order: the prompt in chunks, then round by round.
        A RowCount (a number that only the device knows) only after a draft of this drafter, and
        where `can_follow`.
        """
        del rows
        self._resolve_length()
        if isinstance(count, int):
            self._length += count
        else:
            self._count = count

    def _resolve_length(self) -> None:
        """Add the last committed number of rows to the length, once the device has told it."""
        if self._count is not None and self._count.known is not None:
            self._length += self._count.known
            self._count = None

    def skip_prompt_rows(self, rows: TargetRows) -> None:
        """Append rows of a long prompt far before the answer, which the drafter may leave out.

        A drafter that can do without their hidden states leaves them out; lazy, they are then never
        computed.
        """
        self.commit(rows, rows.tokens.shape[0])

    def shift_positions(self, shift: int | None) -> None:
        """Set how far the target's RoPE positions of the next rows are ahead of their numbers.

        None: the conversation has no pictures.
        """
        del shift

    def append(self, tokens: Sequence[int]) -> None:
        """Append the ids of committed tokens, once each and in order, as the host learns them.

        One round after `commit`, where rounds are begun ahead.
        """
        if self.lookup is not None:
            self.lookup.ngrams.extend_match(tokens)
        for output in self.adapting:
            output.append(tokens)

    def read_unread_rows(self) -> int:
        """Read committed rows not read yet, unless paused; return how many a head has read."""
        return 0

    def draft_offers(self, newest: int, forced: int = 0) -> tuple[DraftOffer, ...]:
        """Return the drafter's offers for the next round, the preferred one first.

        A copy by prompt lookup is preferred where its match is long. newest: the last token that
        the host knows. forced: how many tokens a grammar forces next; they are drafted first, also
        where nothing else can draft.
        """
        if forced:
            return (DraftOffer("grammar", FORCED_CHANCE, limit=min(forced, DEEPEST)),)
        if not self.is_ready:
            return ()
        own = () if self.offer is None else (self.offer,)
        if self.lookup is None:
            return own
        passage = self.lookup.find_passage(newest)
        if passage is None:
            return own
        copy = DraftOffer("prompt-lookup", passage.chance, passage.is_long, DEEPEST)
        return (copy, *own) if passage.is_long else (*own, copy)

    def draft_by_lookup(self, request: DraftRequest) -> Draft:
        """Draft by prompt lookup; no tokens where nothing matches."""
        if request.depth == 0 or self.lookup is None:  # the newest token may be on its way
            return empty_draft()
        assert request.position == self.lookup.length + 1
        newest: int = request.last.item()  # type: ignore[assignment]
        return Draft(mx.array(self.lookup.copy_tokens(newest, request.depth), dtype=mx.int32))

    @abstractmethod
    def draft(self, request: DraftRequest, sampler: Sampler) -> Draft:
        """Have the model draft at most `request.depth` tokens; fewer where it cannot draft more.

        A draft of which nothing was committed is undone by the next one.
        """

    def snapshot(self) -> DrafterSnapshot:
        """Snapshot the drafter's caches and newest hidden state at `length`, for `restore`."""
        caches = tuple(caches.snapshot() for caches in self.caches)
        return DrafterSnapshot(self.length, caches, self._newest)

    def restorable_length(self, length: int) -> DrafterSnapshot | None:
        """Return the largest length up to `length` that `restore` can reach without a snapshot.

        None where the caches no longer hold the rows before it.
        """
        if not all(caches.keeps_all_rows for caches in self.caches):
            return None
        length = min([length, *(caches.length for caches in self.caches)])
        return DrafterSnapshot(
            length, tuple(caches.snapshot_at_length(length) for caches in self.caches)
        )

    def copy_state(self, other: Self, snapshot: DrafterSnapshot) -> None:
        """Copy the state of another drafter of this kind at one of its snapshots.

        The tokens up to there have still to be given to `append`.
        """
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.copy_layers(theirs)
        if self.lookup is not None:
            self.lookup.shorten_match(0)
        self.restore(snapshot)

    def restore(self, snapshot: DrafterSnapshot) -> None:
        """Take the drafter back to an earlier snapshot of it."""
        for caches, memory in zip(self.caches, snapshot.caches, strict=True):
            caches.restore(memory)
        self._length, self._newest, self._count = snapshot.length, snapshot.newest, None
        if self.lookup is not None:
            self.lookup.shorten_match(snapshot.length)

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the drafter's state, to evaluate so that no graph grows."""
        arrays = [array for caches in self.caches for array in caches.arrays()]
        return arrays if self._newest is None else [*arrays, self._newest]


class NoDraft(Drafter):
    """A drafter without a model: plain decoding, or prompt lookup alone."""

    def __init__(self) -> None:
        super().__init__(DraftOptions(source="none"))

    @override
    def draft(self, request: DraftRequest, sampler: Sampler) -> Draft:
        del request, sampler
        return empty_draft()


class UncountedRows(NamedTuple):
    """Committed rows for an MTP head, of which only the device knows how many count.

    Each row pairs the target's picked token with the hidden state it was picked from, so that the
    last row that counts is that of the newest token.
    """

    rows: UnreadRowArrays
    counted: RowCount

    def first_rows(self, count: int) -> UnreadRowArrays:
        """Return the first `count` rows, once the host knows how many count."""
        return UnreadRowArrays(self.rows.tokens[:count], self.rows.hidden[:, :count])


class StateBeforeDraft(NamedTuple):
    """State of an MTP head's caches and unread rows before a draft, to undo that draft with."""

    place: CachesSnapshot
    waiting: tuple[UnreadRowArrays, ...]
    open: UncountedRows | None


class UnreadRows(NamedTuple):
    """Rows for an MTP head's next pass.

    true_rows: how many of them stay in the caches. newest: int32 [1], the row after which a token
    is drafted; None for the last.
    """

    rows: UnreadRowArrays
    true_rows: int | RowCount
    newest: mx.array | None = None


class HeadMemory:
    """The caches of an MTP head in one conversation, and committed rows that it has not read yet.

    If too many rows are unread, the oldest of them are dropped. waiting: the unread rows; unread:
    their number. open: rows after these, of which only the device knows how many count. gap: the
    caches' length when rows were last dropped. can_share_passes: a pass may have rows
    of several conversations.
    """

    def __init__(
        self, head: MtpHead, bits: CacheBits = 16, *, can_share_passes: bool = True
    ) -> None:
        """Make empty caches for an MTP head. bits: of keys and values."""
        self.head, self.can_join = head, can_share_passes
        self.caches = head.make_head_caches(bits)
        self.gap = self.unread = 0
        self.waiting: list[UnreadRowArrays] = []
        self.open: UncountedRows | None = None

    def set_unread_rows(self, waiting: Sequence[UnreadRowArrays]) -> None:
        """Replace the committed rows that the MTP head has not read yet."""
        self.waiting, self.unread = list(waiting), 0
        for rows in waiting:
            self.unread += rows.tokens.shape[0]

    def add_unread_rows(self, rows: UnreadRowArrays) -> None:
        """Keep committed rows for the MTP head's next pass."""
        self.waiting.append(rows)
        self.unread += rows.tokens.shape[0]

    def drop_unread_rows(self, kept_rows: int) -> None:
        """Drop unread rows of the MTP head, the oldest first, all but `kept_rows`.

        Sets `gap`, for kept = 0 even if no row was unread.
        """
        if kept_rows and self.unread <= kept_rows:
            return
        first, over = 0, self.unread - kept_rows
        while over and (count := self.waiting[first].tokens.shape[0]) <= over:
            first, over = first + 1, over - count
        newest = self.waiting[first:]
        if over:
            newest[0] = newest[0].newest_rows(newest[0].tokens.shape[0] - over)
        self.gap = self.caches.length
        self.set_unread_rows(newest)

    def read_rows(self, drafted: Sequence[UnreadRowArrays] = ()) -> mx.array:
        """Have the MTP head read all unread rows, then drafted rows, whose cache rows do not stay.

        Returns the head's states [1, T, H] of all of them; open rows stay unread.
        """
        rows, true_rows = concatenate_rows([*self.waiting, *drafted]), self.unread
        self.set_unread_rows(())
        states = self.head.mtp_forward(rows.tokens[None], rows.hidden, self.caches)
        self.caches.commit(true_rows)
        return states

    def read_picture_rows(self, rows: UnreadRowArrays, pictures: PictureRows) -> None:
        """Have the MTP head read unread rows, then rows with pictures. pictures: of `rows`."""
        if self.unread:
            self.read_rows()
        self.head.mtp_forward(rows.tokens[None], rows.hidden, self.caches, pictures)
        self.caches.commit(rows.tokens.shape[0])

    def begin_draft(self, newest: UnreadRowArrays | None) -> StateBeforeDraft:
        """Prepare a draft after the newest token's row; return the state to `undo` it with.

        newest: None where that row is the last open one that counts.
        """
        if self.unread > FEW_WAITING:
            self.read_rows()
        before = StateBeforeDraft(self.caches.temporary_snapshot(), tuple(self.waiting), self.open)
        if newest is not None:
            self.add_unread_rows(newest)
        return before

    def pop_unread_rows(self, drafted: Sequence[UnreadRowArrays] = ()) -> UnreadRows:
        """Return the rows that the MTP head has not read, then drafted ones, as its next input.

        They no longer count as unread.
        """
        opened, self.open = self.open, None
        if opened is None:
            rows, true_rows = concatenate_rows([*self.waiting, *drafted]), self.unread
            self.set_unread_rows(())
            return UnreadRows(rows, true_rows)
        if self.waiting:
            self.read_rows()
        rows, count = concatenate_rows([opened.rows, *drafted]), opened.counted
        if drafted:  # rows that count first, then drafted ones, then what is left
            order = mx.arange(count.most + len(drafted))
            behind = order + mx.where(order < count.rows, 0, count.most - count.rows)
            order = mx.minimum(behind, rows.tokens.shape[0] - 1)
            rows = UnreadRowArrays(mx.take(rows.tokens, order), mx.take(rows.hidden, order, axis=1))
        return UnreadRows(rows, count, count.length_with_count(len(drafted) - 1))

    def undo_draft(self, before: StateBeforeDraft) -> None:
        """Go back to before a draft; the newest token's row is not added to the unread rows."""
        self.caches.restore(before.place)
        self.set_unread_rows(before.waiting)
        self.open, opened = None, before.open
        known = None if opened is None else opened.counted.known
        if known is None:
            self.open = opened
        elif opened is not None and known > 1:
            self.add_unread_rows(opened.first_rows(known - 1))

    def count_missing_rows(self, rows: int) -> int:
        """Return how many of a conversation's first `rows` rows were dropped unread."""
        return max(0, rows - self.caches.length - self.unread)

    def length_without_missing(self, rows: int, missing_rows: int) -> int:
        """Return how many rows the head's caches hold after a conversation's first `rows` rows.

        missing_rows: rows at the end that the head has not read. 0 where the rows that were dropped
        unread (`gap`) would lie right before the next row.
        """
        return rows - missing_rows if rows - missing_rows >= self.gap else 0

    def read_unread_rows(self) -> int:
        """Have the MTP head read its newest unread rows, in chunks; return their number.

        Older ones than ROWS_OF_A_PROMPT are dropped.
        """
        self.drop_unread_rows(ROWS_OF_A_PROMPT)
        waiting, count = self.waiting, self.unread
        self.set_unread_rows(())
        for rows in waiting:
            self.add_unread_rows(rows)
            if self.unread >= FLUSH_ROWS or rows is waiting[-1]:
                self.read_rows()
        # waited for: what async_eval is given is held, and could not be written in place meanwhile
        mx.eval(self.caches.arrays() if count else [])
        return count


def concatenate_rows(parts: Sequence[UnreadRowArrays]) -> UnreadRowArrays:
    """Concatenate rows (tokens and hidden states) into one block."""
    if len(parts) == 1:
        return parts[0]
    tokens, hidden = zip(*parts, strict=True)
    return UnreadRowArrays(mx.concatenate(list(tokens)), mx.concatenate(list(hidden), axis=1))
