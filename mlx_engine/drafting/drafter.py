"""A drafter follows one conversation, drafts its next tokens, and goes back to earlier places."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.drafting.lookup import PromptLookup
from mlx_engine.drafting.output_head import OutputHead
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions, DraftOutput

DEEPEST = 15
"""The longest draft of drafters that make long ones cheaply; the target verifies 16 rows then."""

ROWS_AFTER_PAUSE = 16
"""Newest rows that a head reads for its first draft after a pause.

With only these before it first drafts are accepted as often as with all of 400 (0.65 and 0.65 on a
trained toy, 0.66 and 0.67 on the built-in model; with 4 rows 0.63 and 0.58), and to read all that
waits would cost a processor as much as never to have rested.
"""

ROWS_OF_A_PROMPT = 256
"""Newest rows of a prompt that a head reads.

With all rows of prompts of 1,100 tokens no more drafts are accepted: first to third ones 0.80, 0.69
and 0.61 of the built-in model (0.80, 0.68, 0.62 with these), 0.54, 0.27 and 0.15 of a trained toy
(0.53, 0.29, 0.17).
"""


class Draft(NamedTuple):
    """Drafted tokens for the target to verify, int32 [k]; lazy where a model drafts.

    passes: number of passes of a head or small model, also for a draft of no tokens.
    """

    tokens: mx.array
    passes: int = 0


def empty_draft() -> Draft:
    """A draft without tokens: the round decodes plainly."""
    return Draft(mx.zeros((0,), dtype=mx.int32))


class Offer(NamedTuple):
    """A drafter's offer to draft in the next round.

    chance: the drafter's estimate that a token is accepted, None when it has none. is_long: the
    draft would repeat a long earlier passage, and is preferred. limit: the deepest draft.
    """

    by: DraftedBy
    chance: float | None = None
    is_long: bool = False
    limit: int = MAX_DEPTH


class DraftRequest(NamedTuple):
    """A request to a drafter for `depth` tokens after the newest token of a conversation.

    last: the newest token of the conversation, which no model has read yet, int32 [1]; lazy.
    position: index in the conversation of the first token to draft. by: whose offer was taken.
    """

    depth: int
    last: mx.array
    position: int
    by: DraftedBy | None = None


class ReadRows(NamedTuple):
    """Tokens that the target has read in its last pass or a prompt, and what it computed; lazy.

    tokens: int [R]. hidden: hidden states [1, R, H]. picked: the target's next token after each
    row, int32 [R], -1 where a logit of the row is not finite; None in a prompt.
    """

    tokens: mx.array
    hidden: mx.array
    picked: mx.array | None = None

    def first(self, count: int) -> "ReadRows":
        """Return the first `count` rows: their tokens, hidden states and picked tokens; lazy."""
        if count == self.tokens.shape[0]:
            return self
        picked = None if self.picked is None else self.picked[:count]
        return ReadRows(self.tokens[:count], self.hidden[:, :count], picked)


class Rows(NamedTuple):
    """Input of an MTP head: tokens int [T], hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array

    def last(self, count: int) -> "Rows":
        """Copy the newest `count` rows (tokens and hidden states), so that the others are freed."""
        if self.tokens.shape[0] <= count:
            return self
        return Rows(self.tokens[-count:], mx.contiguous(self.hidden[:, -count:]))


class DrafterSnapshot(NamedTuple):
    """Snapshot of a drafter after `length` tokens of a conversation.

    caches: of the drafter's models, in the order of `Drafter.caches`. newest: the target's hidden
    state [1, 1, H] that has no token yet. waiting: for each head, the rows that it has not read,
    which overlap; empty where no head has any.
    """

    length: int
    caches: tuple[CachesSnapshot, ...] = ()
    newest: mx.array | None = None
    waiting: tuple[tuple[Rows, ...], ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of memory that only this drafter snapshot keeps alive."""
        nbytes = sum(caches.nbytes for caches in self.caches)
        heads = (sum(rows.hidden.nbytes for rows in waiting) for waiting in self.waiting)
        nbytes += max(heads, default=0)
        return nbytes + (0 if self.newest is None else self.newest.nbytes)


class Drafter(ABC):
    """Follows the tokens of one conversation and drafts the next ones; base class of all sources.

    reads_hidden: drafts need the target's hidden states, so the drafter has to be there when the
    target reads; other drafters can read a conversation's tokens later. can_follow: rows can be
    committed, and drafted after, before the host knows their number. target: the model to run in
    the target's place, None for the target itself. offer: what the drafter's model offers for every
    round, None without a model. lookup: prompt lookup, which drafts too, None where the options
    name none. adapting: output heads that take in the conversation's tokens. is_paused: the
    next round drafts nothing, so committed rows are read later: they cost nothing but memory, and
    plain rounds are as fast as without a drafter.
    """

    reads_hidden: bool = False
    can_follow: bool = False
    target: Model | None = None
    offer: Offer | None = None
    adapting: Sequence[OutputHead] = ()
    lookup: PromptLookup | None = None

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
        self._resolve()
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
    def output(self) -> DraftOutput | None:
        """The output head that MTP heads draft with; None where no MTP head drafts."""
        return None

    def prepare(self) -> None:
        """Read the weights that draft into memory, before the first draft. Raises EngineError."""
        return

    def follow(self, options: DraftOptions) -> None:
        """Take over draft options that may change between rounds: rule, min_probability, output."""
        self.options = options

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Append to the conversation the first `count` rows of the target's pass.

        Called once for every committed token, in order: the prompt in chunks, then round by round.
        A RowCount (a number that only the device knows) only after a draft of this drafter, and
        where `can_follow`.
        """
        del rows
        self._resolve()
        if isinstance(count, int):
            self._length += count
        else:
            self._count = count

    def _resolve(self) -> None:
        """Add the last committed number of rows to the length, once the host knows it."""
        if self._count is not None and self._count.known is not None:
            self._length += self._count.known
            self._count = None

    def skip(self, rows: ReadRows) -> None:
        """Append rows of a long prompt far before the answer, which the drafter may leave out.

        A drafter that can do without their hidden states leaves them out; lazy, they are then never
        computed.
        """
        self.commit(rows, rows.tokens.shape[0])

    def append(self, tokens: Sequence[int]) -> None:
        """Append the ids of committed tokens, once each and in order, as the host learns them.

        One round after `commit`, where rounds are begun ahead.
        """
        if self.lookup is not None:
            self.lookup.ngrams.extend(tokens)
        for output in self.adapting:
            output.append(tokens)

    def flush(self) -> int:
        """Read committed rows not read yet, unless paused; return how many a head has read."""
        return 0

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Return the drafter's offers for the next round, the preferred one first.

        A copy by prompt lookup is preferred where its match is long. newest: the last token that
        the host knows.
        """
        own = () if self.offer is None else (self.offer,)
        if self.lookup is None:
            return own
        passage = self.lookup.find(newest)
        if passage is None:
            return own
        copy = Offer("prompt-lookup", passage.chance, passage.is_long, DEEPEST)
        return (copy, *own) if passage.is_long else (*own, copy)

    def copy(self, request: DraftRequest) -> Draft:
        """Draft by prompt lookup; no tokens where nothing matches."""
        if request.depth == 0 or self.lookup is None:  # the newest token may be on its way
            return empty_draft()
        assert request.position == self.lookup.length + 1
        newest: int = request.last.item()  # type: ignore[assignment]
        return Draft(mx.array(self.lookup.copy(newest, request.depth), dtype=mx.int32))

    @abstractmethod
    def draft(self, request: DraftRequest, sampler: Sampler) -> Draft:
        """Have the model draft at most `request.depth` tokens; fewer where it cannot draft more.

        A draft of which nothing was committed is undone by the next one.
        """

    def snapshot(self) -> DrafterSnapshot:
        """Snapshot the drafter's caches and newest hidden state at `length`, for `restore`."""
        caches = tuple(caches.snapshot() for caches in self.caches)
        return DrafterSnapshot(self.length, caches, self._newest)

    def earlier(self, length: int) -> DrafterSnapshot | None:
        """Return the largest length up to `length` that `restore` can reach without a snapshot.

        None where the caches no longer hold the rows before it.
        """
        if not all(caches.keeps_all_rows for caches in self.caches):
            return None
        length = min([length, *(caches.length for caches in self.caches)])
        return DrafterSnapshot(length, tuple(caches.at(length) for caches in self.caches))

    def join(self, other: Self, snapshot: DrafterSnapshot) -> None:
        """Copy the state of another drafter of this kind at one of its snapshots.

        The tokens up to there have still to be given to `append`.
        """
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.take_over(theirs)
        if self.lookup is not None:
            self.lookup.shorten(0)
        self.restore(snapshot)

    def restore(self, snapshot: DrafterSnapshot) -> None:
        """Take the drafter back to an earlier snapshot of it."""
        for caches, memory in zip(self.caches, snapshot.caches, strict=True):
            caches.restore(memory)
        self._length, self._newest, self._count = snapshot.length, snapshot.newest, None
        if self.lookup is not None:
            self.lookup.shorten(snapshot.length)

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
